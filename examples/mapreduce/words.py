"""Count words by map and reduce: `words.py map` or `words.py reduce`, with the part that belongs to the Task index."""

import collections
import json
import os
import sys
import time
import zlib
from pathlib import Path

SHARED = Path("/shared")
PAUSE, PATIENCE = 0.2, 600
TEXTS = ["the gang waits for the last of its peers", "a peer that is lost is replaced", "the last peer opens the gate"]


def number_of(role: str) -> int:
    """Return the number of Tasks of a role, from the variables that the barrier writes."""
    return len(os.environ[f"FB_{role.upper()}_IPS"].split(","))


def write(name: str, counts: dict[str, int]) -> None:
    """Write a file that appears whole, whenever the Pod may be killed and done again."""
    new = SHARED / f".{name}.{os.environ['FC_POD_UID']}"
    new.write_text(json.dumps(counts))
    new.rename(SHARED / name)


def read(name: str) -> dict[str, int]:
    """Read a file, once it is there."""
    deadline = time.monotonic() + PATIENCE
    while not (SHARED / name).exists():
        if time.monotonic() > deadline:
            sys.exit(f"{name} did not appear in {PATIENCE} s")
        time.sleep(PAUSE)
    counts: dict[str, int] = json.loads((SHARED / name).read_text())
    return counts


def do_map(index: int) -> None:
    """Count the words of one text, and write a file for each reduce."""
    parts: list[collections.Counter[str]] = [collections.Counter() for _ in range(number_of("reduce"))]
    for word in TEXTS[index].split():
        parts[zlib.crc32(word.encode()) % len(parts)][word] += 1
    for to, part in enumerate(parts):
        write(f"map-{index}-{to}.json", part)
    print(f"map {index}: {sum(map(sum, (part.values() for part in parts)))} words", flush=True)


def do_reduce(index: int) -> None:
    """Add what every map has written for this reduce, and fail unless it is right."""
    total: collections.Counter[str] = collections.Counter()
    for part in range(number_of("map")):
        total.update(read(f"map-{part}-{index}.json"))
    write(f"result-{index}.json", total)
    words = " ".join(TEXTS).split()
    assert all(words.count(word) == count for word, count in total.items()), total
    print(f"reduce {index}: {dict(total.most_common())}", flush=True)
    if index == 0:
        results = [read(f"result-{part}.json") for part in range(number_of("reduce"))]
        assert {word for result in results for word in result} == set(words), results
        print(f"all {len(set(words))} words are counted", flush=True)


if __name__ == "__main__":
    {"map": do_map, "reduce": do_reduce}[sys.argv[1]](int(os.environ["FC_TASK_INDEX"]))
