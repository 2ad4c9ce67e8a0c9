"""The flags that make a `Config`, with their defaults: for the program, and for who renders without a cluster.

`__main__` declares them for `serve`. The client calls `offline` with some of them, as a Deployment has them in `args`.
"""

import argparse
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NoReturn, TypeVar

from frameworkbarrier import values
from frameworkinjector import __version__
from frameworkinjector.errors import InjectorError
from frameworkinjector.review import own_presets
from frameworkinjector.review.config import (
    DEFAULT_BARRIER_IMAGE,
    DEFAULT_LIMITS,
    DEFAULT_REQUESTS,
    DEFAULT_UID,
    Config,
    EnvFiles,
    PullPolicy,
)
from frameworkinjector.review.resources import Claims, read_limits, read_requests
from frameworkinjector.review.settings import image_name

_E = TypeVar("_E", bound=StrEnum)
_V = TypeVar("_V")


class FlagError(InjectorError):
    """A flag is not known, or its value is wrong; the message names it."""


class _Parser(argparse.ArgumentParser):
    """Raises what `argparse` would print before it ends the process."""

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        raise FlagError(message)


def offline(arguments: Sequence[str]) -> tuple[Config, EnvFiles]:
    """Return what flags of `serve` say of every barrier, and of a cluster that nobody asks.

    Without them the cluster is one of the newest Kubernetes.

    Raises:
        FlagError: A flag is wrong, or of the server and not of the barrier.
        OwnPresetsError: A preset of the operator is wrong.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_config(parser)
    parser.add_argument("--env-files", type=one_of(EnvFiles), default=EnvFiles.QUOTED)
    parser.add_argument("--in-place-restart", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(arguments)
    return config_of(options), options.env_files


def add_config(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that `config_of` reads."""
    parser.add_argument(
        "--barrier-image",
        type=_checked(image_name),
        default=DEFAULT_BARRIER_IMAGE,
        help="by tag or by digest (default %(default)s)",
    )
    parser.add_argument(
        "--barrier-pull-policy",
        type=one_of(PullPolicy),
        default=PullPolicy.IF_NOT_PRESENT,
        metavar="|".join(PullPolicy),
        help="default %(default)s, which keeps serving an old image where a tag such as dev moves",
    )
    parser.add_argument(
        "--barrier-image-pull-secret",
        action="append",
        type=_checked(values.matching(values.DNS_SUBDOMAIN, "the name of a Secret", 253)),
        default=[],
        metavar="NAME",
        help="a Secret for the image's registry, in each namespace with Pods that ask for the barrier; repeatable",
    )
    parser.add_argument(
        "--barrier-requests",
        type=_checked(read_requests),
        default=DEFAULT_REQUESTS,
        metavar="LIST",
        help="what the barrier requests at least, where the application requests it (default %(default)s)",
    )
    parser.add_argument(
        "--barrier-limits",
        type=_checked(read_limits),
        default=DEFAULT_LIMITS,
        metavar="LIST",
        help="the least limits of the barrier, where the application has some (default %(default)s)",
    )
    parser.add_argument(
        "--barrier-uid",
        type=_uid,
        default=DEFAULT_UID,
        help="user of a barrier whose Pod names none; none where the cluster assigns users (default %(default)s)",
    )
    parser.add_argument(
        "--foreign-gangs",
        action="store_true",
        help="Pods without a Framework find their gang by its roster, which a controller with foreignGangs keeps",
    )
    parser.add_argument(
        "--preset-dir", type=Path, help="a folder with presets of your own, NAME.toml each (default: none)"
    )


def config_of(options: argparse.Namespace) -> Config:
    """Return what the flags say of every barrier.

    Raises:
        FlagError: The barrier would request more than its limits.
        OwnPresetsError: A preset of the operator is wrong.
    """
    resources = Claims(options.barrier_requests, options.barrier_limits)
    for resource, amount in resources.requests.items():
        if resource in resources.limits and resources.limits[resource] < amount:
            raise FlagError(f"{resource} of --barrier-requests is above --barrier-limits")
    return Config(
        version=__version__,
        barrier_image=options.barrier_image,
        pull_policy=options.barrier_pull_policy,
        presets={} if options.preset_dir is None else own_presets.read(options.preset_dir),
        pull_secrets=tuple(options.barrier_image_pull_secret),
        resources=resources,
        uid=options.barrier_uid,
        foreign_gangs=options.foreign_gangs,
        in_place_restart=options.in_place_restart,
    )


def _uid(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:12]) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} must be none, or the number of a user who is not root")
    return int(text)


def one_of(kind: type[_E]) -> Callable[[str], _E]:
    """Return what reads the value of a flag that takes the members of an enum."""

    def read(text: str) -> _E:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(kind)}") from None

    return read


def _checked(read: Callable[[str], _V]) -> Callable[[str], _V]:
    def checked(text: str) -> _V:
        try:
            return read(text)
        except values.BadValueError as fault:
            raise argparse.ArgumentTypeError(f"{text!r} must be {fault}") from None

    return checked
