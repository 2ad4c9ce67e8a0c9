"""Programs of the wheel, started by name: one whose extra is not installed says which it is, in one line."""

import sys
from importlib import import_module


def _start(package: str, extra: str) -> None:
    try:
        code = import_module(f"{package}.__main__").main()
    except ModuleNotFoundError as missing:
        code = f"the package {missing.name} is missing: pip install 'frameworkcontroller[{extra}]'"
    sys.exit(code)


def injector() -> None:
    """Run `frameworkinjector`."""
    _start("frameworkinjector", "injector")


def controller() -> None:
    """Run `frameworkcontroller`."""
    _start("frameworkcontroller", "controller")


def client() -> None:
    """Run `frameworkctl`."""
    _start("frameworkclient", "client")
