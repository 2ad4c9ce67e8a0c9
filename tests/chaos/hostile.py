"""Objects that the API server lets in and that no healthy Framework may notice."""

import gzip
import itertools
import json
import random
import time
from base64 import b64encode

import urllib3

from frameworkcontroller.api import names
from frameworkkube.http.client import PARTIAL_METADATA_LIST
from localcluster import Cluster
from localcluster.client import ApiStatusError, Json
from testkit.frameworks import Frameworks, framework, role
from tests.chaos.journal import Journal

CUT_OFF = b64encode(gzip.compress(b"[" + b"1," * 5000 + b"1]")[:-9]).decode()
HELD = "example.com/hold"
AT_ONCE = 40
"""So many hostile objects are there at most."""
KINDS = (
    *("nested", "corrupt", "odd status", "huge", "refused", "ends", "held"),
    *("pod", "configmap", "squatter", "stuffed"),
)
NOBODYS = {"schedulerName": "nobody", "containers": [{"name": "x", "image": "x"}]}


class Hostile:
    """Sends hostile objects, and removes them at the end."""

    def __init__(self, cluster: Cluster, frameworks: Frameworks, draw: random.Random, journal: Journal) -> None:
        self._frameworks, self._raw = frameworks, frameworks.raw
        self._draw, self._journal = draw, journal
        self._numbers = itertools.count()
        self._core = f"/api/v1/namespaces/{frameworks.namespace}"
        self._pool = urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False, timeout=30.0)
        self._headers = {"Authorization": f"Bearer {cluster.admin_token}"}
        self._url = cluster.server
        self._sent: list[str] = []

    def send(self, healthy: list[str]) -> None:
        """Send one hostile object, which may pretend to belong to a healthy Framework; of so many, the oldest goes."""
        if len(self._sent) >= AT_ONCE:
            self._remove_oldest()
        kind = self._draw.choice(KINDS)
        name = f"hostile{next(self._numbers)}"
        victim = self._draw.choice(healthy) if healthy else "nobody"
        if kind == "squatter":
            collection = self._draw.choice(("pods", "configmaps"))
            path, body = f"{self._core}/{collection}", self._squatter(collection)
        elif kind in {"pod", "configmap"}:
            path, body = f"{self._core}/{kind}s", self._core_object(kind, name, victim)
        else:
            path, body = self._frameworks.path, self._framework(kind, name)
        self._sent.append(f"{path}/{body['metadata']['name']}")
        self._post(path, body)
        if kind in {"corrupt", "odd status"}:
            self._spoil(kind, f"{path}/{name}")
        if kind == "held":
            self._raw.delete(f"{path}/{name}")
        self._journal.did(f"hostile {kind}", body["metadata"]["name"])

    def remove(self) -> None:
        while self._sent:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        path = self._sent[0]
        patch = {"metadata": {"finalizers": None}}
        self._request("PATCH", path, json.dumps(patch), allowed={404}, content_type="application/merge-patch+json")
        self._request("DELETE", path, json.dumps({"gracePeriodSeconds": 0}), allowed={404})
        self._sent.pop(0)

    def left(self) -> list[str]:
        """Return the names of all Frameworks that are left; their specs are not read."""
        answer = self._request("GET", self._frameworks.path, accept=PARTIAL_METADATA_LIST)
        return [item["metadata"]["name"] for item in json.loads(answer)["items"] or []]

    def _framework(self, kind: str, name: str) -> Json:
        body = framework(self._frameworks.namespace, name, role("worker", 1))
        task = body["spec"]["taskRoles"][0]["task"]
        match kind:
            case "nested":
                task["pod"] = {"spec": {"containers": [{"name": "main", "image": "none"}], "nested": "HERE"}}
            case "huge":
                body["spec"]["description"] = "x" * 1_200_000
            case "refused":
                task["pod"] = {"spec": {"containers": [{"name": "Not A Name", "image": "none"}]}}
            case "ends":
                task["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": -2}
                task["podGracefulDeletionTimeoutSec"] = 0
                body["spec"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": 2**31 - 1}
                body["spec"]["taskRoles"][0]["taskNumber"] = 0
            case "corrupt" | "odd status":
                body["spec"]["executionType"] = "Create"
            case "held":
                body["metadata"]["finalizers"] = [HELD]
            case "stuffed":
                body["metadata"]["annotations"] = {f"example.com/{number}": "é" * 5000 for number in range(20)}
                body["metadata"]["labels"] = {names.FRAMEWORK_NAME: "other"}
        return body

    def _core_object(self, kind: str, name: str, victim: str) -> Json:
        """Return a Pod or a ConfigMap that says it belongs to a healthy Framework."""
        labels = {names.FRAMEWORK_NAME: victim, names.TASKROLE_NAME: "worker", names.TASK_INDEX: "999999999999999999"}
        notes = {
            names.FRAMEWORK_NAME: victim,
            names.FRAMEWORK_ATTEMPT_ID: "-1",
            names.TASK_INDEX: "1e99",
            names.TASK_UID: "../..\n",
            names.ROSTER_ANNOTATION: "[" * 2000,
        }
        metadata = {"name": name, "labels": labels, "annotations": notes}
        if kind == "pod":
            return {"metadata": metadata, "spec": NOBODYS}
        return {"metadata": metadata, "data": {names.ROSTER_KEY: "[" * 500_000}}

    def _squatter(self, collection: str) -> Json:
        """Return an object that has the name of what a Framework is going to need, which is hostile, too."""
        name = f"hostile{next(self._numbers)}"
        self._sent.append(f"{self._frameworks.path}/{name}")
        self._post(self._frameworks.path, framework(self._frameworks.namespace, name, role("worker", 2)))
        if collection == "configmaps":
            return {"metadata": {"name": f"{name}-attempt"}}
        return {"metadata": {"name": f"{name}-worker-1"}, "spec": NOBODYS}

    def _post(self, path: str, body: Json) -> None:
        depth = self._draw.choice((990, 1100, 4000))
        self._request("POST", path, json.dumps(body).replace('"HERE"', "[" * depth + "]" * depth), allowed={409})

    def _request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        allowed: frozenset[int] | set[int] = frozenset(),
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send a request, and do not parse its answer: no JSON library of this process reads what is nested deeply."""
        headers = {**self._headers, "Content-Type": content_type, "Accept": accept}
        answer = self._pool.request(method, self._url + path, body=body, headers=headers)
        if answer.status >= 300 and answer.status not in allowed:
            raise ApiStatusError(method, path, answer.status, answer.data.decode(errors="replace")[:300])
        return answer.data

    def _spoil(self, kind: str, path: str) -> None:
        """Write a status that the controller cannot read, or that it cannot have written."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        attempt: Json = {"id": 0, "startTime": now, "configMapName": "x"}
        if kind == "corrupt":
            attempt["taskRoleStatusesCompressed"] = CUT_OFF
        else:
            attempt |= {"id": 2**31 - 1, "taskRoleStatuses": [{"name": "worker", "taskStatuses": []}]}
        status = {"startTime": now, "state": "AttemptCreationPending", "transitionTime": now, "attemptStatus": attempt}
        for _ in range(20):
            stored = self._raw.get(path)
            try:
                self._raw.replace(f"{path}/status", stored | {"status": status})
            except ApiStatusError as error:
                # The controller writes, too.
                if error.status not in {409, 422}:
                    raise
            else:
                return
