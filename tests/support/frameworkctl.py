"""`frameworkctl` as people run it, in a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testkit.waiting import eventually, patience


@dataclass(frozen=True)
class Outcome:
    """How a command has ended."""

    code: int
    output: str
    errors: str

    @property
    def table(self) -> list[list[str]]:
        """The lines of a table after its head, by cells."""
        return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in self.output.splitlines()[1:]]


@dataclass
class Frameworkctl:
    """The command line of one user.

    Attributes:
        kubeconfig: The user's file.
        namespace: The namespace of all commands.
        folder: Where the commands run.
    """

    kubeconfig: Path
    namespace: str
    folder: Path

    def start(self, *args: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command and do not wait for it."""
        command, _, rest = args[0].partition(" ")
        return subprocess.Popen(
            [sys.executable, "-m", "frameworkclient", command, "-n", self.namespace, *rest.split(), *args[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            # What runs these tests in the background may ignore Ctrl-C, and its children would, too.
            preexec_fn=_obey_ctrl_c,  # noqa: PLW1509 -- it only resets a signal
            env={**os.environ, "PYTHONUNBUFFERED": "", "KUBECONFIG": str(self.kubeconfig), **(environ or {})},
        )

    def __call__(self, *args: str, stdin: str = "", environ: Mapping[str, str] | None = None) -> Outcome:
        """Run a command to its end: `ctl("wait training", "--for=ready")`."""
        process = self.start(*args, environ=environ)
        output, errors = process.communicate(stdin, timeout=patience(60))
        assert "Traceback" not in errors, errors
        return Outcome(process.returncode, output, errors)

    def ok(self, *args: str, stdin: str = "") -> Outcome:
        """Run a command that succeeds."""
        done = self(*args, stdin=stdin)
        assert done.code == 0, f"{args}: {done}"
        return done

    def says(self, command: str, *texts: str) -> None:
        """Wait until a command that succeeds prints all of these."""

        def check() -> None:
            page = self.ok(command).output
            for text in texts:
                assert text in page, page

        eventually(check, timeout=30, interval=0.3)


def _obey_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt(process: subprocess.Popen[str]) -> Outcome:
    """Press Ctrl-C."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=patience(20))
    return Outcome(process.returncode, output, errors)
