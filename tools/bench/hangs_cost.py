"""Measure what the sidecar costs that leads a gang of 1,000: a real one, which asks a server at the address of each.

The servers answer as sidecars of ranks that make steps do. Time is that of rounds after the first.
"""

import json
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import psutil

from bench.results import flags
from bench.scene import cpu_seconds, resident_mib
from frameworkbarrier.health.lead import encode
from frameworkbarrier.health.verdict import Answer
from frameworkrelease.generate.pages import table
from localcluster.processes.ports import free_port

TASKS, ROUNDS = 1000, 3
PEERS = [(f"worker-{n}", f"127.1.{n // 256}.{n % 256}", "uid", "") for n in range(TASKS)]
(NAME, HOST, UID, _), *OTHERS = PEERS


def answer(listeners: list[socket.socket], asked: list[socket.socket]) -> None:
    """Answer for who is asked, and count it; a question is one write."""
    while True:
        for listener in select.select(listeners, [], [])[0]:
            with listener.accept()[0] as connection:
                connection.recv(4096)
                found = encode(Answer(len(asked), len(asked), 0.5, 120.0, 0.5), UID, 0)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + found)
                asked.append(listener)


def main() -> None:
    """Run from the command line."""
    flags(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port, asked = free_port(), list[socket.socket]()
        listeners = [socket.create_server((ip, port)) for _, ip, *_ in OTHERS]
        threading.Thread(target=answer, args=(listeners, asked), daemon=True).start()
        Path(folder, "rank").write_text("1")
        options = {"floor": 120, "factor": 8, "first": 1800, "dir": folder, "port": port}
        own = json.dumps({**options, "task": NAME, "host": HOST, "uid": UID})
        command = [sys.executable, "-m", "frameworkbarrier.health.monitor", own]
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as lead:
            print(json.dumps({"epoch": 0, "peers": PEERS, "ending": False}), file=lead.stdin, flush=True)
            samples = []
            for wanted in (TASKS, (1 + ROUNDS) * TASKS):
                while len(asked) < wanted:
                    time.sleep(0.1)
                samples.append((len(asked), time.monotonic(), cpu_seconds(psutil.Process(lead.pid))))
            memory = resident_mib(psutil.Process(lead.pid))
            with urlopen(f"http://{HOST}:{port}/gang") as gang:
                known = json.load(gang)["ranks"]
    requests, seconds, cpu = (last - first for first, last in zip(*samples, strict=True))
    row = known, f"{requests / seconds:.1f}", f"{100 * cpu / seconds:.1f}", f"{memory:.1f}"
    print(*table(["ranks known", "requests a second", "% of a core", "MiB"], [row]), sep="\n")


if __name__ == "__main__":
    main()
