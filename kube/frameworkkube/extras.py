"""Programs of the wheel, started by name: one whose extra is not installed says which it is, in one line."""

import sys
from importlib import import_module


def _start(package: str, extra: str, function: str = "main") -> None:
    try:
        code = getattr(import_module(f"{package}.__main__"), function)()
    except ModuleNotFoundError as missing:
        code = f"the package {missing.name} is missing: pip install 'frameworkcontroller[{extra}]'"
    sys.exit(code)


def injector() -> None:
    """Run `frameworkinjector`."""
    _start("frameworkinjector", "injector")


def controller() -> None:
    """Run `frameworkcontroller`."""
    _start("frameworkcontroller", "controller")


def history() -> None:
    """Run `frameworkhistory`."""
    _start("frameworkhistory", "history")


def client() -> None:
    """Run `frameworkctl`."""
    _start("frameworkclient", "client")


def completion() -> None:
    """Complete `kubectl framework`."""
    _start("frameworkclient", "client", "complete")
