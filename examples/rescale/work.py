"""Divide the work among the peers that the barrier lists, again whenever the list changes, until one peer is left."""

import os
import signal
import sys
import time
from pathlib import Path

PEERS, ITEMS, PAUSE = Path("/mnt/frameworkbarrier/worker.hosts"), 12, 0.2


def main() -> None:
    """Say which items are mine; end when I am the last after there were more."""
    index = int(os.environ["FC_TASK_INDEX"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("I have to go"))
    known: list[str] = []
    while True:
        peers = PEERS.read_text().split()
        if len(peers) == 1 < len(known):
            print("I am the last, and do the rest alone", flush=True)
            return
        if peers != known:
            known = peers
            print(f"{len(peers)} peers, my items: {list(range(ITEMS))[index :: len(peers)]}", flush=True)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
