"""What a container writes, on its way to a terminal: `sanitize`, `shorten`, the lines of `frameworkctl logs`, `--grep`.

A genome has the pieces of the text, and the way that it takes.
"""

import io
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from frameworkclient.cli.commands.log_output import LogPrinter
from frameworkclient.cli.terminal import Colours
from frameworkclient.logs.lines import LineCutter, LogBatch, LogLine, LogSource
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.text import sanitize, shorten
from tests.cost.bounds import LINE_BYTES
from tests.cost.genes import joined, mutated_pieces
from tests.cost.meter import Genome, Play, Size, Step

SOURCE = LogSource("worker-0", (0, 0), "p", "u", "main", 0, "worker-0")
STAMP = "2026-01-01T12:00:00.000000001Z"
WAYS = ("sanitize", "shorten", "terminal", "terminal without colours", "grep", "grep text", "lines")
GREP = {"grep": {"grep": "error.*rank.*node.*timeout"}, "grep text": {"grep_text": "rank " * 20 + "timeout"}}
ALPHABET = (
    *("\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b(", "\x9b", "\x9d", "[", "]", "\x07", "\\", "\x1b\\", ";", "?", "0", "9"),
    *(" ", "  ", "!", "/", "m", "H", "\r", "\t", "\n", "a", "é", "\u0100", "\U0001f600", "\u202e", "\ufffd", "\ud800"),
    *("\x00", "\x85", "\u2028"),
    *("error ", "rank ", "node ", "timeou"),
    *(f"{STAMP} ", f"{STAMP} a\n", "\x1b[0m", "\x1b]0;a\x07", "\x1b[38;5;1m"),
)
CHUNKS = (64, 1000, 65_536)


class Outputs:
    """The filters of output."""

    name = "output"

    def seeds(self) -> Mapping[str, Genome]:
        """Return what took quadratic time, in each way that has such an expression, and what is usual."""
        # A tenth of what one line may have: where the time is quadratic, this is enough to see it.
        found = {
            "titles without an end": [["\x1b]", 12_000]],
            "titles with half an end": [["\x1b]\x1b", 8000]],
            "parameters without an end": [["\x1b[", 1], ["0", 24_000]],
            "many parameters without an end": [["\x1b[0;", 6000]],
            "spaces without an end": [["\x1b[", 1], [" ", 24_000]],
            "sequences of eight bits": [["\x9b0;", 8000]],
            "escapes alone": [["\x1b", 24_000]],
            "returns": [["\r", 12_000], ["a\r", 6000]],
            "colours": [["\x1b[31ma\x1b[0m", 2400]],
            "plain text": [["a", 24_000]],
            # What took memory for each character, or for each piece between what is left out; a tenth shows nothing.
            "wide characters": [["\ufffd", 200_000]],
            "tabs beside a wide character": [["\U0001f600", 1], ["\t", 250_000]],
            "tabs behind words": [["rank ", 201], ["\U0001f600", 1], ["\t", 250_000]],
            "short words": [["\u0100 ", 120_000]],
            "controls between characters": [["\u0100\x00", 120_000]],
        }
        seeds: dict[str, Genome] = {
            f"{name}, {way}": {"way": way, "pieces": pieces} for name, pieces in found.items() for way in WAYS[:4]
        }
        for way in GREP:
            seeds[f"words without the last one, {way}"] = {"way": way, "pieces": [["error rank node ", 16_000]]}
            seeds[f"a word again and again, {way}"] = {"way": way, "pieces": [["error ", 1], ["rank ", 52_000]]}
        for chunk in CHUNKS:
            lines: Genome = {"way": "lines", "chunk": chunk}
            long = [[f"{STAMP} ", 1], ["a", LINE_BYTES - 1000]]
            seeds[f"a line without an end in chunks of {chunk}"] = lines | {"pieces": long}
            seeds[f"short lines in chunks of {chunk}"] = lines | {"pieces": [[f"{STAMP} a\n", 4000]]}
        return seeds

    def mutated(self, genome: Genome, draw: random.Random) -> Genome:
        """Change a piece, or the way."""
        way, chunk, pieces = genome["way"], genome.get("chunk", 1000), genome["pieces"]
        if draw.random() < 0.1:
            way, chunk = draw.choice(WAYS), draw.choice(CHUNKS)
        changed = [list(piece) for piece in mutated_pieces(pieces, ALPHABET, draw, LINE_BYTES)]
        return {"way": way, "pieces": changed, "chunk": chunk}

    def case(self, genome: Genome) -> "Output | None":
        pieces, chunk = genome["pieces"], genome.get("chunk", 1000)
        text = joined(pieces, LINE_BYTES)
        return None if text is None else Output(str(genome["way"]), text, chunk)


@dataclass
class Output:
    """A text on one of `WAYS`, and the bytes of a chunk where it comes in chunks."""

    way: str
    text: str
    chunk: int
    bound: str = "output"
    requests: int = 0

    @property
    def encoded(self) -> bytes:
        """The text as a container writes it."""
        return self.text.encode("utf-8", "surrogatepass")

    @property
    def size(self) -> Size:
        """Its bytes, and the chunks of it."""
        return Size(len(self.encoded), len(self.encoded) // self.chunk if self.way == "lines" else 1)

    def play(self) -> Play:
        """Filter it; chunks of a log are one after the other what there is for one turn."""
        yield self._step()

    def _step(self) -> Step:
        match self.way:
            case "sanitize":
                return partial(sanitize, self.text)
            case "shorten":
                return partial(shorten, self.text, 200)
            case "grep" | "grep text":
                text = self.encoded.decode("utf-8", "replace")  # as `LineCutter` does
                return partial(LogSelection(**GREP[self.way]).matching, [LogLine(SOURCE, STAMP, text)])
            case "lines":
                data = self.encoded
                return partial(_cut, [data[at : at + self.chunk] for at in range(0, len(data), self.chunk)])
            case _:
                colours = Colours(enabled=self.way == "terminal")
                printer = LogPrinter(io.StringIO(), colours, on_terminal=True, timestamps=False)
                return partial(printer.write, LogBatch([LogLine(SOURCE, STAMP, self.text)]))


def _cut(chunks: list[bytes]) -> Any:
    cutter = LineCutter(SOURCE)
    return [*(line for chunk in chunks for line in cutter.feed(chunk)), *cutter.rest()]
