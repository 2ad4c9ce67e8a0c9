"""Count words by map and reduce: `words.py map` or `words.py reduce`, with the part that belongs to the Task index."""

import collections
import json
import os
import sys
import zlib
from pathlib import Path

SHARED = Path("/shared")
TEXTS = ["the gang waits for the last of its peers", "a peer that is lost is replaced", "the last peer opens the gate"]


def write(name: str, counts: dict[str, int]) -> None:
    """Write a file that appears whole, whenever the Pod may be killed and done again."""
    new = SHARED / f".{name}.{os.environ['FC_POD_UID']}"
    new.write_text(json.dumps(counts))
    new.rename(SHARED / name)


def do_map(index: int) -> None:
    """Count the words of one text."""
    counts = collections.Counter(TEXTS[index].split())
    write(f"map-{index}.json", counts)
    print(f"map {index}: {counts.total()} words", flush=True)


def do_reduce(index: int) -> None:
    """Add the words that belong to this reduce, of what all maps have written, and fail unless it is right."""
    reduces = len(os.environ["FB_REDUCE_IPS"].split(","))
    files = sorted(SHARED.glob("map-*.json"))
    assert len(files) == len(os.environ["FB_MAP_IPS"].split(",")), files
    total: collections.Counter[str] = collections.Counter()
    for file in files:
        total.update(json.loads(file.read_text()))
    mine = {word: count for word, count in total.most_common() if zlib.crc32(word.encode()) % reduces == index}
    words = " ".join(TEXTS).split()
    assert all(words.count(word) == count for word, count in total.items()), total
    write(f"result-{index}.json", mine)
    print(f"reduce {index} has {len(mine)} of {len(set(words))} words: {mine}", flush=True)


if __name__ == "__main__":
    {"map": do_map, "reduce": do_reduce}[sys.argv[1]](int(os.environ["FC_TASK_INDEX"]))
