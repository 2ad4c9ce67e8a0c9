"""Whether a cluster can run Frameworks for this user: facts in, one line per question out. Pure.

`cli.commands.doctor` asks the API server for the facts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from frameworkclient.views.text import duration, shorten
from frameworkcontroller.api import names
from frameworkcontroller.api.definition import crd

OLDEST: Final = (1, 30)
STATUS_ANNOTATION: Final = f"barrier.{names.GROUP}/status"
_MESSAGE: Final = 300


class Grade(StrEnum):
    """How one question is answered."""

    OK = "ok"
    WARNING = "warning"
    FAILING = "failing"


@dataclass(frozen=True)
class Answer:
    """One line of the page: what was found about a subject, and what to do."""

    grade: Grade
    subject: str
    text: str
    fix: str = ""


@dataclass(frozen=True)
class Refusal:
    """What the API server said instead of a fact, with the HTTP status code."""

    code: int
    message: str


@dataclass(frozen=True)
class Facts:
    """What the API server says, each an object as decoded or why there is none."""

    namespace: str
    """In which Frameworks would run."""
    version: dict[str, Any] | Refusal
    definition: dict[str, Any] | Refusal
    discovery: dict[str, Any] | Refusal
    """The resources of the API group."""
    lease: dict[str, Any] | Refusal
    """Of the controller."""
    pod: dict[str, Any] | Refusal
    """A Pod with the label of the barrier, as a dry run would create it."""
    permissions: Mapping[str, bool]
    """Whether the user may, by `verb resource`."""
    policies: Sequence[dict[str, Any]]
    """NetworkPolicies of the namespace."""
    now: datetime


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield the lines of the page."""
    yield _kubernetes(facts.version)
    yield _definition(facts)
    yield _controller(facts)
    yield from _injector(facts)
    yield from _permissions(facts)
    yield from _network(facts)


def _kubernetes(version: dict[str, Any] | Refusal) -> Answer:
    if isinstance(version, Refusal):
        return Answer(Grade.WARNING, "Kubernetes", f"its version is not known: {version.message}")
    text = str(version.get("gitVersion"))
    found = re.match(r"v(\d+)\.(\d+)", text)
    number = (int(found[1]), int(found[2])) if found else (0, 0)
    if number < OLDEST:
        least = ".".join(map(str, OLDEST))
        return Answer(Grade.FAILING, "Kubernetes", f"{text} is older than {least}", "upgrade the cluster")
    return Answer(Grade.OK, "Kubernetes", text)


def _definition(facts: Facts) -> Answer:
    served = facts.discovery
    fix = "install the chart, or apply deploy/install.yaml (docs/operate/install.md)"
    if isinstance(served, Refusal):
        return Answer(Grade.FAILING, "definition", f"Frameworks are not served: {served.message}", fix)
    if f"{names.PLURAL}/status" not in {one.get("name") for one in served.get("resources") or ()}:
        return Answer(Grade.FAILING, "definition", "Frameworks are served without their status", fix)
    if isinstance(facts.definition, Refusal):
        return Answer(Grade.OK, "definition", "Frameworks are served; their definition may not be read")
    if missing := sorted(_fields(crd()) - _fields(facts.definition)):
        text = f"it is older than this program and lacks {', '.join(missing[:5])}"
        fix = "upgrade the installation, or the definition alone (docs/operate/upgrade.md)"
        return Answer(Grade.WARNING, "definition", text, fix)
    return Answer(Grade.OK, "definition", "Frameworks are served, with all fields that this program knows")


def _fields(definition: Mapping[str, Any]) -> set[str]:
    """Return the paths of the fields of the served version."""
    versions = (one for one in definition.get("spec", {}).get("versions") or [] if one.get("name") == names.VERSION)
    return {path for one in versions for path in _paths(one.get("schema", {}).get("openAPIV3Schema", {}), "")}


def _paths(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}{name}"
        yield from _paths(inner, f"{path}{name}.")
    if isinstance(schema.get("items"), dict):
        yield from _paths(schema["items"], f"{path[:-1]}[].")


def _controller(facts: Facts) -> Answer:
    lease = facts.lease
    fix = "look at it: kubectl get pods -A -l app.kubernetes.io/name=frameworkcontroller"
    if isinstance(lease, Refusal):
        if lease.code == 404:
            return Answer(Grade.FAILING, "controller", "no controller holds its Lease, so nothing runs Frameworks", fix)
        return Answer(Grade.WARNING, "controller", f"its Lease may not be read: {shorten(lease.message, _MESSAGE)}")
    spec = lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder or not renewed:
        return Answer(Grade.FAILING, "controller", "its Lease has no holder", fix)
    age = (facts.now - datetime.fromisoformat(renewed)).total_seconds()
    if age > 2 * (spec.get("leaseDurationSeconds") or 0):
        return Answer(Grade.FAILING, "controller", f"{holder} has not renewed its Lease for {duration(age)}", fix)
    return Answer(Grade.OK, "controller", f"{holder} leads, its Lease was renewed {duration(age)} ago")


def _injector(facts: Facts) -> Iterator[Answer]:
    pod = facts.pod
    if isinstance(pod, Refusal):
        yield _not_created(pod)
        return
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    barrier = next((one for one in containers if one.get("name") == names.BARRIER_CONTAINER), None)
    if barrier is None:
        fix = f"install the injector, and look whether its webhook selects namespace {facts.namespace}"
        yield Answer(Grade.FAILING, "injector", "a Pod with the label of the barrier gets no barrier", fix)
        return
    yield Answer(Grade.OK, "injector", f"it adds the barrier, image {barrier.get('image')}")
    status = ((pod.get("metadata") or {}).get("annotations") or {}).get(STATUS_ANNOTATION, "")
    if '"env":"file"' in status:
        yield Answer(Grade.OK, "env files", "variables of presets reach containers by the kubelet")
    else:
        fix = "give each container a command, as the image's entry point is not known to the injector"
        text = "the cluster has none (Kubernetes 1.35 has): commands are wrapped"
        yield Answer(Grade.WARNING, "env files", text, fix)


def _not_created(refusal: Refusal) -> Answer:
    text = shorten(refusal.message, _MESSAGE)
    if "calling webhook" in refusal.message or "call webhook" in refusal.message:
        pods = "kubectl get pods -A -l app.kubernetes.io/name=frameworkinjector"
        fix = f"look at it: {pods}; its certificate may be wrong"
        return Answer(Grade.FAILING, "injector", f"its webhook does not answer: {text}", fix)
    return Answer(Grade.WARNING, "injector", f"not known, because a dry run of a Pod is refused: {text}")


def _permissions(facts: Facts) -> Iterator[Answer]:
    missing = [permission for permission, allowed in facts.permissions.items() if not allowed]
    if missing:
        fix = "ask an administrator; docs/cli.md, section The cluster, says which command needs what"
        yield Answer(Grade.WARNING, "permissions", f"you may not {', '.join(missing)}", fix)
    else:
        yield Answer(Grade.OK, "permissions", f"all that this program needs in namespace {facts.namespace}")


def _network(facts: Facts) -> Iterator[Answer]:
    for policy in facts.policies:
        spec = policy.get("spec") or {}
        name = (policy.get("metadata") or {}).get("name")
        if "Egress" in (spec.get("policyTypes") or ()) and not spec.get("egress"):
            whom = "the Pods that it selects" if spec.get("podSelector") else "all Pods"
            text = f"NetworkPolicy {name} forbids {whom} to send: barriers would not reach the API server"
            fix = "allow egress to the API server and between the Pods of a Framework"
            yield Answer(Grade.WARNING, "network", text, fix)
