"""Two replicas share one certificate in a Secret, renew it again and again, and no call fails."""

import asyncio
import base64
import json
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from localcluster.client import RawClient
from localcluster.processes.logs import complete_lines
from testkit.waiting import eventually, patience
from tests.injector.replica_processes import CONFIGURATION, PREFIX, SECRET, SYSTEM, Replica, call, framework_pod, start
from tests.support.background import in_background
from tests.support.http import tls_session
from tests.support.waiting import has

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]

DAY = 86400
# A third of a life is left when it is renewed: time enough on a busy machine.
CERTIFICATE_SECONDS, AUTHORITY_SECONDS = 18, 45
SHORT = (
    f"--certificate-days={CERTIFICATE_SECONDS / DAY:.9f}",
    f"--authority-days={AUTHORITY_SECONDS / DAY:.9f}",
    "--check-seconds=0.5",
    "--settle-seconds=3",
)
NAME = f"frameworkinjector.{SYSTEM}.svc"


@pytest.fixture
def replicas(raw: RawClient, identity: Path, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas that start at the same moment with an empty Secret."""
    raw.merge(SECRET, {"data": None})
    pair = (start(identity, tmp_path, *SHORT), start(identity, tmp_path, *SHORT))
    try:
        for replica in pair:
            replica.wait_until_ready()
        call(raw, pair[0].port)
        yield pair
    finally:
        for replica in pair:
            assert replica.stop() == 0


def ca_bundle(raw: RawClient) -> str:
    (found,) = {webhook["clientConfig"]["caBundle"] for webhook in raw.get(CONFIGURATION)["webhooks"]}
    return base64.b64decode(found).decode()


def served_by(replica: Replica) -> str:
    return ssl.get_server_certificate(("127.0.0.1", replica.port))


def in_secret(raw: RawClient) -> str:
    return base64.b64decode(raw.get(SECRET)["data"]["tls.crt"]).decode()


def writes(*replicas: Replica) -> list[str]:
    lines = [json.loads(line) for replica in replicas for line in complete_lines(replica.log)]
    return [line["because"] for line in lines if line["msg"] == "new certificate written"]


async def call_directly(ca_bundle: str, replicas: tuple[Replica, Replica]) -> list[str]:
    """Call both replicas with a new handshake each time, trusting as the API server does; return the outcomes."""
    request = {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": framework_pod("x")}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    outcomes = []
    async with tls_session(ssl.create_default_context(cadata=ca_bundle), force_close=True) as session:
        for replica in replicas * 5:
            url = f"https://127.0.0.1:{replica.port}/mutate"
            try:
                async with session.post(url, json=body, server_hostname=NAME) as answer:
                    found = await answer.json()
                    outcomes.append("allowed" if found["response"]["allowed"] else str(found))
            except aiohttp.ClientError as error:
                outcomes.append(repr(error))
    return outcomes


def test_replicas_that_start_together_share_certificates_which_are_renewed_under_load_and_no_call_fails(
    raw: RawClient, replicas: tuple[Replica, Replica], namespace: str
) -> None:
    def agree() -> str:
        """Both serve what the Secret holds, and show when that expires."""
        served = in_secret(raw)
        assert [served_by(replica) for replica in replicas] == [served, served]
        expires = x509.load_pem_x509_certificate(served.encode()).not_valid_after_utc.timestamp()
        for replica in replicas:
            metric = r"^\S+_certificate_expiry_timestamp_seconds (\S+)$"
            found = re.search(metric, replica.health("/metrics")[1], re.MULTILINE)
            assert found
            assert float(found[1]) == expires
        return served

    began, first, created = time.monotonic(), eventually(agree), 0
    outcomes: list[str] = []

    def is_renewed() -> bool:
        reasons = writes(*replicas)
        certificates = reasons.count("certificate at 2/3 of its life")
        return certificates >= 2 and reasons.count("authority at 2/3 of its life") >= 1

    with in_background(lambda: outcomes.extend(asyncio.run(call_directly(ca_bundle(raw), replicas)))):
        while not (is_renewed() and created > 100 and len(outcomes) > 100):
            assert time.monotonic() - began < patience(AUTHORITY_SECONDS), writes(*replicas)
            # The API server is a client too, with connections that it keeps open.
            pod = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", framework_pod(namespace))
            assert PREFIX + "status" in pod["metadata"]["annotations"]
            created += 1
            time.sleep(0.1)
    assert set(outcomes) == {"allowed"}
    # One renewal for both replicas, not one each: as many as were due, with some to spare.
    reasons, seconds = writes(*replicas), time.monotonic() - began
    assert len(reasons) <= seconds / (CERTIFICATE_SECONDS * 0.6) + 3, reasons
    assert eventually(agree) != first
    for replica in replicas:
        assert "Traceback" not in replica.log.read_text()


def test_a_missing_secret_is_reported_and_not_created(identity: Path, tmp_path: Path) -> None:
    replica = start(identity, tmp_path, "--secret=frameworkinjector-other")
    try:
        has(replica.log.read_text, "certificates not reconciled", 15)
        # It may read one Secret by name, so the API server answers forbidden for another, not absent.
        code, text = replica.health("/readyz")
        assert (code, "forbidden" in text, replica.health("/healthz")[0]) == (503, True, 200)
    finally:
        replica.stop()
