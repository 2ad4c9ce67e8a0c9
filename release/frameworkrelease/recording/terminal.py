"""A shell in a tmux of its own: keys go in, captured screens come out."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Final, Self

from frameworkrelease.recording.frames import Frame
from frameworkrelease.recording.screen import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_PROMPT: Final = "$"
_LOOKS: Final = {"PS1": rf"\[\e[1;32m\]{_PROMPT}\[\e[0;1m\] ", "PS0": r"\e[0m"}
"""Of the prompt and of what is typed; `PS0` ends it before the output."""
_BETWEEN_FRAMES: Final = 0.1
_BETWEEN_KEYS: Final = 0.07
_KEYS: Final = 2
"""Characters that are typed at once."""


class RecordingError(Exception):
    """A recording could not be made; the text says why."""


class Terminal:
    """A shell that is recorded, as a context manager.

    Args:
        folder: Where the shell works; it is also its home.
        columns: Width in characters.
        lines: Height.
        environ: The whole environment of the shell.
    """

    def __init__(self, folder: Path, columns: int, lines: int, environ: Mapping[str, str]) -> None:
        self.frames: list[Frame] = []
        self._folder, self._size = folder, (str(columns), str(lines))
        own = {"HOME": str(folder), "HISTFILE": "", "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self._environ = {**environ, **own, **_LOOKS}
        self._tmux = ("tmux", "-u", "-S", str(folder / ".tmux"))

    def __enter__(self) -> Self:
        (self._folder / ".tmux.conf").write_text("set -g status off\nset -g default-terminal tmux-256color\n")
        columns, lines = self._size
        shell = ("bash", "--norc", "--noprofile")
        self._run("-f", str(self._folder / ".tmux.conf"), "new-session", "-d", "-x", columns, "-y", lines, *shell)
        return self

    def __exit__(self, *_: object) -> None:
        self._run("kill-server")

    def type(self, text: str) -> None:
        """Type a line, and the key Enter."""
        for begin in range(0, len(text), _KEYS):
            self._run("send-keys", "-l", "--", text[begin : begin + _KEYS])
            self.record(_BETWEEN_KEYS)
        self._run("send-keys", "Enter")

    def record(self, seconds: float) -> None:
        """Record for some time."""
        until = time.monotonic() + seconds
        self.capture()
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _BETWEEN_FRAMES))
            self.capture()

    def record_until(self, holds: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Record until something holds.

        Raises:
            RecordingError: It does not hold in time.
        """
        until = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > until:
                raise RecordingError(f"{what}: not within {seconds:.0f} s; the screen shows:\n{self._screen()[1]}")
            self.record(_BETWEEN_FRAMES)

    def is_ready(self) -> bool:
        """Report whether the shell waits for a command."""
        (column, line, _), screen = self._screen()
        shown = "".join(span.text for span in rows_of(screen)[line])
        return shown == _PROMPT and column == len(_PROMPT) + 1

    def capture(self) -> None:
        """Keep what the screen shows now."""
        (column, line, is_shown), screen = self._screen()
        self.frames.append(Frame(time.monotonic(), rows_of(screen, (column, line) if is_shown else None)))

    def _screen(self) -> tuple[tuple[int, int, int], str]:
        """Return column, line and visibility of the cursor, and the text with escape sequences."""
        cursor = "#{cursor_x} #{cursor_y} #{cursor_flag}"
        found = self._run("display-message", "-p", cursor, ";", "capture-pane", "-p", "-e")
        head, _, screen = found.partition("\n")
        column, line, is_shown = map(int, head.split())
        return (column, line, is_shown), screen

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            (*self._tmux, *arguments),
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RecordingError(f"tmux {arguments[0]}: {done.stderr.strip()}")
        return done.stdout
