"""A worker is killed and one is added while the training goes on."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Kill worker-1, wait until two train again, make them three, and wait for the end."""
    example.apply()
    example.logged("elastic-worker-0", "2 members from step 1 on")
    example.logged("elastic-worker-0", "step 50")
    example.kill("elastic-worker-1")
    # The survivor goes on alone if the new worker-1 takes longer than the rendezvous waits; in the end they are two.
    example.logged("elastic-worker-0", "2 members from step")
    example.rescale("worker", 3)
    example.logged("elastic-worker-2", "3 members from step")
    example.logged("elastic-worker-0", "3 members found")
    example.ends("Succeeded")
