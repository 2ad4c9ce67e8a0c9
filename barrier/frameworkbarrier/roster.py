"""The roster: the small JSON document that the controller keeps in the attempt's ConfigMap for all Pods of a gang.

    {"version": 1, "generation": 12,
     "framework": {"namespace", "name", "uid", "attemptID", "attemptInstanceUID"},
     "ready": 998, "total": 1000, "complete": false,
     "waitingFor": [{"task": "worker-3", "why": "Pending: Unschedulable: 0/3 nodes are available"}],
     "taskRoles": [{"name": "worker", "tasks": [[index, podIP, uid8, taskAttemptID, nodeName, hostIP], ...]}]}

`taskRoles` is there only when `complete`, in the order of the Framework's spec. `"readiness": "arrived"` says that a
Task counted only once its barrier ran; without it an address was enough.
"""

import base64
import binascii
import json
import re
import socket
import zlib
from collections.abc import Mapping
from typing import Any

from .errors import SettingsError
from .gang import Gang, Missing, Role, Task

VERSION = 1
PLAIN_KEY = "roster"
COMPRESSED_KEY = "roster.gz"
UNPACKED_LIMIT = 64 * 1024 * 1024
"""Bytes; 10,000 Tasks take about 1 MiB, so more than this is not a roster."""

_TEXT_OR_NULL = (str, type(None))
# Wider than the Framework API's ^[a-z0-9]{1,63}$ because roles of the Pods source are label values.
_ROLE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class RosterError(ValueError):
    """The document is not a roster; the text names the field."""


def find(configmap: Mapping[str, Any]) -> str | None:
    """Return the roster's JSON text out of a ConfigMap, or None if that carries no roster.

    Raises:
        RosterError: the compressed form cannot be unpacked.
    """
    plain = (configmap.get("data") or {}).get(PLAIN_KEY)
    if plain is not None:
        return str(plain)
    packed = (configmap.get("binaryData") or {}).get(COMPRESSED_KEY)
    if packed is None:
        return None
    try:
        return unpack(packed).decode()
    except (RosterError, UnicodeDecodeError) as broken:
        raise RosterError(f"binaryData[{COMPRESSED_KEY!r}]: {broken}") from broken


def unpack(text: str) -> bytes:
    """Undo base64(gzip(...)), refusing what unpacks to more than `UNPACKED_LIMIT`."""
    try:
        inflater = zlib.decompressobj(wbits=31)
        data = inflater.decompress(base64.b64decode(text, validate=True), UNPACKED_LIMIT)
    except (binascii.Error, zlib.error, ValueError) as broken:
        raise RosterError(f"is not base64 of gzip: {broken}") from broken
    if not inflater.eof:
        raise RosterError("is cut off or unpacks to more than 64 MiB")
    return data


def decode(text: str) -> Gang:
    """Read a roster.

    Raises:
        RosterError: the text is not a roster; names the field.
        SettingsError: a version of the roster that this barrier does not know.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise RosterError(f"the roster is not JSON: {broken}") from broken
    if not isinstance(document, dict):
        raise RosterError("the roster is not a JSON object")
    if document.get("version") != VERSION:
        raise SettingsError(
            f"the roster has version {document.get('version')!r}, this barrier knows {VERSION}: "
            "use the barrier image that belongs to the controller"
        )
    framework = _field(document, "framework", dict)
    namespace, name = _field(framework, "namespace", str), _field(framework, "name", str)
    complete = _field(document, "complete", bool)
    return Gang(
        namespace=namespace,
        framework=name,
        uid=str(framework.get("uid") or ""),
        attempt_id=_count(framework, "attemptID"),
        attempt_instance_uid=str(framework.get("attemptInstanceUID") or ""),
        generation=_count(document, "generation"),
        ready=_count(document, "ready"),
        total=_count(document, "total"),
        complete=complete,
        waiting_for=tuple(_missing(each) for each in document.get("waitingFor") or ()),
        roles=tuple(_role(each, name) for each in _field(document, "taskRoles", list)) if complete else (),
        readiness=str(document.get("readiness") or "ip"),
    )


def encode(gang: Gang) -> str:
    """Write a gang as a roster, for the sources that have none; compact JSON."""
    document: dict[str, Any] = {
        "version": VERSION,
        "generation": gang.generation,
        "framework": {
            "namespace": gang.namespace,
            "name": gang.framework,
            "uid": gang.uid,
            "attemptID": gang.attempt_id,
            "attemptInstanceUID": gang.attempt_instance_uid,
        },
        "ready": gang.ready,
        "total": gang.total,
        "complete": gang.complete,
        "waitingFor": [{"task": each.task, "why": each.why} for each in gang.waiting_for],
    }
    if gang.readiness != "ip":
        document["readiness"] = gang.readiness
    if gang.complete:
        document["taskRoles"] = [
            {
                "name": role.name,
                "tasks": [
                    [task.index, task.ip, task.uid8, task.attempt_id, task.node, task.host_ip] for task in role.tasks
                ],
            }
            for role in gang.roles
        ]
    return json.dumps(document, separators=(",", ":"))


def pod_name(framework: str, role: str, index: int) -> str:
    """Name of a Task's Pod, the same for every attempt (the Framework API's rule)."""
    return f"{framework}-{role}-{index}"


def is_ip(text: object) -> bool:
    """Whether the value is one IPv4 or IPv6 address and nothing else: it goes into scripts and hosts files."""
    if not isinstance(text, str):
        return False
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def is_role_name(text: object) -> bool:
    """Whether the value can name a role: it becomes a file name, a host name and part of a variable's name."""
    return isinstance(text, str) and _ROLE_NAME.fullmatch(text) is not None


def _role(value: object, framework: str) -> Role:
    if not isinstance(value, dict) or not is_role_name(value.get("name")):
        raise RosterError(f"taskRoles: {_short(value)} has no valid name")
    name = value["name"]
    return Role(name, tuple(_task(each, framework, name) for each in _field(value, "tasks", list)))


def _task(value: object, framework: str, role: str) -> Task:
    # No match statement: its class patterns take four times as long, in every Pod at the moment that all wait for.
    if isinstance(value, list) and len(value) == 6:
        index, ip, uid8, attempt, node, host_ip = value
        # The last two are null for a Pod that has an address but no node yet, as the Framework's status has them.
        if (
            isinstance(index, int)
            and index >= 0
            and is_ip(ip)
            and isinstance(uid8, str)
            and isinstance(attempt, int)
            and isinstance(node, _TEXT_OR_NULL)
            and isinstance(host_ip, _TEXT_OR_NULL)
        ):
            return Task(index, ip, uid8, attempt, node or "", host_ip or "", pod_name(framework, role, index))
    raise RosterError(
        f"taskRoles[{role}]: {_short(value)} is not [index, podIP, uid8, taskAttemptID, nodeName, hostIP]"
    )


def _missing(value: object) -> Missing:
    if not isinstance(value, dict):
        raise RosterError(f"waitingFor: {_short(value)} is not an object")
    return Missing(one_line(str(value.get("task", "?"))), one_line(str(value.get("why") or "")))


def one_line(text: str, limit: int = 300) -> str:
    """Text of others, fit for one line of a log: no control characters, at most `limit` characters."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _field(document: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = document.get(name)
    if not isinstance(value, kind):
        raise RosterError(f"{name}: {_short(value)} is not of type {kind.__name__}")
    return value


def _count(document: Mapping[str, Any], name: str) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RosterError(f"{name}: {_short(value)} is not a count")
    return value


def _short(value: object) -> str:
    return one_line(repr(value), 80)
