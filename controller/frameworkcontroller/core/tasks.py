"""All Tasks of a Framework: those that are looked at in a pass, and what is asked for their Pods."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import RetryPolicy, TaskSpec

from . import announce, classify, framework, snapshots, task
from .effects import CreatePod, DeletePod, Effect
from .template import AttemptNames, PodTemplate, TemplateError

if TYPE_CHECKING:
    from frameworkcontroller.api.types import FrameworkSpec, Meta

    from .book import Book, Slot
    from .config import CoreConfig
    from .decision import Pass
    from .ledger import RoleLedger

# The Pod of a Task in one of these has shown up.
SEEN: Final = frozenset({State.PREPARING, State.RUNNING})


class Tasks:
    """The Tasks' part of a pass.

    Args:
        meta: of the Framework.
        config: the settings.
        book: where the Tasks stand.
    """

    def __init__(self, meta: Meta, config: CoreConfig, book: Book) -> None:
        self._namespace, self._name, self._uid = meta.namespace, meta.name, meta.uid
        self._config, self._book = config, book
        self._templates: dict[str, PodTemplate] = {}

    def forget_templates(self) -> None:
        """The spec or the attempt is another one."""
        self._templates.clear()

    def step(self, at: Pass) -> None:
        """Look at every Task that is dirty."""
        policies = {role.name: role.task.retry_policy for role in at.spec.task_roles or ()}
        contexts: dict[str, task.TaskContext] = {}
        for slot in self._book.take_dirty(at.now):
            current = self._book.task(slot)
            if current is None or at.outbox.is_busy(("pod", *slot)):
                continue  # its outcome will make it dirty again
            name = slot[0]
            if name not in contexts:
                contexts[name] = task.TaskContext(
                    now=at.stamp,
                    retry_policy=policies.get(name, RetryPolicy()),
                    graceful_timeout_sec=self._book.roles[name].graceful_timeout_sec,
                    creation_timeout=timedelta(seconds=self._config.object_local_cache_creation_timeout_sec),
                    codes=self._config.codes,
                    attempt_ending=framework.is_ending(self._book.known),
                    config_map_name=names.config_map_name(self._name),
                    framework_uid=self._uid,
                    waits_for_arrival=self._book.waits_for_arrival,
                )
            pod = at.view.pod(current.attempt_status.pod_name)
            step = task.step(current, pod, contexts[name], persisted=self._book.is_shown(slot))
            if step.task != current:
                self._book.put(slot, step.task)
                first_seen = current.state is State.CREATION_REQUESTED and step.task.state in SEEN
                unguarded = announce.of_unguarded(pod) if pod is not None and first_seen else None
                if unguarded is not None:
                    self._book.announce(unguarded)
            if step.wake_at is not None:
                self._book.touch_at(slot, step.wake_at)
            if step.action is not None:
                self._act(slot, step, at)

    def _act(self, slot: Slot, step: task.Step, at: Pass) -> None:
        effect: Effect
        if step.action is not task.Action.CREATE:
            assert step.pod_uid is not None
            effect = DeletePod(
                *slot,
                step.pod_uid,
                grace_seconds=0 if step.action is task.Action.DELETE_FORCED else None,
                confirm=step.action is task.Action.DELETE_UNSEEN,
                recorded=step.pod_uid == step.task.attempt_status.pod_uid,
            )
        elif not self._book.shown:
            # The ConfigMap that will own the Pod is not recorded yet.
            self._book.touch_when_shown(slot)
            return
        else:
            try:
                template = self._template(self._book.roles[slot[0]], at.spec)
            except TemplateError as error:
                refusal = classify.predefined(Code.POD_CREATION_PERMANENT_ERROR, f"Failed to create Pod: {error}")
                ended = task.complete(step.task, refusal)
                self._book.put(slot, task.move(ended, State.ATTEMPT_COMPLETED, at.stamp))
                return
            effect = CreatePod(*slot, step.task.instance_uid, step.task.attempt_status.id, template)
        until = at.emit(effect)
        if until is not None:
            self._book.touch_at(slot, until)

    def take_snapshots(self, at: Pass) -> None:
        """Of Tasks that this pass has put others in the place of; their last state is shown, else it would not have."""
        for one in self._book.take_forgotten():
            spec = next((role.task for role in at.spec.task_roles or () if role.name == one.role), TaskSpec())
            shared = self._attempt_names(one.role, one.role_uid)
            at.decision.snapshots.append(snapshots.of_task(one.trigger, at.view.framework, shared, spec, one.task))

    def _attempt_names(self, role: str, role_uid: str) -> AttemptNames:
        attempt = self._book.known.attempt_status
        return AttemptNames(
            namespace=self._namespace,
            framework=self._name,
            framework_uid=self._uid,
            framework_attempt_id=attempt.id,
            config_map_uid=attempt.config_map_uid or "",
            role=role,
            role_uid=role_uid,
        )

    def _template(self, ledger: RoleLedger, spec: FrameworkSpec) -> PodTemplate:
        template = self._templates.get(ledger.name)
        if template is None:
            assert self._book.known.attempt_status.config_map_uid is not None
            shared = self._attempt_names(ledger.name, ledger.instance_uid)
            raw = next(role.task.pod for role in spec.task_roles or () if role.name == ledger.name)
            template = self._templates[ledger.name] = PodTemplate(bytes(raw), shared)
        return template
