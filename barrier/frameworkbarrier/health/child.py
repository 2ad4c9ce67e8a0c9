"""The sidecar's side of the watch over its gang: it starts the child, tells it who the gang is, and hears of a hang."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from frameworkbarrier.errors import HungError
from frameworkbarrier.gate.gang import Gang
from frameworkbarrier.gate.gate import Released, Waiting
from frameworkbarrier.health import pod
from frameworkbarrier.log import Log
from frameworkbarrier.settings import EXIT_HELD, Settings
from frameworkbarrier.text import one_line

MODULE = ("-m", "frameworkbarrier.health.monitor")
NEVER_SEC = 1e12
LINE_CHARACTERS = 1000


class Watcher:
    """Tells the child who the gang is once its gate is open; `end` is called with what ends this program."""

    def __init__(self, settings: Settings, log: Log, end: Callable[[HungError], None]) -> None:
        self._settings, self._log, self._end = settings, log, end
        self._child: subprocess.Popen[bytes] | None = None
        self._told, self._epoch = b"", 0

    def hear(self, gang: Gang, decision: Released | Waiting) -> None:
        """Learn who the gang is now."""
        self._tell(gang if isinstance(decision, Released) else None)

    def start(self, gang: Gang) -> None:
        """Start the child: the gate is open, and nobody waits any more."""
        settings = self._settings
        options = {
            "dir": settings.progress_dir,
            "held": os.path.join(settings.output_dir, EXIT_HELD) if settings.exit else "",
            "port": settings.progress_port,
            "last": pod.last_verdict(settings.progress_dir),
            "ras": "ras" in settings.progress,
            "floor": settings.hang_floor_sec if settings.hang != "off" else NEVER_SEC,
            "factor": settings.hang_factor,
            "first": settings.hang_first_sec if settings.hang != "off" else NEVER_SEC,
            "uid": (settings.uid or "")[:8],
            "task": f"{settings.role}-{settings.index}",
        }
        command = [sys.executable, *MODULE, json.dumps(options)]
        try:
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as fault:
            self._log.warning(f"progress is not watched: {fault.strerror}")
            return
        threading.Thread(target=self._hear, args=(self._child,), name="progress", daemon=True).start()
        self._tell(gang)

    def _tell(self, gang: Gang | None) -> None:
        """Tell the child, once there is one, who is to make progress: nobody while the gang is not complete."""
        if self._child is None or self._child.stdin is None:
            return
        roles = () if gang is None else [role for role in gang.roles if role.speaks] or gang.roles
        peers = [
            (f"{role.name}-{task.index}", task.ip, task.uid8, task.node)
            for role in roles
            for task in role.tasks
            if task.index not in role.ended
        ]
        self._epoch = self._epoch if gang is None else gang.epoch or 0
        found = {"epoch": self._epoch, "peers": peers, "ending": any(role.ended for role in roles)}
        line = json.dumps(found).encode() + b"\n"
        if line == self._told:
            return
        self._told = line
        with contextlib.suppress(OSError, ValueError):  # its thread says that it has ended
            self._child.stdin.write(line)
            self._child.stdin.flush()

    def _hear(self, child: subprocess.Popen[bytes]) -> None:
        with child:
            for line in child.stdout or ():
                found: dict[str, Any] = json.loads(line)
                if "log" in found:
                    self._log.warning(one_line(found["log"], LINE_CHARACTERS))
                if "hang" in found and self._settings.hang == "restart":
                    text = verdict(found["hang"])
                    pod.keep_verdict(self._settings.progress_dir, text)
                    self._end(HungError(text))
        self._log.warning(f"progress is not watched any more: its process has ended (exit code {child.returncode})")


def verdict(hang: dict[str, Any]) -> str:
    """Return the verdict as the controller reads it, with as much of the culprits as there is room for."""
    culprits = hang["culprits"]
    bare = [{"task": one["task"], "node": one["node"]} for one in culprits]
    for chosen in (culprits, *(bare[:number] for number in range(len(bare), -1, -1))):
        text = json.dumps({**hang, "culprits": chosen}, separators=(",", ":"))
        if len(text.encode()) <= pod.VERDICT_BYTES:
            break
    return text
