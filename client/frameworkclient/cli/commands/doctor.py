"""`doctor`: asks the API server whether it can run Frameworks for this user, and writes a line per answer."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import Format
from frameworkclient.cli.output import write, write_entries
from frameworkclient.cli.terminal import colours_for
from frameworkclient.diagnosis.health import Answer, Facts, Grade, Refusal, answers
from frameworkclient.diagnosis.placement import (
    ACCOUNT,
    CONFIG,
    NAMESPACE,
    PlacementFacts,
    placement_answers,
)
from frameworkclient.errors import translated
from frameworkclient.model.pod_template import pod_template
from frameworkclient.views.text import sanitize
from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import KINDS
from frameworkcontroller.api.workload import KUEUE_API
from frameworkkube.errors import ApiStatusError
from frameworkkube.paths import resource_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from frameworkclient.aio import AsyncClient

LEASE: Final = "frameworkcontroller"
PERMISSIONS: Final = (
    *(f"{verb} {names.PLURAL}.{names.GROUP}" for verb in ("get", "list", "watch", "create", "patch", "delete")),
    *("list pods", "watch pods", "get pods/log", "list events", "delete pods", "delete configmaps"),
)
_COLOURS: Final = {Grade.OK: "green", Grade.WARNING: "yellow", Grade.FAILING: "red"}


async def doctor(client: AsyncClient, system_namespace: str, release: str, output: Format) -> ExitCode:
    """Write the page; ERROR if something is failing."""
    with translated("examine the cluster"):
        facts, placement = await gather(client, system_namespace, name_of(release))
        found = [*answers(facts), *placement_answers(placement)]
    if output in {Format.JSON, Format.YAML}:
        entries = [msgspec.to_builtins(one) for one in found]
        write_entries("answers", entries, output)
    else:
        width = max(len(one.subject) for one in found)
        write("".join(_line(one, width) for one in found))
    return ExitCode.ERROR if any(one.grade is Grade.FAILING for one in found) else ExitCode.DONE


def name_of(release: str) -> str:
    """Return how the chart names the controller of a release."""
    return release if LEASE in release else f"{release[:35].removesuffix('-')}-{LEASE}"


def _line(answer: Answer, width: int) -> str:
    grade = colours_for(sys.stdout)(f"{answer.grade:<7}", _COLOURS[answer.grade])
    fix = f"; {answer.fix}" if answer.fix else ""
    return f"{grade}   {answer.subject:<{width}}   {sanitize(answer.text + fix)}\n"


async def gather(client: AsyncClient, system_namespace: str, name: str) -> tuple[Facts, PlacementFacts]:
    """Ask for all facts at once; the name is that of the controller.

    Raises:
        KubeError: There is no answer at all.
    """
    get = client.kube.get
    # The chart names the account so, unless a value does.
    account = f"system:serviceaccount:{system_namespace}:{name}"
    general = {
        "version": get("/version"),
        "definition": get(resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions", name=names.CRD_NAME)),
        "discovery": get(names.DISCOVERY_PATH),
        "lease": get(resource_path("coordination.k8s.io/v1", "leases", namespace=system_namespace, name=name)),
        "pod": _dry_run(client),
        "policies": get(resource_path("networking.k8s.io/v1", "networkpolicies", namespace=client.namespace)),
    }
    placing = {
        "controller": get(resource_path("v1", "configmaps", namespace=system_namespace, name=f"{name}-config")),
        "discovery": get(f"/apis/{KUEUE_API}"),
        "config": get(resource_path("v1", "configmaps", namespace=NAMESPACE, name=CONFIG)),
        "review": _review(client, "SubjectAccessReview", _lists(ACCOUNT, "configmaps")),
        "nodes": _review(client, "SubjectAccessReview", _lists(account, "nodes")),
    }
    groups = {scheduler: get(f"/apis/{kind.api_version}") for scheduler, kind in KINDS.items()}
    found, placed, grouped, allowed = await asyncio.gather(
        _answers(general), _answers(placing), _answers(groups), _all({one: _may(client, one) for one in PERMISSIONS})
    )
    listed = found.pop("policies")
    policies = () if isinstance(listed, Refusal) else tuple(listed.get("items") or ())
    facts = Facts(client.namespace, **found, permissions=allowed, policies=policies, now=datetime.now(UTC))
    return facts, PlacementFacts(**placed, groups=grouped, account=account)


async def _answers(asked: Mapping[str, Awaitable[bytes]]) -> dict[str, Any]:
    return await _all({name: _answer(request) for name, request in asked.items()})


async def _all(asked: Mapping[str, Awaitable[Any]]) -> dict[str, Any]:
    """Wait for all of them at once."""
    return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))


async def _answer(request: Awaitable[bytes]) -> Any:
    try:
        return msgspec.json.decode(await request)
    except ApiStatusError as error:
        return Refusal(error.code, error.message)


async def _dry_run(client: AsyncClient) -> bytes:
    """Return the Pod that would be created with the label of the barrier."""
    framework = {names.FRAMEWORK_NAME: "doctor", names.TASKROLE_NAME: "worker", names.TASK_INDEX: "0"}
    pod = pod_template(image="none", command=["none"], preset="pytorch", labels=framework, annotations=framework)
    pod["metadata"]["generateName"] = "doctor-"
    # As the strictest of the Pod Security Standards wants it.
    pod["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = pod["spec"]["containers"]
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod |= {"apiVersion": "v1", "kind": "Pod"}
    path, body = resource_path("v1", "pods", namespace=client.namespace), msgspec.json.encode(pod)
    return await client.kube.request("POST", path, query={"dryRun": "All"}, body=body, timeout_seconds=40)


async def _may(client: AsyncClient, permission: str) -> bool:
    verb, _, resource = permission.partition(" ")
    resource, _, group = resource.partition(".")
    resource, _, subresource = resource.partition("/")
    attributes = {"namespace": client.namespace, "verb": verb, "group": group, "resource": resource}
    spec = {"resourceAttributes": attributes | {"subresource": subresource}}
    answer = msgspec.json.decode(await _review(client, "SelfSubjectAccessReview", spec))
    return bool((answer.get("status") or {}).get("allowed"))


def _lists(account: str, resource: str) -> dict[str, Any]:
    """Return the question whether a service account may list these in all namespaces."""
    namespace = account.split(":")[2]
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {"user": account, "groups": groups, "resourceAttributes": {"verb": "list", "resource": resource}}


async def _review(client: AsyncClient, kind: str, spec: Mapping[str, Any]) -> bytes:
    """Return the answer of the API server to the question whether somebody may."""
    path = resource_path("authorization.k8s.io/v1", f"{kind.lower()}s")
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return await client.kube.create(path, msgspec.json.encode(review))
