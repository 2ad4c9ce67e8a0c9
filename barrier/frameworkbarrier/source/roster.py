"""The roster: the small JSON document that the controller keeps in the attempt's ConfigMap for all Pods of a gang.

    {"version": 1, "generation": 12,
     "framework": {"namespace", "name", "uid", "attemptID", "attemptInstanceUID"},
     "ready": 998, "total": 1000, "complete": false,
     "waitingFor": [{"task": "worker-3", "why": "Pending: Unschedulable: 0/3 nodes are available"}],
     "taskRoles": [{"name": "worker", "gpus": 8, "order": [0, 2, 1],
                    "tasks": [[index, podIP, uid8, taskAttemptID, nodeName, hostIP], ...]}]}

`taskRoles` is there only when `complete`, in the order of the Framework's spec. With `"readiness": "arrived"` a Task
counts only once its barrier runs; without it an address is enough. `gpus` is there where the Pods ask for some, and
`order` where the ranks of the Tasks are not in the order of their indices; of a role whose applications say how far
they are, `progress` is true, and `ended` has the indices of Tasks that have ended for good. The roster of a gang that
restarts in place has `epoch`, `why` and `behind`, and each Task a seventh entry, `starts`. `mayEnd` is true once all
Tasks that end together want to end. That of a gang without a Framework names the `pods` of each role, and may say which
Task has rank 0 (`first`), or why the gang can `never` be complete.
Source: docs/reference/barrier.md, section 2.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any

from frameworkbarrier.errors import GoneError, SettingsError
from frameworkbarrier.gate.gang import MISSING_SHOWN, Gang, Missing, Role, Task, is_place
from frameworkbarrier.settings import Settings
from frameworkbarrier.shape import ShapeError, table, word
from frameworkbarrier.text import is_dns_name, is_ip, is_role_name, one_line, pod_name

VERSION = 1
WHY_SHOWN = 300
PLAIN_KEY = "roster"
COMPRESSED_KEY = "roster.gz"
UNPACKED_LIMIT = 64 * 1024 * 1024
"""Bytes; 10,000 Tasks take about 1 MiB, so more than this is not a roster."""

_TEXT_OR_NULL = (str, type(None))


class RosterError(ValueError):
    """The document is not a roster; the text names the field."""


def find(configmap: Mapping[str, Any]) -> str | None:
    """Return the roster's JSON text out of a ConfigMap, or None if that carries no roster.

    Raises:
        RosterError: the compressed form cannot be unpacked.
        ShapeError: the object is not a ConfigMap.
    """
    plain = table(configmap.get("data"), "data").get(PLAIN_KEY)
    if plain is not None:
        return _unicode(word(plain, f"data.{PLAIN_KEY}"))
    packed = table(configmap.get("binaryData"), "binaryData").get(COMPRESSED_KEY)
    if packed is None:
        return None
    packed = word(packed, f"binaryData[{COMPRESSED_KEY!r}]")
    try:
        return unpack(packed).decode()
    except (RosterError, UnicodeDecodeError) as broken:
        raise RosterError(f"binaryData[{COMPRESSED_KEY!r}]: {broken}") from broken


def _unicode(text: str) -> str:
    """Return the text if a file can hold it: JSON can name halves of characters, which no encoding can write."""
    try:
        text.encode()
    except UnicodeEncodeError as broken:
        raise ShapeError(f"data.{PLAIN_KEY}: is not Unicode: {broken.reason}") from broken
    return text


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
        SettingsError: the roster has a version that this barrier cannot read.
        GoneError: it says that the gang can never be complete.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise RosterError(f"the roster is not JSON: {broken}") from broken
    if not isinstance(document, dict):
        raise RosterError("the roster is not a JSON object")
    if document.get("version") != VERSION:
        raise SettingsError(
            f"the roster has version {document.get('version')!r}, this barrier reads {VERSION}: "
            "use the barrier image of the controller's version"
        )
    framework = _field(document, "framework", dict)
    namespace, name = _field(framework, "namespace", str), _field(framework, "name", str)
    if not is_dns_name(namespace) or not is_dns_name(name):
        raise RosterError(f"framework: {_short((namespace, name))} are not the names of a namespace and a Framework")
    if never := _text(document, "never"):
        raise GoneError(f"the gang can never be complete: {one_line(never)}")
    complete = _field(document, "complete", bool)
    total = _count(document, "total")
    return Gang(
        namespace=namespace,
        framework=name,
        uid=_text(framework, "uid"),
        attempt_id=_count(framework, "attemptID"),
        attempt_instance_uid=_text(framework, "attemptInstanceUID"),
        generation=_count(document, "generation"),
        ready=_count(document, "ready"),
        total=total,
        complete=complete,
        waiting_for=tuple(map(_missing, _list(document, "waitingFor")[:MISSING_SHOWN])),
        roles=_roles(document, name, total) if complete else (),
        readiness=_text(document, "readiness") or "ip",
        epoch=None if document.get("epoch") is None else _count(document, "epoch"),
        why=one_line(_text(document, "why"), WHY_SHOWN),
        first=_text(document, "first"),
        may_end=document.get("mayEnd") is True,
        behind=_behind(document),
    )


def check_owner(gang: Gang, settings: Settings) -> None:
    """Check that a roster is about the Framework attempt of this Pod: who may write ConfigMaps could write any names.

    Raises:
        RosterError: it is about another one; names the field and the variable.
    """
    owner = (
        ("namespace", gang.namespace, settings.namespace, "FC_FRAMEWORK_NAMESPACE"),
        ("name", gang.framework, settings.framework, "FC_FRAMEWORK_NAME"),
        ("uid", gang.uid, settings.framework_uid, "FC_FRAMEWORK_UID"),
        ("attemptID", gang.attempt_id, settings.attempt_id, "FC_FRAMEWORK_ATTEMPT_ID"),
    )
    for field, found, expected, env in owner:
        if expected not in {"", None} and found != expected:
            raise RosterError(f"framework.{field}: is {_short(found)}, {env} of this Pod is {expected!r}")


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
                **({"gpus": role.gpus} if role.gpus else {}),
                **({"order": role.order} if role.order else {}),
                "tasks": [
                    [task.index, task.ip, task.uid8, task.attempt_id, task.node, task.host_ip] for task in role.tasks
                ],
            }
            for role in gang.roles
        ]
    return json.dumps(document, separators=(",", ":"))


def _roles(document: Mapping[str, Any], framework: str, total: int) -> tuple[Role, ...]:
    roles = tuple(_role(each, framework) for each in _field(document, "taskRoles", list))
    if len({role.name for role in roles}) < len(roles):
        raise RosterError("taskRoles: a role is there twice")
    if (number := sum(len(role.tasks) for role in roles)) != total:
        raise RosterError(f"taskRoles: has {number} Tasks, total is {total}")
    return roles


def _role(value: object, framework: str) -> Role:
    if not isinstance(value, dict) or not is_role_name(value.get("name")):
        raise RosterError(f"taskRoles: {_short(value)} has no valid name")
    name = value["name"]
    tasks = tuple(_task(each, framework, name, place) for place, each in enumerate(_field(value, "tasks", list)))
    gpus = _count(value, "gpus") if value.get("gpus") is not None else 0
    if "pods" in value:
        pods = _field(value, "pods", list)
        if len(pods) != len(tasks) or not all(map(is_dns_name, pods)):
            raise RosterError(f"taskRoles[{name}].pods: are not the names of its {len(tasks)} Pods")
        for task, pod in zip(tasks, pods, strict=True):
            task.pod = pod
    order = _indices(value.get("order"), f"taskRoles[{name}].order", len(tasks), all_of_them=True)
    ended = _indices(value.get("ended"), f"taskRoles[{name}].ended", len(tasks), all_of_them=False)
    return Role(name, tasks, gpus, order, value.get("progress") is True, frozenset(ended))


def _indices(value: object, where: str, number: int, *, all_of_them: bool) -> tuple[int, ...]:
    if value is None:
        return ()
    found = value if isinstance(value, list) and all(type(one) is int and 0 <= one < number for one in value) else None
    if found is None or len(set(found)) < len(found) or (all_of_them and len(found) < number):
        raise RosterError(f"{where}: {_short(value)} is not the indices of its {number} Tasks, each once")
    return tuple(found)


def _task(value: object, framework: str, role: str, place: int) -> Task:
    # No match statement: its class patterns take four times as long, in every Pod at the moment that all wait for.
    starts = 0
    if isinstance(value, list) and len(value) == 7 and type(value[6]) is int:
        *value, starts = value
    if isinstance(value, list) and len(value) == 6:
        index, ip, uid8, attempt, node, host_ip = value
        # Lists are by index: FB_WORKER_IPS, TF_CONFIG.
        # The last two are null for a Pod that has an address but no node yet, as the Framework's status has them.
        if (
            isinstance(index, int)
            and index == place
            and is_ip(ip)
            and isinstance(uid8, str)
            and isinstance(attempt, int)
            and isinstance(node, _TEXT_OR_NULL)
            and isinstance(host_ip, _TEXT_OR_NULL)
            and is_place(node or "", host_ip or "")
        ):
            pod = pod_name(framework, role, place)
            return Task(place, ip, uid8, attempt, node or "", host_ip or "", pod, starts)
    raise RosterError(
        f"taskRoles[{role}].tasks[{place}]: {_short(value)} is not "
        f"[{place}, podIP, uid8, taskAttemptID, nodeName, hostIP]"
    )


def _behind(document: Mapping[str, Any]) -> tuple[tuple[str, int, str, int], ...]:
    entries = _list(document, "behind")
    for entry in entries:
        kinds = [type(one) for one in entry] if isinstance(entry, list) else []
        if kinds != [str, int, str, int]:
            raise RosterError(f"behind: {_short(entry)} is not [role, index, uid8, starts]")
    return tuple(map(tuple, entries))


def _missing(value: object) -> Missing:
    if not isinstance(value, dict):
        raise RosterError(f"waitingFor: {_short(value)} is not an object")
    return Missing(one_line(str(value.get("task", "?"))), one_line(str(value.get("why") or "")))


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list that may be absent."""
    return [] if document.get(name) is None else _field(document, name, list)


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, _TEXT_OR_NULL):
        raise RosterError(f"{name}: {_short(value)} is not a string")
    return value or ""


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
