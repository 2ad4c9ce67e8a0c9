"""The queue's part of a reconcile pass: what the Workload means for the Framework, and what is done about it.

`FrameworkPass.steps` calls `begin` before each step of its state machine, `FrameworkReconciler.steps` calls `write` at
the end. The Workload has one name as long as the Framework lives. It is created, replaced and given up while no attempt
has begun, when no Pod is left; an attempt that has begun follows it, and ends if it cannot.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.meta import Identity
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import QueueStatus
from frameworkcontroller.api.workload import ADMITTED, FINISHED, KUEUE, KUEUE_API, QueueLabels, Workload
from frameworkcontroller.core import effects
from frameworkcontroller.core.clock import Now
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.machines.framework import is_ending, is_ours
from frameworkcontroller.core.pods.template import TemplateError
from frameworkcontroller.core.queue import protocol, verdict
from frameworkcontroller.core.queue.admission import AdmissionError, UnknownFlavorError, additions_of
from frameworkcontroller.core.queue.pod_sets import WantedPodSet, wanted_pod_sets
from frameworkcontroller.core.queue.verdict import FREE, MAX_MESSAGE, Verdict
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.core.reconcile.decision import ReconcileContext
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import StatusWriter

FAILED_TO_START: Final = "FailedToStart"
PREEMPTED: Final = "Framework is not admitted by Kueue any more: {why}"
_IGNORED: Final = (
    "its label kueue.x-k8s.io/queue-name names LocalQueue {queue}, which has no effect: kueue.enabled is false"
)
_DISABLED: Final = (
    "it waits for admission by LocalQueue {queue}, and kueue.enabled is false: switch it on, or remove the label "
    "kueue.x-k8s.io/queue-name"
)
_NO_QUEUE: Final = "kueue.manageFrameworksWithoutQueueName is true: give it the label kueue.x-k8s.io/queue-name"
_CHANGED: Final = "somebody changes queueName, priorityClassRef or podSets of its Workload: a webhook, or a policy"
_TOO_SMALL: Final = "its Workload is for another number, or another kind, of Pods"


class QueuePass:
    """The admission of one Framework."""

    def __init__(
        self, meta: Identity, config: CoreConfig, state: FrameworkState, in_flight: InFlight, writer: StatusWriter
    ) -> None:
        self._meta, self._config, self._state, self._in_flight, self._writer = meta, config, state, in_flight, writer
        self._name = names.workload_name(meta.name, meta.uid)
        self._named = (effects.WORKLOAD, KUEUE_API, self._name)
        self._followed = 0, QueueLabels()
        """Generation of the spec, and labels, that were followed last; the spec itself would keep all its bytes."""
        # What follows from the spec: its podSets, or why there are none, and what an admission adds, or why it cannot.
        self._wanted: tuple[WantedPodSet, ...] | str | None = None
        self._given: tuple[object, dict[str, bytes] | str] | None = None
        self._told = False
        self._made = ""
        """The UID of the Workload that was made for this spec and these labels."""
        self._ended = ""
        """The UID of a Workload that was to be finished or deleted: the cache may still show it admitted."""
        self._next: effects.CompanionEffect | None = None

    # --- what the Workload means -------------------------------------------------------------------------------------

    def begin(self, ctx: ReconcileContext) -> Verdict:
        """Return what the queue means now; where no attempt has begun, the status says for which one it waits."""
        status, self._next = self._state.status, None
        if not self._config.kueue:
            return self._without_kueue(ctx)
        if status.state is State.CREATION_PENDING and status.completion is None:
            return self._before(ctx, ctx.framework.queue_labels)
        if status.queue and not is_ending(status):
            return self._during(ctx)
        return self._after(ctx)

    def _without_kueue(self, ctx: ReconcileContext) -> Verdict:
        """Let only those wait whose status says that they do."""
        status = self._state.status
        if self._writer.persisted is None and not self._told and (queue := ctx.framework.queue_labels.queue):
            self._told = True
            self._state.add_event(KubeEvent("QueueIgnored", _IGNORED.format(queue=queue), warning=True))
        if not status.queue or status.state is not State.CREATION_PENDING:
            return FREE
        if status.queue.waiting and ctx.framework.queue_labels.queue:
            return Verdict(hold=(verdict.DISABLED, _DISABLED.format(queue=status.queue.name)))
        self._set_queue(None)
        return FREE

    def _before(self, ctx: ReconcileContext, labels: QueueLabels) -> Verdict:
        workload, spec = self._workload(ctx), ctx.spec
        self._follow(ctx, labels)
        if ctx.framework.metadata.deletion_timestamp is not None:
            return self._state.queueing
        begins = self._state.is_to_begin(spec)
        if not (begins and labels.queue):
            self._set_queue(None)
            self._give_up(workload)
            return Verdict(hold=(verdict.NO_QUEUE, _NO_QUEUE)) if begins and self._config.kueue_manages_all else FREE
        self._set_queue(QueueStatus(labels.queue, self._name, waiting=True))
        waits = (verdict.WAITING, f"it waits for admission by LocalQueue {labels.queue}, as Workload {self._name}")
        if failure := self._in_flight.last_failure(effects.WORKLOAD):
            waits = (verdict.REFUSED, failure[:MAX_MESSAGE])
        if unknown := ctx.view.unknown(KUEUE):
            return Verdict(hold=(verdict.UNKNOWN, unknown))
        try:
            wanted = self._pod_sets(spec)
        except TemplateError as error:
            self._give_up(workload)
            return Verdict(hold=(verdict.REFUSED, str(error)[:MAX_MESSAGE]))
        if workload is None:
            self._next = self._creation(labels, wanted)
            return Verdict(hold=waits)
        needed = {role.name: role.task_number for role in spec.by_name.values()}
        is_another = (
            workload.spec.queue_name != labels.queue
            or _priority_class(workload) != labels.priority_class
            or not _has_room(workload, wanted, needed, {})
        )
        if is_another and workload.metadata.uid == self._made:
            return Verdict(hold=(verdict.REFUSED, _CHANGED))
        if is_another or not _has_room(workload, wanted, needed, workload.reclaimed):
            self._give_up(workload)
            return Verdict(hold=waits)
        return self._admission(ctx, workload, waits)

    def _admission(self, ctx: ReconcileContext, workload: Workload, waits: tuple[str, str]) -> Verdict:
        """Return what a Workload that is right says of an attempt that has not begun."""
        is_finished = workload.is_true(FINISHED)
        if protocol.needs_release(workload) and not is_finished:
            self._patch(workload, protocol.release(workload, ctx.stamp))
        if workload.metadata.deletion_timestamp is not None or not (workload.is_admitted or is_finished):
            return Verdict(hold=waits)
        try:
            found = Verdict(additions=self._additions(ctx, workload))
        except UnknownFlavorError as error:
            return Verdict(hold=(verdict.UNKNOWN, str(error)))
        except AdmissionError as error:
            if not is_finished:
                self._ended = workload.metadata.uid
                self._patch(workload, protocol.finish(workload, FAILED_TO_START, str(error), ctx.stamp))
            return Verdict(hold=(verdict.CONFLICT, str(error)[:MAX_MESSAGE]))
        if is_finished or workload.metadata.uid == self._ended:
            # What was wrong with it has been mended, or others have finished it.
            self._give_up(workload)
            return Verdict(hold=waits)
        return found

    def _during(self, ctx: ReconcileContext) -> Verdict:
        """Return what the Workload says of an attempt that has begun under its admission."""
        if ctx.view.unknown(KUEUE):
            return Verdict(holds_pods=True)
        workload = self._workload(ctx)
        self._follow(ctx, self._followed[1])
        if why := protocol.eviction_text(workload):
            return _evicted(why)
        assert workload is not None
        try:
            if not _has_room(workload, self._pod_sets(ctx.spec), self._live(), workload.reclaimed):
                return _evicted(_TOO_SMALL)
            return Verdict(additions=self._additions(ctx, workload))
        except UnknownFlavorError as error:
            return Verdict(holds_pods=True, trouble=str(error))
        except (AdmissionError, TemplateError) as error:
            return _evicted(str(error)[:MAX_MESSAGE])

    def _after(self, ctx: ReconcileContext) -> Verdict:
        """Tell Kueue that nothing of an attempt, or of the Framework, is left."""
        workload, status = self._workload(ctx), self._state.status
        if workload is None or workload.metadata.deletion_timestamp is not None:
            return FREE
        retries = status.state is State.ATTEMPT_COMPLETED and bool(status.retry_policy_status.retry_delay_sec)
        if status.state is not State.COMPLETED and not status.queue:
            # The attempt began without it, whatever has kept it from being deleted then.
            self._give_up(workload)
        elif status.state is State.COMPLETED and not workload.is_true(FINISHED):
            end = status.completion
            assert end is not None
            failed = end.type.name == TypeName.FAILED
            message = end.diagnostics or end.phrase
            self._patch(workload, protocol.finish(workload, "Failed" if failed else "Succeeded", message, ctx.stamp))
        elif status.state is State.ATTEMPT_COMPLETED and protocol.needs_release(workload):
            self._patch(workload, protocol.release(workload, ctx.stamp))
        elif retries:
            self._patch(workload, protocol.report(workload, ready=False, reclaimable={}, now=ctx.stamp))
        return FREE

    def _set_queue(self, queue: QueueStatus | None) -> None:
        if (self._state.status.queue or None) != queue:
            self._state.set(replace(self._state.status, queue=queue or UNSET))

    def _workload(self, ctx: ReconcileContext) -> Workload | None:
        found = ctx.view.workload(self._name)
        return found if found is not None and is_ours(found.metadata, self._meta.uid) else None

    def _follow(self, ctx: ReconcileContext, labels: QueueLabels) -> None:
        """Follow what is asked for."""
        asked = ctx.framework.metadata.generation, labels
        if asked != self._followed:
            self._followed, self._wanted, self._given, self._made = asked, None, None, ""
            self._in_flight.reset_delay(effects.WORKLOAD)

    def _pod_sets(self, spec: FrameworkSpec) -> tuple[WantedPodSet, ...]:
        if self._wanted is None:
            try:
                self._wanted = wanted_pod_sets(spec)
            except TemplateError as error:
                self._wanted = str(error)
        if isinstance(self._wanted, str):
            raise TemplateError(self._wanted)
        return self._wanted

    def _additions(self, ctx: ReconcileContext, workload: Workload) -> dict[str, bytes]:
        # Not by its version: anybody may annotate it, and to look into templates of a mebibyte takes 40 ms.
        status = workload.status
        given = workload.metadata.uid, workload.condition(ADMITTED), status.admission, status.admission_checks
        if self._given is None or self._given[0] != given:
            try:
                self._given = given, additions_of(workload, ctx.spec, ctx.view.flavor)
            except (AdmissionError, msgspec.ValidationError) as error:
                self._given = given, str(error)
        if isinstance(found := self._given[1], str):
            raise AdmissionError(found)
        return found

    def _live(self) -> dict[str, int]:
        """Return how many Tasks of each role have a Pod, or may still get one."""
        roles = self._state.roles.values()
        return {one.name: len(one.tasks) - one.by_state[State.COMPLETED] for one in roles}

    @property
    def is_quiet(self) -> bool:
        """Whether the Workload is as it is to be, as far as it is known."""
        return self._next is None

    # --- what is done about it ---------------------------------------------------------------------------------------

    def write(self, ctx: ReconcileContext) -> None:
        """Do what was decided, once the status that it follows from is persisted."""
        if not self._config.kueue or not self._state.revisions.is_persisted(Mark.FRAMEWORK):
            return
        if self._next is None and self._state.status.queue and not self._state.queueing.eviction:
            self._report(ctx)
        if self._next is not None:
            ctx.emit(self._next)

    def _report(self, ctx: ReconcileContext) -> None:
        """Tell Kueue how far the attempt that runs is, as persisted."""
        workload, summary, status = self._workload(ctx), self._writer.persisted_summary, self._state.status
        if workload is None or summary is None or is_ending(status) or status.state is State.CREATION_PENDING:
            return
        reclaimable: dict[str, int] = {}
        if self._state.revisions.all_persisted:
            live = self._live()
            reclaimable = {one.name: one.count - live.get(one.name, 0) for one in workload.spec.pod_sets}
        ready = summary.complete
        self._patch(workload, protocol.report(workload, ready=ready, reclaimable=reclaimable, now=ctx.stamp))

    def _creation(self, labels: QueueLabels, wanted: tuple[WantedPodSet, ...]) -> effects.CreateCompanion:
        spec = {"queueName": labels.queue, "podSets": [msgspec.Raw(one.document) for one in wanted]}
        of_pods = next((one.priority_class for one in wanted if one.priority_class), "")
        return effects.CreateCompanion(*self._named, spec, priority=(labels.priority_class, of_pods))

    def _give_up(self, workload: Workload | None) -> None:
        if workload is not None and workload.metadata.deletion_timestamp is None:
            self._ended = workload.metadata.uid
            self._next = effects.DeleteCompanion(*self._named, self._ended)

    def _patch(self, workload: Workload, patch: dict[str, object]) -> None:
        meta = workload.metadata
        if patch:
            self._next = effects.PatchCompanion(*self._named, meta.uid, {"status": patch}, meta.resource_version)

    def apply_outcome(self, effect: effects.CompanionEffect, outcome: effects.Outcome, now: Now) -> None:
        """Take in what has become of a change of the Workload; the cache will show it."""
        if isinstance(effect, effects.CreateCompanion) and isinstance(outcome, effects.Done):
            self._made = outcome.uid
        if self._in_flight.delayed_until(effects.WORKLOAD, now.steady) is None:
            self._in_flight.recheck_later(effects.WORKLOAD, now.steady)


def _evicted(why: str) -> Verdict:
    return Verdict(eviction=PREEMPTED.format(why=why))


def _has_room(
    workload: Workload, wanted: tuple[WantedPodSet, ...], needed: Mapping[str, int], reclaimed: Mapping[str, int]
) -> bool:
    """Report whether so many Pods of each role fit into the podSets of a Workload, without what was reclaimed."""
    given = {one.name: one for one in workload.spec.pod_sets}
    return all(
        (found := given.get(one.name)) is not None
        and found.shape == one.shape
        and number <= found.count - reclaimed.get(one.name, 0)
        for one in wanted
        if (number := needed.get(one.name, 0))
    )


def _priority_class(workload: Workload) -> str:
    found = workload.spec.priority_class_ref or {}
    return found.get("name", "") if found.get("kind") == "WorkloadPriorityClass" else ""
