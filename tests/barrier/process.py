"""The barrier as a process, as a Pod would run it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from testkit.waiting import eventually, patience


class Barrier:
    """One run of the program.

    Args:
        folder: The shared volume; the termination log lies beside it.
        address: Of the API server; empty where `environ` says it in another way.
        environ: The container's environment.
        flags: The container's arguments.
    """

    def __init__(self, folder: Path, address: str, environ: dict[str, str], *flags: str) -> None:
        self.folder = folder
        self.termination_log = folder.parent / "termination-log"
        self.termination_log.touch()
        own = {
            "PATH": os.environ["PATH"],
            "FB_OUTPUT_DIR": str(folder),
            "FB_TERMINATION_LOG": str(self.termination_log),
            "KUBE_APISERVER_ADDRESS": address,
        }
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "frameworkbarrier", *flags],
            env=own | environ,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def reports(self, text: str, within: float = 30.0) -> None:
        """Read its log until a line contains the text; `within` are the seconds that an idle machine needs at most."""
        assert self.process.stderr is not None
        late = threading.Timer(patience(within), self.process.kill)
        late.start()
        try:
            for line in self.process.stderr:
                self.lines.append(line.rstrip("\n"))
                if text in line:
                    return
        finally:
            late.cancel()
        raise AssertionError(f"no line contains {text!r}: {self.lines}")

    def ends(self, within: float = 30.0) -> tuple[int, str]:
        """Exit code and last line; `within` are the seconds that an idle machine needs at most."""
        out, err = self.process.communicate(timeout=patience(within))
        assert out == ""
        self.lines += err.splitlines()
        return self.process.returncode, self.lines[-1]

    def writes(self, name: str, text: str = "") -> None:
        """Wait until a file is there, with this content if one is given."""

        def is_written() -> None:
            assert self.read(name) == text if text else (self.folder / name).exists()

        eventually(is_written)

    def read(self, name: str) -> str:
        """A file that it wrote."""
        return (self.folder / name).read_text()

    def stop(self) -> None:
        """End it if it still runs, and read what nobody has read."""
        self.process.kill()
        if self.process.stderr is not None and not self.process.stderr.closed:
            self.process.communicate()
