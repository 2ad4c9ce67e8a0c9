"""The whole program behind a proxy at which people sign in: the proxy alone says who they are."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, DummyCookieJar, web

from localcluster import Cluster
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.history.page.served import basic
from tests.support.history import HistoryProcess
from tests.support.http import app_served

pytestmark = pytest.mark.apiserver

SECRET = "what the proxy and the page know"
GROUPS: dict[str, dict[str, str]] = {"ann@example.org": {"X-Forwarded-Groups": "sales,vision"}, "bob@example.org": {}}
OWN = {"authorization", "cookie", "host", "x-forwarded-email", "x-forwarded-groups", "x-forwarded-user"}


@contextlib.asynccontextmanager
async def proxy(upstream: str) -> AsyncIterator[str]:
    """Do as oauth2-proxy with `--pass-basic-auth` and `--pass-user-headers`; who signs in has a session by a cookie."""
    sessions: dict[str, str] = {}

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            sessions[secret := f"session-{len(sessions)}"] = str((await request.post())["user"])
            return web.Response(text=secret)
        if (user := sessions.get(request.cookies.get("proxy", ""))) is None:
            return web.Response(status=403, text="Sign in at the proxy")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in OWN} | GROUPS[user]
        headers |= {"Authorization": basic(user, SECRET), "X-Forwarded-User": user, "X-Forwarded-Email": user}
        async with session.get(upstream + request.path_qs, headers=headers) as found:
            return web.Response(status=found.status, body=await found.read())

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with ClientSession(cookie_jar=DummyCookieJar()) as session, app_served(app, access_log=None) as url:
        yield url


async def test_who_signs_in_at_a_proxy_sees_what_their_groups_may_and_what_a_client_says_of_itself_is_not_believed(
    cluster: Cluster, namespace: str, frameworks: Frameworks, tmp_path: Path
) -> None:
    where, refused = f"--namespace={namespace}", f"You may not get frameworks in namespace {namespace}."
    for what, group in (("frameworks", "vision"), ("pods/log", "system:authenticated")):
        name = what.replace("/", "-")
        cluster.kubectl("create", "role", name, where, "--verb=get", f"--resource={what}")
        cluster.kubectl("create", "rolebinding", name, where, f"--role={name}", f"--group={group}")
    frameworks.create("training", role("worker", 1))
    (tmp_path / "password").write_text(SECRET)
    more = (f"--proxy-password-file={tmp_path}/password",)
    history = HistoryProcess(cluster, tmp_path, (namespace,), local=False, more=more)
    page, client = f"http://127.0.0.1:{history.port}", ClientSession(cookie_jar=DummyCookieJar())
    claims = {"X-Forwarded-User": "ann@example.org", "X-Forwarded-Groups": "vision"}
    guess = claims | {"Authorization": basic("ann@example.org", "a guess")}
    with history.running():
        eventually(lambda: history.framework("training"))
        async with proxy(page) as before, client:
            sessions = {"": "none"}
            for user in GROUPS:
                async with client.post(before, data={"user": user}) as answer:
                    sessions[user[:3]] = await answer.text()
            rows: list[tuple[str, str, dict[str, str], int, str]] = [
                (before, "ann", {}, 200, "training"),
                (before, "bob", {}, 403, refused),
                (before, "bob", claims, 403, refused),
                (before, "bob", guess, 403, refused),
                (before, "", guess, 403, "Sign in at the proxy"),
                (page, "ann", {}, 401, "Sign in to see this."),
                (page, "ann", claims, 401, "Sign in to see this."),
                (page, "ann", guess, 401, "Sign in to see this."),
            ]
            for url, who, headers, status, words in rows:
                sent = headers | {"Cookie": f"proxy={sessions[who]}"}
                async with client.get(f"{url}/frameworks/{namespace}/training/log", headers=sent) as answer:
                    told = await answer.text()
                assert (answer.status, words in told) == (status, True), (url, who, headers, told)
