"""Whether Kueue, schedulers and permissions are as the settings of the controller need them. Pure.

`cli.commands.doctor` asks the API server for the facts, and writes these lines behind those of `health`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from frameworkclient.diagnosis.health import Answer, Grade, Refusal
from frameworkclient.errors import ManifestError
from frameworkclient.model.yaml_text import documents
from frameworkclient.views.text import shorten
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.pod_group import KINDS, PLURAL
from frameworkcontroller.api.workload import KUEUE_API

NAMESPACE: Final = "kueue-system"
CONFIG: Final = "kueue-manager-config"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:kueue-controller-manager"
_OWNER: Final = "ConfigMap.v1."
"""What owns the Pods of a Framework, as Kueue's configuration writes it."""
_TAKES: Final = "so Kueue may take Pods of Frameworks for its own"
_MESSAGE: Final = 300


@dataclass(frozen=True)
class PlacementFacts:
    """What the API server says, each an object as decoded or why there is none."""

    controller: dict[str, Any] | Refusal
    """The ConfigMap of the controller."""
    discovery: dict[str, Any] | Refusal
    """The resources of Kueue's API group."""
    config: dict[str, Any] | Refusal
    """The ConfigMap of Kueue."""
    review: dict[str, Any] | Refusal
    """A SubjectAccessReview: whether Kueue may list ConfigMaps."""
    groups: dict[str, dict[str, Any] | Refusal]
    """By scheduler, the resources of the API group of its groups of Pods."""
    account: str
    """The controller's user."""
    nodes: dict[str, Any] | Refusal
    """A SubjectAccessReview: whether the controller may list nodes."""


class _Settings(Wire, frozen=True):
    """What counts of the settings, first the controller's, then Kueue's."""

    kueue: dict[str, bool] = msgspec.field(default_factory=dict)
    gang_scheduling: dict[str, Any] = msgspec.field(default_factory=dict)
    rank_topology: dict[str, bool] = msgspec.field(default_factory=dict)
    manage_jobs_without_queue_name: bool = False
    integrations: dict[str, Any] = msgspec.field(default_factory=dict)


def placement_answers(facts: PlacementFacts) -> Iterator[Answer]:
    """Yield the lines about Kueue, groups of Pods, and labels of nodes; none of what the controller does not use."""
    ours = _settings(facts.controller, "frameworkcontroller.yaml")
    if isinstance(ours, str):
        if not isinstance(facts.discovery, Refusal):
            yield _warning(f"whether Frameworks are queued is not known: {ours}", "ask an administrator")
        return
    if ours.kueue.get("enabled"):
        yield from _kueue(facts, ours)
    schedulers = ours.gang_scheduling.get("schedulers") or ()
    yield from (_groups(scheduler, facts.groups[scheduler]) for scheduler in KINDS if scheduler in schedulers)
    if ours.rank_topology.get("enabled"):
        yield _ranks(facts)


def _kueue(facts: PlacementFacts, ours: _Settings) -> Iterator[Answer]:
    if isinstance(facts.discovery, Refusal):
        text = f"{KUEUE_API} is not served, so Frameworks with the label of a queue wait"
        yield Answer(Grade.FAILING, "Kueue", text, "install Kueue, or set kueue.enabled to false")
        return
    found = [*_configuration(facts.config, ours), *_access(facts.review)]
    yield from found or [Answer(Grade.OK, "Kueue", f"{KUEUE_API} is served and set up for Frameworks")]


def _groups(scheduler: str, found: dict[str, Any] | Refusal) -> Answer:
    kind, served = KINDS[scheduler], [] if isinstance(found, Refusal) else found.get("resources") or []
    if any(one.get("name") == PLURAL for one in served):
        return Answer(Grade.OK, "groups", f"{kind.api_version} is served; it takes {kind.gate}, too")
    text = f"{kind.api_version} is not served, so Frameworks with groups of {scheduler} wait"
    return Answer(Grade.FAILING, "groups", text, "enable it (docs/groups.md), or change gangScheduling.schedulers")


def _ranks(facts: PlacementFacts) -> Answer:
    if isinstance(facts.nodes, Refusal):
        fix = f"ask an administrator: kubectl auth can-i list nodes --as={facts.account}"
        text = f"whether the controller may list nodes is not known: {shorten(facts.nodes.message, _MESSAGE)}"
        return Answer(Grade.WARNING, "ranks", text, fix)
    if _is_allowed(facts.nodes):
        return Answer(Grade.OK, "ranks", "the controller may list nodes, whose labels they follow")
    text = f"{facts.account} may not list nodes, so ranks follow the indices of Tasks"
    return Answer(Grade.WARNING, "ranks", text, "install the chart with rankTopology.enabled, or set it to false")


def _configuration(config: dict[str, Any] | Refusal, ours: _Settings) -> Iterator[Answer]:
    theirs = _settings(config, "controller_manager_config.yaml")
    if isinstance(theirs, str):
        fix = f"see that its integrations.externalFrameworks has {_OWNER}"
        yield _warning(f"its configuration is not known: {theirs}", fix)
        return
    if _OWNER not in (theirs.integrations.get("externalFrameworks") or ()):
        where = f"ConfigMap {CONFIG} in {NAMESPACE}"
        fix = f"add it and restart Kueue (docs/queues.md); a configuration outside of {where} is not seen here"
        yield _warning(f"its integrations.externalFrameworks lacks {_OWNER} in {where}, {_TAKES}", fix)
    if theirs.manage_jobs_without_queue_name and not ours.kueue.get("manageFrameworksWithoutQueueName"):
        text = "manageJobsWithoutQueueName is true, and Frameworks without a queue run past its quota"
        yield _warning(text, "set kueue.manageFrameworksWithoutQueueName of the controller to true")


def _access(review: dict[str, Any] | Refusal) -> Iterator[Answer]:
    if isinstance(review, Refusal):
        fix = f"ask an administrator: kubectl auth can-i list configmaps -A --as={ACCOUNT}"
        yield _warning(f"whether it may list ConfigMaps is not known: {shorten(review.message, _MESSAGE)}", fix)
    elif not _is_allowed(review):
        fix = "install the chart with kueue.enabled, and with kueue.serviceAccount if Kueue has another one"
        yield _warning(f"{ACCOUNT} may not list ConfigMaps, {_TAKES}", fix)


def _is_allowed(review: dict[str, Any]) -> bool:
    return bool((review.get("status") or {}).get("allowed"))


def _warning(text: str, fix: str) -> Answer:
    return Answer(Grade.WARNING, "Kueue", text, fix)


def _settings(found: dict[str, Any] | Refusal, key: str) -> _Settings | str:
    """Return the settings in a ConfigMap, or why they are not known."""
    if isinstance(found, Refusal):
        return shorten(found.message, _MESSAGE)
    try:
        return msgspec.convert(next(documents((found.get("data") or {}).get(key) or "", key), {}), _Settings)
    except (ManifestError, msgspec.ValidationError) as error:
        return shorten(str(error), _MESSAGE)
