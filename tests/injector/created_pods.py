"""Golden Pods created on a real API server: what the server makes of them equals what `render` prints."""

import re

import pytest

from frameworkinjector import __version__
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.quantity import Quantity, read
from frameworkinjector.review.reasons import RefusalError
from localcluster.client import ApiStatusError, RawClient
from tests.injector.golden_pods import JSON, pod_of

ENFORCED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}
# These Pods need what restricted forbids.
NOT_RESTRICTED = {"host-network", "host-network-hosts-asked", "run-as-root"}


def make_restricted(pod: JSON) -> None:
    """Add to the user's part of a Pod what `restricted` requires; the injected part must comply by itself."""
    security = pod["spec"].setdefault("securityContext", {})
    security.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    security["runAsNonRoot"] = True
    for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])):
        own = container.setdefault("securityContext", {})
        own.update(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]})


def check_created(case: str, raw: RawClient, namespace: str, env_files: EnvFiles) -> None:
    """Create a golden Pod in a namespace where `restricted` is enforced; the server must make what `render` prints."""
    pod = pod_of(case)
    if case in NOT_RESTRICTED:
        namespace = "default"
    else:
        raw.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": ENFORCED}})
        make_restricted(pod)
    pod["metadata"].update(namespace=namespace, name=case)
    pod["metadata"].pop("ownerReferences", None)
    if env_files is EnvFiles.NONE:
        for container in pod["spec"]["containers"]:
            # Servers before 1.34 know this field of application containers and forbid it.
            container.pop("restartPolicy", None)
            container.pop("restartPolicyRules", None)
    # The action RestartAllContainers is on by default from there on.
    restarts = int(raw.get("/version")["minor"].rstrip("+")) >= 36
    if name := pod["spec"].get("serviceAccountName"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        raw.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}", account)
    pods = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    try:
        predicted, _ = rendered(pod, Config(version=__version__, in_place_restart=restarts), env_files)
    except RefusalError as error:
        # A golden Pod that needs a newer cluster.
        with pytest.raises(ApiStatusError, match=re.escape(str(error))):
            raw.create(pods, pod)
        return
    created = raw.create(pods, pod)
    ours, expected = barrier_of(created), barrier_of(predicted)
    # The server adds defaults to these fields.
    plain = expected.keys() - {"env", "startupProbe", "readinessProbe", "resources"}
    assert {key: ours[key] for key in plain} == {key: expected[key] for key in plain}
    for probe in ("startupProbe", "readinessProbe"):
        assert ours.get(probe, {}).get("exec") == expected.get(probe, {}).get("exec")
    assert amounts(ours["resources"]) == amounts(expected["resources"])
    assert values(ours) == values(expected)
    for container, wanted in zip(created["spec"]["containers"], predicted["spec"]["containers"], strict=True):
        assert container.get("command") == (wanted.get("command") or None)
        assert values(container) == values(wanted)


def barrier_of(pod: JSON) -> JSON:
    (found,) = [one for one in pod["spec"]["initContainers"] if one["name"] == "frameworkbarrier"]
    return dict(found)


def amounts(resources: JSON) -> dict[str, dict[str, Quantity]]:
    """Return the amounts of resources; the server may write one in another form, and a limit counts as a request."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    both = {"limits": limits, "requests": limits | requests}
    return {name: {key: read(str(text)) for key, text in found.items()} for name, found in both.items()}


def values(container: JSON) -> list[tuple[str, str | None]]:
    """Return the names and literal values of a container's variables, in order."""
    return [(one["name"], one.get("value") or None) for one in container.get("env") or []]
