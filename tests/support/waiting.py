"""Waiting until something has a value, or a word in it, or is answered; what is there instead stands in the failure."""

from collections.abc import Callable, Container
from typing import TypeVar

from localcluster.client import ApiStatusError
from testkit.waiting import eventually

T = TypeVar("T")


def becomes(value: Callable[[], T], wanted: T, timeout: float = 10.0, interval: float = 0.05) -> None:
    """Wait until something has this value; see `eventually` for the times."""

    def check() -> None:
        found = value()
        assert found == wanted, found

    eventually(check, timeout, interval)


def has(where: Callable[[], Container[T]], part: T, timeout: float = 10.0, interval: float = 0.05) -> None:
    """Wait until this is a part of something, as a word of a log."""

    def check() -> None:
        found = where()
        assert part in found, found

    eventually(check, timeout, interval)


def answered(request: Callable[[], T], timeout: float = 10.0) -> T:
    """Return the answer to a request, which the API server may refuse for a while."""

    def check() -> T:
        try:
            return request()
        except ApiStatusError as error:
            raise AssertionError(str(error)) from error

    return eventually(check, timeout)
