"""Golden Pods created on a real API server, and what it makes of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from frameworkinjector import __version__
from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.errors import RefusalError
from frameworkinjector.render import rendered
from injector.goldens import pod_of
from injector.replicas import create
from support.raw import Raw, RefusedError

if TYPE_CHECKING:
    from injector.goldens import JSON


def restricted(raw: Raw, namespace: str) -> None:
    labels = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    }
    raw.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})


def made_restricted(pod: JSON) -> None:
    """What a user must say in a namespace that enforces ``restricted``, said in the user's parts and not in ours."""
    security = pod["spec"].setdefault("securityContext", {})
    security.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    security["runAsNonRoot"] = True
    for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])):
        own = container.setdefault("securityContext", {})
        own.update(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]})


# They need what restricted forbids.
NOT_RESTRICTED = {"host-network", "host-network-hosts-asked", "run-as-root"}


def check_created(case: str, raw: Raw, namespace: str, env_files: EnvFiles) -> None:
    """Creates a golden Pod where ``restricted`` is enforced; the server stores what ``render`` foretells."""
    pod = pod_of(case)
    if case not in NOT_RESTRICTED:
        restricted(raw, namespace)
        made_restricted(pod)
    pod["metadata"].update(namespace=namespace, name=case)
    pod["metadata"].pop("ownerReferences", None)
    if env_files is EnvFiles.NONE:
        for container in pod["spec"]["containers"]:
            # Servers before 1.34 know this field of application containers and forbid it.
            container.pop("restartPolicy", None)
    if "serviceAccountName" in pod["spec"]:
        account = {"metadata": {"name": pod["spec"]["serviceAccountName"]}}
        raw.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    try:
        foretold, _, _ = rendered(pod, Config(version=__version__), env_files)
    except RefusalError as error:
        # A golden Pod of a newer cluster, where more is possible.
        with pytest.raises(RefusedError, match=re.escape(str(error))):
            create(raw, namespace, pod)
        return
    created = create(raw, namespace, pod)
    ours, expected = barrier_of(created), barrier_of(foretold)
    # The server adds defaults inside these.
    nested = {"env", "startupProbe"}
    assert {key: ours[key] for key in expected if key not in nested} == {
        key: value for key, value in expected.items() if key not in nested
    }
    assert ours.get("startupProbe", {}).get("exec") == expected.get("startupProbe", {}).get("exec")
    assert values(ours) == values(expected)
    for container, wanted in zip(created["spec"]["containers"], foretold["spec"]["containers"], strict=True):
        assert container.get("command") == (wanted.get("command") or None)
        assert values(container) == values(wanted)


def barrier_of(pod: JSON) -> JSON:
    (found,) = [one for one in pod["spec"]["initContainers"] if one["name"] == "frameworkbarrier"]
    return dict(found)


def values(container: JSON) -> list[tuple[str, str | None]]:
    """The variables of a container, in order; of those that come from elsewhere the names."""
    return [(one["name"], one.get("value") or None) for one in container.get("env") or []]
