"""Interpreters with packages that the tests do not need themselves."""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def python_with(*packages: str) -> Iterator[Path]:
    """Install packages, gigabytes of them, beside an interpreter for the block; they are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.check_call([sys.executable, "-m", "venv", folder])
        found = Path(folder) / "bin" / "python"
        subprocess.check_call([found, "-m", "pip", "install", "--quiet", "--no-cache-dir", *packages])
        yield found
