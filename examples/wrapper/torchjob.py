"""A kopf operator: a TorchJob becomes a Framework, a change of its workers a rescale, and its status follows."""

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import kopf
import yaml

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
JOBS = ("example.frameworkcontroller.dev", "v1", "torchjobs")
FRAMEWORKS = ("frameworkcontroller.microsoft.com", "v1", "frameworks")
CONFLICT = 409
TEMPLATE = Path(__file__).with_name("framework.yaml")
PROCESSES = "barrier.frameworkcontroller.microsoft.com/nproc-per-node"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Look at nothing outside of the namespace, and write no Events: the controller of Frameworks does."""
    settings.scanning.disabled = True
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()
    settings.posting.enabled = False


@kopf.on.login()
def login(**arguments: Any) -> Any:
    """Log in as the service account of the Pod."""
    return kopf.login_with_service_account(**arguments)


@kopf.on.create(*JOBS)
def create(body: kopf.Body, name: str, namespace: str, **_: Any) -> None:
    """Create the Framework, owned by its TorchJob; it is there already if this ran before and was interrupted."""
    made = framework(name, dict(body.spec))
    kopf.adopt(made, owner=body)
    try:
        request("POST", FRAMEWORKS, namespace, "", made)
    except urllib.error.HTTPError as error:
        if error.code != CONFLICT:
            raise


@kopf.on.field(*JOBS, field="spec.workers")
def rescale(old: Any, new: int, name: str, namespace: str, **_: Any) -> None:
    """Set the number of Tasks; the test fails if somebody else has changed the roles."""
    if old is not None:
        role = "/spec/taskRoles/0"
        changes = [{"op": "test", "path": f"{role}/name", "value": "worker"},
                   {"op": "replace", "path": f"{role}/taskNumber", "value": new}]  # fmt: skip
        request("PATCH", FRAMEWORKS, namespace, name, changes, "application/json-patch+json")


@kopf.on.event(*FRAMEWORKS, labels={"torchjob": kopf.PRESENT})
def follow(event: kopf.RawEvent, body: kopf.Body, namespace: str, **_: Any) -> None:
    """Copy what matters of a Framework's status to its TorchJob, whenever it changes."""
    status = body.get("status")
    if event["type"] != "DELETED" and status:
        completion = status["attemptStatus"].get("completionStatus") if status["state"] == "Completed" else None
        now = {"state": status["state"], "ready": status.get("ready"), "result": (completion or {}).get("phrase")}
        request("PATCH", JOBS, namespace, f"{body.metadata.labels['torchjob']}/status", {"status": now})


def framework(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the Framework of a TorchJob: the template, with what the TorchJob says."""
    made: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    made["metadata"] = {"name": name, "labels": {"torchjob": name}}
    made["spec"]["retryPolicy"]["maxRetryCount"] = spec["retries"]
    (role,) = made["spec"]["taskRoles"]
    role["taskNumber"] = spec["workers"]
    role["task"]["pod"]["metadata"]["annotations"][PROCESSES] = str(spec["processes"])
    role["task"]["pod"]["spec"]["containers"][0] |= {"image": spec["image"], "command": spec["command"]}
    return made


def request(verb: str, kind: tuple[str, str, str], namespace: str, name: str, body: Any, form: str = "") -> None:
    """Send one request to the API server; a patch is a merge patch unless `form` says otherwise."""
    group, version, plural = kind
    url = f"https://kubernetes.default.svc/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}".rstrip("/")
    form = form or ("application/json" if verb == "POST" else "application/merge-patch+json")
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": form}
    sent = urllib.request.Request(url, json.dumps(body).encode(), headers, method=verb)
    urllib.request.urlopen(sent, timeout=30, context=ssl.create_default_context(cafile=ACCOUNT / "ca.crt")).close()
