"""Write files into HDFS by WebHDFS, read all of them after each, and end when every datanode has a copy of each."""

import hashlib
import http.client
import json
import os
import random
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES, SIZE, PAUSE, PATIENCE = 12, 1 << 20, 1.0, 600
DATANODES = Path("/mnt/frameworkbarrier/datanode.hosts")


def patiently(what: str, action: Callable[..., Any], *arguments: object) -> Any:
    """Return the result of an action, tried again while servers start or are replaced."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return action(*arguments)
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() > deadline:
                raise
            print(f"trying again to {what}: {error}", flush=True)
            time.sleep(PAUSE)


def url(name: str, operation: str) -> str:
    """Return the URL of an operation on a file."""
    return f"http://{os.environ['NAMENODE']}:9870/webhdfs/v1/batch/{name}?user.name=hadoop&op={operation}"


def ask(address: str, data: bytes | None = None, method: str = "GET") -> bytes:
    """Send a request, and return the body of the answer."""
    request = urllib.request.Request(address, data, {"Content-Type": "application/octet-stream"}, method=method)
    with urllib.request.urlopen(request, timeout=15) as answer:
        content: bytes = answer.read()
        return content


def write(name: str, content: bytes) -> None:
    """Write a file: the namenode says to which datanode."""
    answer = json.loads(ask(url(name, "CREATE&overwrite=true&noredirect=true"), method="PUT"))
    ask(answer["Location"], content, method="PUT")


def read(name: str) -> bytes:
    """Read a file: the namenode redirects to a datanode."""
    return ask(url(name, "OPEN"))


def copied(name: str) -> None:
    """Fail unless each datanode that is there now has a copy of the file, which is one block."""
    (block,) = json.loads(ask(url(name, "GETFILEBLOCKLOCATIONS")))["BlockLocations"]["BlockLocation"]
    found = sorted(each.rpartition(":")[0] for each in block["names"])
    if found != sorted(DATANODES.read_text().split()):
        raise OSError(f"it is at {', '.join(found)}")


def main() -> None:
    """Write and read."""
    sums: dict[str, bytes] = {}
    for index in range(FILES):
        name, content = f"file-{index}", random.Random(index).randbytes(SIZE)
        patiently(f"write {name}", write, name, content)
        sums[name] = hashlib.sha256(content).digest()
        for each, expected in sums.items():
            found = patiently(f"read {each}", read, each)
            assert hashlib.sha256(found).digest() == expected, each
        print(f"{len(sums)} files written, all are right", flush=True)
        time.sleep(PAUSE)
    for name in sums:
        patiently(f"find all copies of {name}", copied, name)
    print(f"each datanode has {FILES} files", flush=True)


if __name__ == "__main__":
    main()
