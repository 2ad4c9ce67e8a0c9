"""Translates a plan into RFC 6902 operations on the Pod as received.

`review` and `render` call `operations` with the Pod and its plan. It promises that the operations only add, except for
one `replace` of each wrapped command, and that nothing of the Pod is written back, so that fields which this program
does not know survive. Source: docs/reference/injector.md, section 2.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from frameworkinjector import names
from frameworkinjector.review import sidecar
from frameworkinjector.review.plan import ContainerPlan, Plan
from frameworkinjector.review.pod import JSON, Container, Pod

_encode: Final = msgspec.json.Encoder().encode


def operations(pod: Pod, plan: Plan) -> list[JSON]:
    """Return the operations in an order in which each path exists when its operation is applied."""
    spec = pod.spec
    return [
        *_annotations(pod, plan),
        *_appended("/spec/volumes", plan.volumes, exists=bool(spec.volumes)),
        *_appended("/spec/imagePullSecrets", plan.pull_secrets, exists=bool(spec.image_pull_secrets)),
        *_appended("/spec/initContainers", [plan.barrier], exists=bool(spec.init_containers)),
        *(op for one in plan.containers for op in _container((spec.containers or [])[one.index], one)),
    ]


def _add(path: str, value: Any) -> JSON:
    return {"op": "add", "path": path, "value": value}


def _annotations(pod: Pod, plan: Plan) -> Iterator[JSON]:
    added = {names.STATUS: _encode(plan.status).decode(), **({names.READS: plan.reads} if plan.reads else {})}
    if pod.metadata.annotations is None:
        # Absent or null: `add` creates the one and replaces the other.
        yield _add("/metadata/annotations", added)
    else:
        # A slash in a key is escaped so.
        yield from (_add(f"/metadata/annotations/{key.replace('/', '~1')}", value) for key, value in added.items())


def _appended(path: str, values: Sequence[JSON], *, exists: bool) -> Iterator[JSON]:
    if not values:
        return
    if exists:
        yield from (_add(f"{path}/-", value) for value in values)
    else:
        yield _add(path, list(values))


def _container(received: Container, plan: ContainerPlan) -> Iterator[JSON]:
    path = f"/spec/containers/{plan.index}"
    if received.env:
        # Before the user's own variables, so that these can refer to them as $(NAME).
        yield from [_add(f"{path}/env/{position}", variable) for position, variable in enumerate(plan.env)]
    elif plan.env:
        yield _add(f"{path}/env", list(plan.env))
    yield from _appended(f"{path}/volumeMounts", plan.mounts, exists=bool(received.volume_mounts))
    if plan.rules:
        yield from _appended(f"{path}/restartPolicyRules", plan.rules, exists=bool(received.restart_policy_rules))
        if not received.restart_policy:
            # Rules need one; it is that of the Pod.
            yield _add(f"{path}/restartPolicy", sidecar.NEVER)
    if plan.command is not None:
        yield {"op": "replace", "path": f"{path}/command", "value": list(plan.command)}
