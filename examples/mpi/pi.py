"""Compute pi by numerical integration, each rank a part of it, summed up by MPI's allreduce."""

import math
import os
import socket
from pathlib import Path

import numpy as np
from mpi4py import MPI

STEPS = 40_000_000


def main() -> None:
    """Compute, and fail unless all ranks have the same right sum and every host of the hostfile takes part."""
    world = MPI.COMM_WORLD
    x = (np.arange(world.rank, STEPS, world.size) + 0.5) / STEPS
    part = float(np.sum(4 / (1 + x * x)) / STEPS)
    pi = world.allreduce(part)
    print(f"rank {world.rank} of {world.size} on {socket.gethostname()}: {part:.6f} of {pi:.6f}", flush=True)
    assert math.isclose(pi, math.pi, rel_tol=1e-9), pi

    hosts = world.gather(socket.gethostname())
    if world.rank == 0:
        lines = Path(os.environ["OMPI_MCA_orte_default_hostfile"]).read_text().splitlines()
        slots = {line.split()[0]: int(line.split("slots=")[1]) for line in lines}
        assert world.size == sum(slots.values()), slots
        assert len(set(hosts)) == len(slots), hosts
        print(f"{world.size} ranks on {len(slots)} Pods agree on pi = {pi:.9f}", flush=True)


if __name__ == "__main__":
    main()
