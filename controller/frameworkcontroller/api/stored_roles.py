"""The TaskRoles of a stored status, plain or compressed, and whether two statuses say the same.

Whoever may write a status may store anything: what is unpacked is bounded before it is decoded.
"""

import zlib
from base64 import b64decode
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api.spec import MAX_ROLES, MAX_TASKS
from frameworkcontroller.api.status import EncodedRole, FrameworkStatus, TaskRoleStatus, TaskStatus

MAX_ROLES_BYTES: Final = 32 * 1024 * 1024
"""Of a compressed status, unpacked: some 30,000 Tasks. A mebibyte may pretend to be a gibibyte."""
MAX_OBJECTS: Final = 250_000
"""Of these bytes: 20,000 Tasks with two containers each have 240,000."""
MAX_COMMAS: Final = 2_000_000
"""Of these bytes: 20,000 failed Tasks have some 1,000,000, and others' texts have some, too."""
MAX_STORED: Final = 2 * MAX_TASKS + MAX_ROLES
"""Tasks of a stored status, and TaskRoles: those that are wanted, and as many Tasks that are still to go."""


class UnreadableStatusError(ValueError):
    """The compressed roles of a status are corrupt or cut off."""


ROLES_DECODER: Final = msgspec.json.Decoder(tuple[TaskRoleStatus, ...])
_ENCODED_DECODER: Final = msgspec.json.Decoder(tuple[EncodedRole, ...])


def roles_of(status: FrameworkStatus) -> tuple[TaskRoleStatus, ...]:
    """Return the roles of a stored status, from the plain field or from the compressed one.

    Raises:
        UnreadableStatusError, msgspec.DecodeError: the compressed field holds something else, or there are too many.
    """
    return _roles_of(status, ROLES_DECODER)


def encoded_roles_of(status: FrameworkStatus) -> Sequence[TaskRoleStatus | EncodedRole]:
    """Return the same; the Tasks of the compressed field are left to be decoded one after the other.

    Raises:
        UnreadableStatusError, msgspec.DecodeError: as `roles_of`.
    """
    return _roles_of(status, _ENCODED_DECODER)


RoleT = TypeVar("RoleT", bound=TaskRoleStatus | EncodedRole)


def _roles_of(
    status: FrameworkStatus, decoder: msgspec.json.Decoder[tuple[RoleT, ...]]
) -> tuple[TaskRoleStatus | RoleT, ...]:
    attempt = status.attempt_status
    roles: tuple[TaskRoleStatus | RoleT, ...] | None = attempt.task_role_statuses
    compressed = attempt.task_role_statuses_compressed
    if roles is None:
        roles = decoder.decode(_unpacked(compressed)) if isinstance(compressed, str) and compressed else ()
    for what, number in (("TaskRoles", len(roles)), ("Tasks", sum(len(role.task_statuses) for role in roles))):
        if number > MAX_STORED:
            raise UnreadableStatusError(f"status.attemptStatus has {number} {what}, and {MAX_STORED} can be read")
    return roles


def roles_digest(status: FrameworkStatus) -> int | None:
    """Return what tells compressed roles from others, within this process; None if they are plain."""
    compressed = status.attempt_status.task_role_statuses_compressed
    return hash(compressed) if isinstance(compressed, str) else None


def _unpacked(compressed: str) -> bytes:
    gzipped = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = gzipped.decompress(b64decode(compressed, validate=True), MAX_ROLES_BYTES + 1)
    except (ValueError, zlib.error) as error:
        raise UnreadableStatusError(f"status.attemptStatus.taskRoleStatusesCompressed is corrupt: {error}") from error
    if what := excess_of(plain):
        raise UnreadableStatusError(f"status.attemptStatus.taskRoleStatusesCompressed has {what} can be read")
    if not gzipped.eof:
        raise UnreadableStatusError("status.attemptStatus.taskRoleStatusesCompressed is cut off")
    return plain


def excess_of(plain: bytes) -> str:
    """Return of what unpacked roles, as JSON, have too much, as text; "" if they can be read.

    It is counted before they are decoded: a value takes up to a hundred times the bytes then that it takes compressed.
    """
    if len(plain) > MAX_ROLES_BYTES:
        return f"{len(plain)} bytes, and {MAX_ROLES_BYTES}"
    for what, sign, most in (("objects", b"{", MAX_OBJECTS), ("commas", b",", MAX_COMMAS)):
        if (number := plain.count(sign)) > most:
            return f"{number} {what}, and {most}"
    return ""


def is_same(one: FrameworkStatus | None, other: FrameworkStatus | None, digest: int | None = None) -> bool:
    """Report whether two statuses say the same; a compressed one may have left out what a large status leaves out.

    Args:
        one: as it is stored.
        other: as it was decided.
        digest: the `roles_digest` with which the other was stored, if that is known: to compare all roles takes long.

    Raises:
        UnreadableStatusError, msgspec.DecodeError: of `roles_of`.
    """
    if one is None or other is None:
        return one is other
    if without_roles(one) != without_roles(other):
        return False
    packed = roles_digest(one)
    if packed is not None and packed in {digest, roles_digest(other)}:
        return True
    roles = roles_of(one), roles_of(other)
    if roles[0] == roles[1]:
        return True
    compressed = (status.attempt_status.task_role_statuses_compressed for status in (one, other))
    return any(isinstance(text, str) for text in compressed) and _essence(roles[0]) == _essence(roles[1])


def without_roles(status: FrameworkStatus) -> FrameworkStatus:
    """Return the Framework's own part of a status."""
    attempt = replace(status.attempt_status, task_role_statuses=None, task_role_statuses_compressed=msgspec.UNSET)
    return replace(status, attempt_status=attempt)


def _essence(roles: tuple[TaskRoleStatus, ...]) -> list[TaskRoleStatus]:
    """Return what every stored form of these roles has (docs/reference/framework-api.md, section 10)."""
    return [replace(role, task_statuses=tuple(map(_essence_of, role.task_statuses))) for role in roles]


def _essence_of(task: TaskStatus) -> TaskStatus:
    attempt, end = task.attempt_status, task.completion
    if end is not None:
        end = replace(end, diagnostics="", pod=None)
    attempt = replace(attempt, pod_node_name=None, pod_host_ip=None, completion_status=end)
    return replace(task, attempt_status=attempt)
