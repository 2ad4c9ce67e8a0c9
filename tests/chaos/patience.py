"""The test's own requests while the API server is killed: each is tried again by its caller, who looks first."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import urllib3

from localcluster.client import ApiStatusError

T = TypeVar("T")
_SECONDS = 300.0


@contextlib.contextmanager
def api_faults_pass() -> Iterator[None]:
    """Ignore that the API server is away, starts or is overloaded."""
    try:
        yield
    except urllib3.exceptions.HTTPError:
        pass
    except ApiStatusError as error:
        if not is_passing(error):
            raise


def is_passing(error: ApiStatusError) -> bool:
    """Report whether the same request may succeed later; a server that starts denies and does not find what it will."""
    return error.status in {401, 403, 429} or error.status >= 500


def persistently(request: Callable[[], T]) -> T:
    """Return the result of a request, which is repeated while the API server is away."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return request()
        except (urllib3.exceptions.HTTPError, ApiStatusError) as error:
            passing = not isinstance(error, ApiStatusError) or is_passing(error)
            if not passing or time.monotonic() > deadline:
                raise
        time.sleep(0.2)
