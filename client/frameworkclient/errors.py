"""What can go wrong for a user of this package, as one tree by meaning.

Everything that `Client` and `AsyncClient` raise derives from `ClientError`; each message says what was tried, what is
wrong and what to do next. `translated` turns the errors of the Kubernetes client into these.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frameworkkube.errors import ApiStatusError


class ClientError(Exception):
    """Base of everything that this package raises."""


class AccessError(ClientError):
    """No usable kubeconfig or credentials; the message names the file, the variable or the field."""


class ArgumentError(ClientError, ValueError):
    """An argument cannot be used; the message names it."""


class ManifestError(ClientError, ValueError):
    """A manifest or a Framework that was built is not valid; the message names the field by its path."""


class UnreachableError(ClientError):
    """There was no answer. A write may or may not have happened."""


class RefusedError(ClientError):
    """The API server refused, with the HTTP status `code`."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NotFoundError(RefusedError):
    """There is no such object."""


class AlreadyExistsError(RefusedError):
    """An object of that name exists."""


class ForbiddenError(RefusedError):
    """The user has no permission, or a quota or an admission plugin refuses."""


class ConflictError(RefusedError):
    """The object was changed by somebody else in between."""


class InvalidError(RefusedError):
    """The object is not valid; the message names the field."""


class WaitTimeoutError(ClientError, TimeoutError):
    """What was waited for has not happened in the time allowed."""


class DeletedError(ClientError):
    """The Framework was deleted while it was followed."""


class FailedError(ClientError):
    """A Framework has failed; raised by `Result.raise_for_failure`."""


_NO_CRD: Final = "could not find the requested resource"
_NEXT: Final = {
    401: "log in again, or check the user of the kubeconfig's context",
    403: "ask an administrator for the permission",
    409: "read it again and repeat",
    422: "correct the field and repeat",
    429: "the API server is busy: repeat in a minute",
}
_MEANINGS: Final[dict[int, type[RefusedError]]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidError,
}


def nearest(name: str, known: Sequence[str], otherwise: str = "") -> str:
    """Return which of the known names was probably meant, as the end of a message; else that, or which there are."""
    from difflib import get_close_matches

    similar = get_close_matches(name, known, n=1)
    return f"did you mean {similar[0]}?" if similar else otherwise or f"there are {', '.join(known)}"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise errors of the Kubernetes client as those of this package, which name `what` was to be done."""
    import msgspec

    from frameworkkube import errors as kube

    try:
        yield
    except kube.CredentialsError as error:
        raise AccessError(f"cannot {what}: {error}") from error
    except kube.ApiStatusError as error:
        raise _refused(what, error) from error
    except kube.KubeError as error:
        raise UnreachableError(
            f"cannot {what}: {error}; check the address of the cluster in the kubeconfig and the network"
        ) from error
    except msgspec.MsgspecError as error:
        raise UnreachableError(
            f"cannot {what}: the answer is not that of an API server ({error}); check the address of the cluster"
        ) from error


def _refused(what: str, error: ApiStatusError) -> RefusedError:
    if error.reason == "AlreadyExists" and not error.by_webhook:
        following = "it exists already; delete it first, or choose another name"
        if error.message.startswith("object is being deleted"):
            following = "one of that name is being deleted; first wait until it is gone: "
            following += "frameworkctl wait NAME --for=deleted"
        return AlreadyExistsError(f"cannot {what}: {following}", error.code)
    if error.code == 404 and not error.by_webhook:
        following = "there is none; check the name and the namespace"
        if _NO_CRD in error.message:
            following = "the cluster does not serve it; is FrameworkController installed there?"
        return NotFoundError(f"cannot {what}: {following}", error.code)
    following = _NEXT.get(error.code) or ("the API server has a problem: repeat later" if error.code >= 500 else "")
    text = f"cannot {what}: {error.message}" + (f"; {following}" if following else "")
    return _MEANINGS.get(error.code, RefusedError)(text, error.code)
