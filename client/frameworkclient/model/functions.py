"""A Python function as the command of a container: its source is sent, and called with the arguments given.

The function runs in the image's Python, not in this one: it must import what it uses inside of itself.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from frameworkclient.errors import ManifestError

PACKAGES_DIR: Final = "/tmp/frameworkpackages"  # noqa: S108 -- in a container
_INSTALL: Final = """\
import glob, os, subprocess, sys
folder, end = sys.argv[1], sys.argv.index("--")
pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--prefix", folder]
code = subprocess.call(pip + sys.argv[2:end])
if code:
    sys.exit("pip could not install the packages")
paths = glob.glob(folder + "/**/*-packages", recursive=True) + [os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
os.environ["PATH"] = folder + "/bin" + os.pathsep + os.environ.get("PATH", os.defpath)
os.execvp(sys.argv[end + 1], sys.argv[end + 1:])
"""
MAX_BYTES: Final = 100_000
"""Linux takes arguments of at most 128 KiB."""


def command_of(function: Callable[..., Any], arguments: Mapping[str, Any] | None = None) -> list[str]:
    """Return the command that calls a function with arguments that are literals.

    Raises:
        ManifestError: The source of the function cannot stand alone, or an argument is not a literal.
    """
    name = getattr(function, "__name__", repr(function))
    if not inspect.isfunction(function) or name == "<lambda>":
        raise ManifestError(f"function {name}: must be defined by def")
    if free := function.__code__.co_freevars:
        raise ManifestError(
            f"function {name}: uses {', '.join(free)} of the function around it; pass them as arguments"
        )
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise ManifestError(f"function {name}: its source is not known; define it in a file or a notebook") from error
    if not source.startswith(("def ", "async def ")):
        raise ManifestError(f"function {name}: must have no decorator, and be no method")
    if source.startswith("async def "):
        raise ManifestError(f"function {name}: must not be async; call asyncio.run in it")
    script = f"{source}\n\n{name}({_written(name, arguments or {})})\n"
    if len(script.encode()) > MAX_BYTES:
        raise ManifestError(f"function {name}: its source is longer than {MAX_BYTES} bytes; put it into the image")
    # The kubelet expands $(NAME) in commands.
    return ["python3", "-u", "-c", script.replace("$", "$$")]


def with_packages(packages: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the command that installs packages, arguments of `pip install`, and then runs another command.

    They are installed anew by each start of a container, for it alone, beside those of the image; no shell is needed.

    Raises:
        ManifestError: There is no command: nobody knows the entry point of the image.
    """
    if not command:
        raise ManifestError("packages: need a command; the entry point of the image is not known")
    return ["python3", "-u", "-c", _INSTALL, PACKAGES_DIR, *packages, "--", *command]


def _written(name: str, arguments: Mapping[str, Any]) -> str:
    for key, value in arguments.items():
        try:
            same = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            same = False
        if not same or not str(key).isidentifier():
            raise ManifestError(f"function {name}: argument {key} must be a number, text, or a list or dict of these")
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
