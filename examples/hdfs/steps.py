"""A datanode is killed while files are written and read, and the one that replaces it gets its blocks."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Kill a datanode after the first files, and wait until each datanode has all files."""
    example.apply()
    example.logged("hdfs-batch-0", "3 files written, all are right")
    example.kill("hdfs-datanode-1")
    example.logged("hdfs-batch-0", "each datanode has 12 files")
    example.ends("Succeeded")
