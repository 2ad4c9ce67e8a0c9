"""Start a node of Ray: `node.py head`, `node.py worker`, or `node.py driver COMMAND...` to run the command on it."""

import os
import socket
import subprocess
import sys
import time

RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={os.environ['POD_IP']}"]
OBJECTS = "--object-store-memory=100000000"
PAUSE, PATIENCE = 1.0, 600


def wait_for(address: str) -> None:
    """Wait until the head listens; the gate opens when it has an address, which is earlier."""
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"the head {address} does not listen: {error}")
            time.sleep(PAUSE)
        else:
            return


def main(kind: str, *command: str) -> None:
    """Become the process of the node, or that of the command."""
    address = os.environ["FB_HEAD_ADDRESSES"]
    if kind == "head":
        port = address.rsplit(":", 1)[1]
        head = [*RAY, "--head", f"--port={port}", "--num-cpus=0", OBJECTS, "--include-dashboard=false", "--block"]
        os.execvp(head[0], head)
    wait_for(address)
    node = [*RAY, f"--address={address}", OBJECTS]
    if kind == "worker":
        os.execvp(node[0], [*node, "--num-cpus=1", "--block"])
    subprocess.run([*node, "--num-cpus=0"], check=True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
