"""The test's own requests while the API server is killed: each is tried again by its caller, who looks first."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import urllib3

from localcluster.client import ApiStatusError
from testkit.waiting import eventually

T = TypeVar("T")


@contextlib.contextmanager
def api_faults_pass() -> Iterator[None]:
    """Ignore that the API server is away, starts or is overloaded."""
    try:
        yield
    except urllib3.exceptions.HTTPError:
        pass
    except ApiStatusError as error:
        # A server that starts denies and does not find what it will.
        if error.status not in {401, 403, 429} and error.status < 500:
            raise


def persistently(request: Callable[[], T]) -> T:
    """Return the result of a request, which is repeated while the API server is away."""

    def answered() -> T:
        with api_faults_pass():
            return request()
        raise AssertionError("the API server is away")

    return eventually(answered, timeout=30, interval=0.2)
