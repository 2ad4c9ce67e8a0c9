"""Writes log lines: to a terminal with a prefix for each Task, or into a folder with a file for each attempt."""

import re
from pathlib import Path
from typing import Final, TextIO

from frameworkclient.cli.terminal import Colours, say
from frameworkclient.logs.lines import LogBatch, LogSource
from frameworkclient.views.text import SEQUENCE, sanitize

PREFIX_COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue")
# Everything but the colours that programs write themselves; an escape character goes, whatever follows it.
_SEQUENCES: Final = re.compile(rf"\x1b(?!\[[0-9;]*+m)(?:{SEQUENCE}|.)?")
_CONTROLS: Final = dict.fromkeys([*range(0x09), *range(0x0B, 0x1B), *range(0x1C, 0x20), *range(0x7F, 0xA0)])
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*+m")
_PLAIN: Final = "\x1b[0m"


class LogPrinter:
    """Writes lines with the Task in front of each.

    On a terminal, control sequences of the programs go; where it has colours, theirs are kept.
    """

    def __init__(self, stream: TextIO, colours: Colours, *, on_terminal: bool, timestamps: bool) -> None:
        self._stream = stream
        self._colours = colours
        self._on_terminal = on_terminal
        self._timestamps = timestamps
        self._prefixes: dict[str, str] = {}

    def write(self, batch: LogBatch) -> None:
        """Write the lines of a batch at once; a note goes to stderr."""
        if batch.note and batch.source is not None:
            say(self._colours(f"--- {batch.source.label}: {sanitize(batch.note)}", "dim"))
        parts = []
        for line in batch.lines:
            text = self._shown(line.text) if self._on_terminal else line.text
            stamp = f"{line.stamp} " if self._timestamps else ""
            parts.append(f"{self._prefix(line.source.label)} {stamp}{text}\n")
        if parts:
            self._stream.write("".join(parts))
            self._stream.flush()

    def _prefix(self, label: str) -> str:
        if label not in self._prefixes:
            colour = PREFIX_COLOURS[len(self._prefixes) % len(PREFIX_COLOURS)]
            self._prefixes[label] = self._colours(f"[{label}]", colour)
        return self._prefixes[label]

    def _shown(self, text: str) -> str:
        """Return a line without what would move the cursor; a progress bar shows its last state."""
        text = text.rstrip("\r")
        if text.isprintable():
            return text
        text = _SEQUENCES.sub("", text.rpartition("\r")[2]).translate(_CONTROLS)
        if not self._colours.enabled:
            return _COLOURS.sub("", text)
        # A colour, or text that is not shown, ends with its line: the next one is another program's.
        return text + _PLAIN if "\x1b" in text and not text.endswith(_PLAIN) else text


class LogSaver:
    """Writes lines into a folder: `worker-0.attempt-0-1.log` is of attempt 0 of the Framework and 1 of the Task."""

    def __init__(self, folder: Path, *, timestamps: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._timestamps = timestamps
        self.files: set[Path] = set()
        self.lines = 0

    def write(self, batch: LogBatch) -> None:
        """Write the lines of a batch; a note goes to stderr. No file stays open, however many Tasks there are."""
        if batch.note and batch.source is not None:
            say(f"--- {batch.source.label}: {sanitize(batch.note)}")
        texts: dict[Path, list[str]] = {}
        for line in batch.lines:
            stamp = f"{line.stamp} " if self._timestamps else ""
            texts.setdefault(self._folder / file_name(line.source), []).append(f"{stamp}{line.text}\n")
        for path, written in texts.items():
            # A file of an earlier command is replaced.
            with path.open("a" if path in self.files else "w", encoding="utf-8") as file:
                file.writelines(written)
            self.files.add(path)
        self.lines += len(batch.lines)


def file_name(source: LogSource) -> str:
    """Return the name of the file of one attempt of a Task."""
    framework, task = source.attempt
    container = source.label.removeprefix(source.task).replace("/", ".")
    return f"{source.task}{container}.attempt-{framework}-{task}.log"
