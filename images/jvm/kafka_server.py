#!/usr/bin/env python3
"""Become a server of Kafka as in its own images: KAFKA_{PROPERTY} is a property, CLUSTER_ID the ID of the cluster."""

import os
import subprocess
import tempfile
from pathlib import Path

JAVA = ["java", "-cp", "/opt/kafka/*"]


def property_of(variable: str) -> str:
    """Return the property that a variable sets: `_` stands for a dot, `__` for `_`, `___` for `-`."""
    dotted = variable.removeprefix("KAFKA_").lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def main() -> None:
    """Write server.properties, format the storage where that was not done yet, and start the server."""
    properties = Path(tempfile.mkdtemp(), "server.properties")
    chosen = {name: value for name, value in sorted(os.environ.items()) if name.startswith("KAFKA_")}
    properties.write_text("".join(f"{property_of(name)}={value}\n" for name, value in chosen.items()))
    command = ["format", "--ignore-formatted", f"--cluster-id={os.environ['CLUSTER_ID']}", f"--config={properties}"]
    subprocess.run([*JAVA, "kafka.tools.StorageTool", *command], check=True)
    os.execvp(JAVA[0], [*JAVA, "kafka.Kafka", str(properties)])


if __name__ == "__main__":
    main()
