"""The barrier as a process, as a Pod would run it."""

import os
import subprocess
import sys
from pathlib import Path


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

    def ends(self, within: float = 20.0) -> tuple[int, str]:
        """Exit code and last line."""
        out, err = self.process.communicate(timeout=within)
        assert out == ""
        self.lines = err.splitlines()
        return self.process.returncode, self.lines[-1]

    def read(self, name: str) -> str:
        """A file that it wrote."""
        return (self.folder / name).read_text()

    def stop(self) -> None:
        """End it if it still runs, and read what nobody has read."""
        self.process.kill()
        if self.process.stderr is not None and not self.process.stderr.closed:
            self.process.communicate()
