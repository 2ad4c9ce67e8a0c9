"""What the processes of this Pod have said, in files and by POST, and how far the Pod is by that.

Files are those of strangers: few are read, little of each, and no link is followed. Source: docs/reference/progress.md.
"""

import contextlib
import fcntl
import json
import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any

from frameworkbarrier.errors import BarrierError
from frameworkbarrier.files.output import File, OutputDirectory
from frameworkbarrier.health import report
from frameworkbarrier.health.pulse import Limits, Pulse
from frameworkbarrier.health.report import Report
from frameworkbarrier.health.verdict import STACK_LINES, Answer
from frameworkbarrier.text import one_line

FILE, STACK = "rank", ".stack"
"""What names of reports begin with, and those of stacks end with."""
VERDICT = "verdict"
VERDICT_BYTES = 1024
"""What the kubelet keeps of it, and the controller reads."""
PROCESSES = 64
LISTED = 512
"""Entries of the folder that are looked at."""
CUT_AT = 2**20
"""Bytes of a file that is only appended to."""
UNKNOWN = "?"
STACK_BYTES = 32 * 1024
STACK_CHARACTERS = 120
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def prepare(path: str, *, anew: bool) -> None:
    """Let the application find a file that any user may write; `anew`: without those that were there.

    The owner of a file can cut it however it is held open.
    """
    with contextlib.suppress(OSError):
        for name in [*_names(path)] if anew else ():
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(path, name))
        handle = os.open(os.path.join(path, FILE), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        os.fchmod(handle, 0o666)
        os.close(handle)


def keep_verdict(path: str, text: str) -> None:
    """Keep the verdict with which the sidecar ends: what the kubelet says of the end may be gone before it is seen."""
    with contextlib.suppress(BarrierError), OutputDirectory(path) as folder:
        folder.write(File(VERDICT, text.encode(), 0o600))


def last_verdict(path: str) -> Any:
    """Return the one that was kept, None if there is none."""
    try:
        with OutputDirectory(path) as folder:
            return json.loads(folder.read(VERDICT, VERDICT_BYTES))
    except (BarrierError, ValueError, RecursionError):
        return None


def _names(path: str) -> Iterator[str]:
    with os.scandir(path) as entries:
        for _, entry in zip(range(LISTED), entries, strict=False):
            if entry.name.startswith(FILE):
                yield entry.name


class Pod:
    """The processes of this Pod, by the names of their files or what they call themselves."""

    def __init__(self, path: str, limits: Limits, held: str = "") -> None:
        self._path, self._limits = path, limits
        self._held = held
        """The file that is there while all of them want to end and wait for the peers, "" if they do not wait."""
        self._pulses: dict[str, Pulse] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        """The time and size of each file, as it was read."""

    def hear(self, name: str, data: bytes, now: float) -> bool:
        """Take in what a process says; return whether it says something."""
        # A program that keeps its file open goes on where it was, behind what was cut.
        found = report.read(report.last_line(data.replace(b"\0", b"")))
        if found is None:
            return False
        if name not in self._pulses and len(self._pulses) >= PROCESSES:
            del self._pulses[min(self._pulses, key=lambda one: self._pulses[one].lived_at)]
        self._pulses.setdefault(name, Pulse(self._limits, now)).hear(found, now)
        return True

    def look(self, now: float) -> None:
        """Read the files that have changed; who has removed his has ended."""
        found = sorted(_names(self._path), key=self._written_at, reverse=True)
        names = [name for name in found if not name.endswith(STACK)][:PROCESSES]
        for name in self._seen.keys() - set(names):
            del self._seen[name]
            self._pulses.pop(name, None)
        for name in names:
            with contextlib.suppress(OSError):
                self._read(name, now)
        here = {name.removesuffix(STACK) for name in found}
        # One that has joined its peers and has not made a step yet.
        for name in here - set(names):
            if name not in self._pulses and len(self._pulses) < PROCESSES:
                self._pulses[name] = Pulse(self._limits, now)
                self._pulses[name].last = Report(thread=UNKNOWN)
        for name, pulse in [*self._pulses.items()]:
            if pulse.last.thread and name.startswith(FILE) and (name not in here or self._has_died(name)):
                del self._pulses[name]  # the file stays: a process of this number may just have opened it

    def _written_at(self, name: str) -> float:
        try:
            return os.lstat(os.path.join(self._path, name)).st_mtime
        except OSError:
            return 0.0

    def _read(self, name: str, now: float) -> None:
        with self._opened(name) as handle:
            status = os.fstat(handle)
            seen = status.st_mtime_ns, status.st_size
            before = self._seen.get(name)
            if not stat.S_ISREG(status.st_mode) or before == seen:
                return
            self._seen[name] = seen
            data = os.pread(handle, report.MAX_BYTES, max(status.st_size - report.MAX_BYTES, 0))
        self.hear(name, data, now)
        if before is not None and name in self._pulses:
            self._pulses[name].live(now)
        if status.st_size > CUT_AT:
            self._cut(name)

    def _cut(self, name: str) -> None:
        """Cut a file; one of another user goes, and his next line makes another."""
        try:
            with self._opened(name, os.O_WRONLY) as handle:
                os.ftruncate(handle, 0)
        except OSError:
            os.unlink(os.path.join(self._path, name))

    def _has_died(self, name: str) -> bool:
        """Report whether a process that was watched without a change of its program was killed: it held a lock."""
        held = not os.path.lexists(os.path.join(self._path, name + STACK))
        for file in (name, name + STACK):
            try:
                with self._opened(file) as handle:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held = True
            except OSError:
                continue
        return not held

    def answer(self, now: float) -> Answer | None:
        """Return how far the Pod is, None if no process has said anything, or all have done their work."""
        spoken = {name: one for name, one in self._pulses.items() if one.last.says_something}
        if not spoken or (self._held and os.path.lexists(self._held)):
            return None
        steps = [one.last.step for one in spoken.values() if one.last.step is not None]
        saved = [one.last.checkpoint for one in spoken.values() if one.last.checkpoint is not None]
        name, slowest = min(spoken.items(), key=lambda item: (item[1].last.step or 0, item[1].lived_at))
        return Answer(
            step=min(steps, default=None),
            fastest=max(steps, default=None),
            silent=min(one.silent(now) for one in spoken.values()),
            limit=max(one.limit() for one in spoken.values()),
            lived=now - slowest.lived_at,
            section=slowest.last.section,
            stack=tuple(self._stack(name, slowest.last.thread)) if name.startswith(FILE) else (),
            checkpoint=min(saved, default=None),
            saved_ago=max((now - one.saved_at for one in spoken.values() if one.saved_at is not None), default=None),
            processes=len(spoken),
            saved=any(bool(one.last.thread and one.last.checkpoint) for one in spoken.values()),
        )

    def numbers(self) -> dict[str, float]:
        """Return some of the numbers that processes have named; of one name that of the last process."""
        return dict(
            islice(((key, one) for each in self._pulses.values() for key, one in each.last.numbers.items()), PROCESSES)
        )

    def _stack(self, name: str, thread: str) -> list[str]:
        """Return where the thread is, or one of unknown name, as `faulthandler` has left it."""
        try:
            with self._opened(name + STACK) as handle:
                is_file = stat.S_ISREG(os.fstat(handle).st_mode)
                text = os.pread(handle, STACK_BYTES, 0).decode(errors="replace") if is_file else ""
        except OSError:
            return []
        parts = [part for part in text.split("\n\n") if "most recent call first" in part]
        chosen = next((part for part in parts if thread and thread in part.split("\n", 1)[0]), "".join(parts[-1:]))
        frames = _FRAME.findall(chosen)[:STACK_LINES]
        return [one_line(f"{path[-80:]}:{line} in {function}", STACK_CHARACTERS) for path, line, function in frames]

    @contextlib.contextmanager
    def _opened(self, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        handle = os.open(os.path.join(self._path, name), flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            yield handle
        finally:
            os.close(handle)
