"""Who may see and change what by the page, as a real API server says it, and what is then done there."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frameworkclient.access import Access
from frameworkclient.aio import AsyncClient
from frameworkclient.views.framework import FrameworkView
from frameworkhistory.page import actions
from frameworkhistory.page.people import PageError, People
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint, from_kubeconfig
from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually, eventually_async
from tests.history.page.served import Clock, Site, served
from tests.support.apiserver import fresh_namespace
from tests.support.beside.player import Player

pytestmark = pytest.mark.apiserver

RBAC = "/apis/rbac.authorization.k8s.io/v1"
FC = "frameworkcontroller.microsoft.com"
SEES = [{"apiGroups": [FC], "resources": ["frameworks"], "verbs": ["get", "list"]}]
PROGRAM = [
    {"apiGroups": [FC], "resources": ["frameworks"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch", "delete"]},
]
"""What the page needs in the namespaces where it changes Frameworks, beside `system:auth-delegator`."""


def patching(*resources_and_verbs: str) -> list[Json]:
    """Return rules to see Frameworks and to do this: `delete pods`."""
    words = [one.split() for one in resources_and_verbs]
    return SEES + [
        {"apiGroups": [FC if what == "frameworks" else ""], "resources": [what], "verbs": [verb]}
        for verb, what in words
    ]


class Accounts:
    """The service accounts of a namespace."""

    def __init__(self, cluster: Cluster, raw: RawClient, namespace: str) -> None:
        self.cluster, self.raw, self.namespace = cluster, raw, namespace

    def token(self, name: str, rules: list[Json]) -> str:
        """Create a service account with these rights in its namespace, and return a token of it."""
        self.raw.create(f"/api/v1/namespaces/{self.namespace}/serviceaccounts", {"metadata": {"name": name}})
        self.raw.create(f"{RBAC}/namespaces/{self.namespace}/roles", {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        body = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
        self.raw.create(f"{RBAC}/namespaces/{self.namespace}/rolebindings", body)
        return self.cluster.token(self.namespace, name)


@pytest.fixture
def accounts(cluster: Cluster, raw: RawClient, namespace: str) -> Accounts:
    return Accounts(cluster, raw, namespace)


def endpoint_of(cluster: Cluster, token: str) -> Endpoint:
    found = from_kubeconfig(cluster.kubeconfig)
    return replace(
        found, client_certificate_file=None, client_key_file=None, authorization=f"Bearer {token}", reload=None
    )


@pytest.fixture
def program(cluster: Cluster, raw: RawClient, accounts: Accounts) -> Iterator[Endpoint]:
    """The page's own account: it may ask who somebody is, and change the Frameworks of one namespace."""
    token = accounts.token("page", PROGRAM)
    binding = f"page-{accounts.namespace}"
    subject = {"kind": "ServiceAccount", "name": "page", "namespace": accounts.namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"}
    raw.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": binding}, "roleRef": ref, "subjects": [subject]})
    yield endpoint_of(cluster, token)
    raw.delete(f"{RBAC}/clusterrolebindings/{binding}")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(program: Endpoint) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(found=Access(program, "default")) as made:
        yield made


@pytest.fixture
def people(client: AsyncClient, clock: Clock) -> People:
    return People(client.kube, clock=clock)


@pytest.fixture
async def site(people: People, client: AsyncClient) -> AsyncIterator[Site]:
    async with served(people, client) as made:
        yield made


# --- who and what ----------------------------------------------------------------------------------------------------


async def test_a_person_is_whom_the_token_names_and_sees_the_namespaces_of_their_roles_until_seconds_after_a_change(
    people: People, accounts: Accounts, raw: RawClient, cluster: Cluster, clock: Clock
) -> None:
    namespace, token = accounts.namespace, accounts.token("viewer", SEES)
    viewer, admin = await people.of_token(token), await people.of_token(cluster.admin_token)
    assert viewer is not None
    assert admin is not None
    assert viewer.user == f"system:serviceaccount:{namespace}:viewer"
    assert set(viewer.groups) >= {f"system:serviceaccounts:{namespace}", "system:authenticated"}
    assert viewer.uid
    with fresh_namespace(raw, "other") as other:
        assert await people.namespaces(viewer, [other, namespace, "absent"]) == {namespace}
        assert await people.namespaces(admin, [other, namespace]) is None
    rights = {
        ("get", namespace, "frameworks"): True,
        ("patch", namespace, "frameworks"): False,
        ("get", namespace, "pods/log"): False,
        ("get", "kube-system", "frameworks"): False,
        ("get", "no/such namespace", "frameworks"): False,
    }
    assert {right: await people.may(viewer, *right) for right in rights} == rights
    assert await people.may(admin, "get", namespace, "pods/log")

    raw.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/viewer")
    assert await people.may(viewer, "get", namespace), "it was asked anew within the seconds of the cache"
    clock.now += 10

    async def has_lost_the_right() -> None:
        # The API server's own authorizer learns of it a moment later.
        clock.now += 10
        assert not await people.may(viewer, "get", namespace)

    await eventually_async(has_lost_the_right)
    assert await people.namespaces(viewer, [namespace]) == set()

    raw.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/viewer")
    assert await people.of_token(token) == viewer

    async def is_nobodys() -> None:
        clock.now += 30
        assert await people.of_token(token) is None

    await eventually_async(is_nobodys)


async def test_tokens_that_are_nobodys_and_those_for_others_than_the_api_server_are_refused(
    people: People, cluster: Cluster, raw: RawClient, accounts: Accounts, site: Site
) -> None:
    token = accounts.token("viewer", SEES)
    path = f"/api/v1/namespaces/{accounts.namespace}/serviceaccounts/viewer/token"
    spec = {"expirationSeconds": 3600, "audiences": ["vault"]}
    other = raw.create(path, {"spec": spec})["status"]["token"]
    head, _, signature = token.rpartition(".")
    wrong = {
        "of another audience": other,
        "with another signature": f"{head}.{signature[::-1]}",
        "unsigned": f"{head}.",
        "no token": "nobody",
        "empty": "",
        "two": f"{token} {token}",
    }
    assert {what: await people.of_token(one) for what, one in wrong.items()} == dict.fromkeys(wrong)
    statuses = {what: (await site.get("/who", Authorization=f"Bearer {one}")).status for what, one in wrong.items()}
    assert statuses == dict.fromkeys(wrong, 401)
    assert (await site.get("/who", Authorization=f"Bearer {token}")).status == 200


async def test_in_local_mode_who_has_the_key_is_the_user_of_the_kubeconfig_who_may_ask_for_their_own_rights_alone(
    cluster: Cluster, accounts: Accounts
) -> None:
    token = accounts.token("viewer", SEES)
    async with AsyncClient(found=Access(endpoint_of(cluster, token), "default")) as client:
        people, key = People(client.kube, key="a-key"), {"Authorization": "Bearer a-key"}
        async with served(people, client) as site:
            told = json.loads((await site.get("/who", **key)).text)
            assert told["user"] == f"system:serviceaccount:{accounts.namespace}:viewer"
            seen = await site.get(f"/frameworks/{accounts.namespace}/training/stop", **key)
            assert (seen.status, "there is none" in seen.text) == (404, True)
            assert (await site.get("/frameworks/kube-system/training/stop", **key)).status == 403


async def test_without_an_answer_of_the_api_server_nobody_is_anybody_and_a_page_says_so(
    cluster: Cluster, accounts: Accounts, client: AsyncClient, clock: Clock
) -> None:
    from tests.support.beside.proxy import Proxy

    token = accounts.token("viewer", SEES)
    viewer = await People(client.kube).of_token(token)
    assert viewer is not None
    own = accounts.token("powerless", SEES)
    with Proxy(cluster) as proxy:
        absent = replace(endpoint_of(cluster, token), server=f"http://127.0.0.1:{proxy.port}")
    for endpoint in (absent, endpoint_of(cluster, own)):
        kube = KubeClient(endpoint)
        try:
            people = People(kube, clock=clock)
            async with served(people) as site:
                page = await site.get("/who", Authorization=f"Bearer {token}")
            assert (page.status, "try again in a minute" in page.text) == (503, True)
            for question in (people.may(viewer, "get", accounts.namespace), people.namespaces(viewer, ["a", "b"])):
                with pytest.raises(PageError, match="cannot be asked"):
                    await question
        finally:
            await kube.close()


# --- what is done ----------------------------------------------------------------------------------------------------


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_framework_is_changed_for_who_may_patch_it_and_not_for_who_may_see_it(
    site: Site, accounts: Accounts, frameworks: Frameworks, capsys: pytest.CaptureFixture[str]
) -> None:
    editor, viewer = accounts.token("editor", patching("patch frameworks")), accounts.token("viewer", SEES)
    made = frameworks.create("training", role("worker", 2), role("ps", 1))
    path = f"/frameworks/{accounts.namespace}/training"
    steps: list[tuple[str, dict[str, str], Any]] = [
        ("suspend", {}, lambda spec: spec["suspend"] is True),
        ("resume", {}, lambda spec: spec["suspend"] is False),
        ("scale", {"tasks-worker": "7", "tasks-ps": "1"}, lambda spec: spec["taskRoles"][0]["taskNumber"] == 7),
        ("stop", {}, lambda spec: spec["executionType"] == "Stop"),
    ]
    for verb, form, is_done in steps:
        refused = await site.confirmed(f"{path}/{verb}", form, **bearer(viewer))
        assert refused.status == 403
        assert f"You may not patch frameworks in namespace {accounts.namespace}." in refused.text
        # Their own form does not help either: it is checked again.
        csrf = json.loads((await site.get("/who", **bearer(viewer))).text)["csrf"]
        forged = {"csrf": csrf, "uid": made["metadata"]["uid"], **form}
        assert (await site.send("POST", f"{path}/{verb}", forged, **bearer(viewer))).status == 403
        assert not is_done({"suspend": None, "executionType": "", **frameworks.get("training")["spec"]}), verb
        done = await site.confirmed(f"{path}/{verb}", form, **bearer(editor))
        assert (done.status, done.headers["Location"]) == (303, f"{path}?done={verb}&uid={made['metadata']['uid']}")
        assert is_done(frameworks.get("training")["spec"]), verb
    again = await site.confirmed(f"{path}/resume", **bearer(editor))
    assert (again.status, "it was stopped, which is final" in again.text) == (422, True)
    log = capsys.readouterr().out
    lines = [line for line in log.splitlines() if "a person changes a Framework" in line]
    assert [line.count("outcome=done") or line.count("403 You may not patch") for line in lines] == [1] * 8, log
    assert all(f"system:serviceaccount:{accounts.namespace}:" in line for line in lines)


async def test_who_may_not_get_frameworks_does_not_learn_which_there_are(site: Site, accounts: Accounts) -> None:
    nobody = accounts.token("nobody", [])
    answers = {
        name: await site.get(f"/frameworks/{accounts.namespace}/{name}/stop", **bearer(nobody)) for name in ("a", "b")
    }
    assert {one.status for one in answers.values()} == {403}


async def test_another_instance_of_the_name_is_not_changed_however_late_it_comes(
    site: Site, accounts: Accounts, frameworks: Frameworks, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = accounts.token("editor", patching("patch frameworks", "delete frameworks", "create frameworks"))
    path = f"/frameworks/{accounts.namespace}/training"

    def begin_again() -> str:
        with contextlib.suppress(Exception):
            frameworks.raw.delete(f"{frameworks.path}/training")
        return str(frameworks.create("training", role("worker", 1))["metadata"]["uid"])

    begin_again()
    page = await site.get(f"{path}/stop", **bearer(editor))
    form = {"csrf": page.field("csrf"), "uid": page.field("uid")}
    begin_again()
    for verb, more in (("stop", {}), ("suspend", {}), ("scale", {"tasks-worker": "3"}), ("retry", {})):
        answer = await site.send("POST", f"{path}/{verb}", form | more, **bearer(editor))
        assert (answer.status, "was created again since" in answer.text) == (409, True), answer.text
        # A link of an old page is told so, too.
        assert (await site.get(f"{path}/{verb}?uid={form['uid']}", **bearer(editor))).status == 409

    read = client.get

    async def replaced_once_read(name: str, *, namespace: str | None = None) -> FrameworkView:
        view = await read(name, namespace=namespace)
        await asyncio.to_thread(begin_again)
        return view

    for verb, more in (("stop", {}), ("suspend", {}), ("scale", {"tasks-worker": "3"})):
        page = await site.get(f"{path}/{verb}", **bearer(editor))
        form = {"csrf": page.field("csrf"), "uid": page.field("uid"), **more}
        with monkeypatch.context() as patch:
            patch.setattr(client, "get", replaced_once_read)
            answer = await site.send("POST", f"{path}/{verb}", form, **bearer(editor))
        assert answer.status in {409, 422}, (verb, answer.status, answer.text)
        spec = frameworks.get("training")["spec"]
        assert (spec["executionType"], spec.get("suspend"), spec["taskRoles"][0]["taskNumber"]) == ("Start", None, 1)


async def test_what_the_api_server_refuses_is_told_in_its_words(
    site: Site, accounts: Accounts, frameworks: Frameworks
) -> None:
    editor = accounts.token("editor", patching("patch frameworks"))
    frameworks.create("training", role("worker", 1))
    path = f"/frameworks/{accounts.namespace}/training/scale"
    for number, text in (("20000", "spec.taskRoles[0].taskNumber"), ("-1", "-1 is not a number"), ("٣", "is not a")):
        answer = await site.confirmed(path, {"tasks-worker": number}, **bearer(editor))
        assert (answer.status, text in answer.text) == (422, True), answer.text
    answer = await site.confirmed(path, {"tasks-absent": "1"}, **bearer(editor))
    assert (answer.status, "no such role" in answer.text) == (422, True)


def none_is_in(folder: Path) -> None:
    assert not list(folder.glob("*"))


@pytest.mark.usefixtures("controller")
async def test_a_retry_needs_the_right_to_just_what_it_deletes_or_creates(
    site: Site,
    accounts: Accounts,
    frameworks: Frameworks,
    player: Player,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    rights = ["delete pods", "delete configmaps", "delete frameworks", "create frameworks"]
    tokens = {
        right: accounts.token(right.replace(" ", "-"), patching(*(one for one in rights if one != right)))
        for right in rights
    }
    everything = accounts.token("everything", patching(*rights))
    player.plan["worker-0"] = ["stay", "stay", "stay", 0]
    frameworks.create("training", role("worker", 1, retry={"maxRetryCount": -2}), retryPolicy={"maxRetryCount": -2})
    path = f"/frameworks/{accounts.namespace}/training/retry"

    def runs(attempt: int, task_attempt: int) -> None:
        status = frameworks.status("training")
        task = frameworks.tasks("training")["worker-0"]
        found = status["attemptStatus"]["id"], task["attemptStatus"]["id"], task["state"]
        assert found == (attempt, task_attempt, "AttemptRunning"), found

    def is_another(uid: str) -> None:
        found = [one["metadata"]["uid"] for one in frameworks.raw.get(frameworks.path)["items"]]
        assert found not in ([], [uid])

    async def until(check: Any, *arguments: Any) -> None:
        await asyncio.to_thread(eventually, lambda: check(*arguments), 30)

    async def refused(right: str, asked: str) -> None:
        answer = await site.confirmed(asked, **bearer(tokens[right]))
        assert (answer.status, f"You may not {right} in" in answer.text) == (403, True), answer.text

    with player.playing():
        await until(runs, 0, 0)
        await refused("delete pods", f"{path}?task=worker-0")
        assert (await site.confirmed(f"{path}?task=worker-0", **bearer(everything))).status == 303
        await until(runs, 0, 1)
        await refused("delete configmaps", path)
        assert (await site.confirmed(path, **bearer(everything))).status == 303
        await until(runs, 1, 0)
        uid = frameworks.get("training")["metadata"]["uid"]
        frameworks.merge("training", executionType="Stop")
        await until(lambda: frameworks.wait("training", "Completed"))
        await refused("delete frameworks", path)
        await refused("create frameworks", path)
        assert frameworks.get("training")["metadata"]["uid"] == uid
        # The person need not wait for it, and it is done all the same.
        monkeypatch.setattr(actions, "WAIT_SECONDS", 0)
        answer = await site.confirmed(path, **bearer(everything))
        assert (answer.status, "uid=" in answer.headers["Location"]) == (303, False)
        await until(is_another, uid)
        await until(runs, 0, 0)
    await until(lambda: none_is_in(tmp_path / "frameworkctl"))
