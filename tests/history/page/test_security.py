"""Who gets in, by which forms, with which headers: against an API server of a few lines, which counts its questions."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from frameworkhistory.page import people as limits
from frameworkhistory.page.people import PageError, People, Person
from frameworkhistory.page.security import HEADERS, local_path
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.client.documents import framework
from tests.client.played import FRAMEWORKS, PlayedServer, a_client
from tests.history.page.served import Clock, Site, basic, served
from tests.support.http import app_served
from tests.support.rows import each

KEY = "the-key-of-a-local-page"
PASSWORD = "open:sesame ü"


class Server:
    """An API server: a token is its user's name behind `token-`; who may do something has that verb in their name."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.expired: set[str] = set()
        self.pause = 0.0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a review."""
        review = await request.json()
        spec = review["spec"]
        self.asked[review["kind"]] += 1
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(self.pause)
        self.at_once -= 1
        token, user = spec.get("token", ""), {"username": spec.get("token", "token-me").removeprefix("token-")}
        attributes = spec.get("resourceAttributes", {})
        known = token.startswith("token-") and token not in self.expired
        status = {
            "authenticated": known,
            "user": user if known else {},
            "userInfo": user,
            "allowed": attributes.get("verb", " ") in spec.get("user", "") and attributes["namespace"] != "",
        }
        return web.json_response({"kind": review["kind"], "status": status}, status=201)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def kube(server: Server) -> AsyncIterator[KubeClient]:
    app = web.Application()
    app.router.add_post("/apis/{tail:.*}", server.answer)
    async with app_served(app, access_log=None) as url:
        client = KubeClient(Endpoint(url), max_connections=256)
        yield client
        await client.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return file


@pytest.fixture
def people(kube: KubeClient, clock: Clock, password: Path) -> People:
    return People(kube, password_file=password, clock=clock)


@pytest.fixture
async def site(people: People) -> AsyncIterator[Site]:
    async with served(people) as made:
        yield made


def told(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


async def signed_in(site: Site, user: str = "ann", **headers: str) -> str:
    """Sign in, and return the cookie."""
    answer = await site.send("POST", "/signin", {"token": f"token-{user}"}, **headers)
    assert answer.status == 303, answer.text
    return answer.cookies[0].partition(";")[0]


async def word(site: Site, **headers: str) -> str:
    """Return the word that a form of whom these headers tell of has to have."""
    return str(told((await site.get("/who", **headers)).text)["csrf"])


# --- caches ----------------------------------------------------------------------------------------------------------


async def test_a_question_is_asked_once_at_a_time_and_again_after_its_seconds(
    people: People, server: Server, clock: Clock
) -> None:
    server.pause = 0.1
    found = await asyncio.gather(*(people.of_token("token-ann") for _ in range(50)))
    assert (set(found), server.asked["TokenReview"]) == ({Person("ann")}, 1)
    first = asyncio.ensure_future(people.of_token("token-bob"))
    second = asyncio.ensure_future(people.of_token("token-bob"))
    await asyncio.sleep(0.01)
    first.cancel()  # who asked first has left
    assert (await second, server.asked["TokenReview"]) == (Person("bob"), 2)
    server.pause = 0
    for moved, ann, stranger, asked in ((0, 0, 1, 1), (1.9, 0, 0, 1), (0.2, 0, 1, 2), (27.8, 0, 1, 3), (0.2, 1, 0, 4)):
        clock.now += moved
        before = server.asked["TokenReview"]
        assert await people.of_token("token-ann") == Person("ann")
        assert server.asked["TokenReview"] == before + ann, moved
        assert await people.of_token("stranger") is None
        assert server.asked["TokenReview"] == before + ann + stranger, (moved, asked)
    for moved, asked in ((0, 1), (9.9, 1), (0.2, 2)):
        clock.now += moved
        assert await people.may(Person("ann gets"), "get", "a")
        assert not await people.may(Person("ann"), "get", "")
        assert server.asked["SubjectAccessReview"] == 2 * asked, moved


async def test_an_answer_that_was_long_on_its_way_is_good_from_when_it_was_asked(
    people: People, server: Server, clock: Clock
) -> None:
    server.pause = 0.1
    asking = asyncio.ensure_future(people.of_token("token-ann"))
    await asyncio.sleep(0.02)
    clock.now += 29
    assert await asking == Person("ann")
    server.expired.add("token-ann")
    clock.now += 2
    assert await people.of_token("token-ann") is None


async def test_a_flood_of_wrong_tokens_takes_bounded_room_and_displaces_nobody(people: People, server: Server) -> None:
    persons = people._persons
    persons._entries = 100
    await people.of_token("token-ann")
    await asyncio.gather(*(people.of_token(f"wrong{number}") for number in range(500)))
    before = server.asked["TokenReview"]
    assert (await people.of_token("token-ann"), server.asked["TokenReview"]) == (Person("ann"), before)
    for number in range(200):
        await people.of_token(f"token-{number}")
    assert [len(room) for room in persons._rooms] == [100, 100]
    before = server.asked["TokenReview"]
    assert await people.of_token("token-199") is not None
    assert server.asked["TokenReview"] == before
    server.pause = 0.2
    flood = await asyncio.gather(*(people.of_token(f"more{n}") for n in range(2000)), return_exceptions=True)
    assert Counter(type(one) for one in flood) == {type(None): 1024, PageError: 976}
    assert not persons._asked


def test_tokens_of_one_user_are_found_without_a_look_at_all_others() -> None:
    extra = [{"node": ("a",), "credential-id": (f"JTI={number}",)} for number in range(100)]
    assert len({hash(Person("ci", extra=one)) for one in extra}) == 100
    assert len({Person("ci", extra=one) for one in (extra[0], dict(reversed(extra[0].items())))}) == 1


async def test_namespaces_are_asked_for_a_few_at_a_time(people: People, server: Server) -> None:
    server.pause = 0.01
    known = [f"n{number}" for number in range(100)]
    assert await people.namespaces(Person("who lists"), known) == frozenset(known)
    assert await people.namespaces(Person("nobody"), known) == frozenset()
    assert server.most_at_once == limits.AT_ONCE


# --- who -------------------------------------------------------------------------------------------------------------


async def test_what_a_request_claims_is_who_sends_it_or_nobody(site: Site, password: Path, server: Server) -> None:
    cookie = await signed_in(site, "ann")
    rows: dict[str, tuple[dict[str, str], int, str]] = {
        "nothing": ({}, 401, ""),
        "a token": ({"Authorization": "Bearer token-bob"}, 200, "bob"),
        "a scheme in capitals": ({"Authorization": "BEARER token-bob"}, 200, "bob"),
        "a session": ({"Cookie": cookie}, 200, "ann"),
        "a token beside a session": ({"Cookie": cookie, "Authorization": "Bearer token-bob"}, 200, "bob"),
        "a wrong token beside a session": ({"Cookie": cookie, "Authorization": "Bearer nobody"}, 401, ""),
        "another scheme beside a session": ({"Cookie": cookie, "Authorization": "Digest a"}, 401, ""),
        "a proxy": ({"Authorization": basic("eve@example.org", PASSWORD)}, 200, "eve@example.org"),
        "a wrong password": ({"Authorization": basic("eve", "open:sesame")}, 401, ""),
        "no password": ({"Authorization": basic("eve", "")}, 401, ""),
        "a wrong password beside a session": ({"Cookie": cookie, "Authorization": basic("eve", "no")}, 401, ""),
        "no base64": ({"Authorization": "Basic !!!!"}, 401, ""),
        "nobody": ({"Authorization": basic("", PASSWORD)}, 403, ""),
        "a user of the system": ({"Authorization": basic("system:admin", PASSWORD)}, 401, ""),
        "a line end in a user": ({"Authorization": basic("eve\nadmin", PASSWORD)}, 403, ""),
        "groups without the password": ({"X_Forwarded_Groups": "a", "X_Forwarded_User": "eve"}, 401, ""),
        "masters": ({"Authorization": basic("eve", PASSWORD), "X_Forwarded_Groups": "a, system:masters"}, 403, ""),
        "a guessed session": ({"Cookie": "frameworkhistory=" + "0" * 43}, 401, ""),
        "an empty session": ({"Cookie": "frameworkhistory="}, 401, ""),
    }
    for what, (headers, status, user) in rows.items():
        answer = await site.get("/who", **headers)
        assert (answer.status, told(answer.text)["user"] if status == 200 else "") == (status, user), what
        api = await site.get("/api/v1/who", **headers)
        assert (api.status, api.headers.get("WWW-Authenticate")) == (status, "Bearer" if status == 401 else None), what
        assert ("error" in told(api.text)) == (status != 200), what
    asked = server.asked["TokenReview"]
    assert (await site.get("/static/style.css", Authorization="Bearer unknown")).status == 200
    assert server.asked["TokenReview"] == asked, "a file for everybody needs no question"
    groups = await site.get("/who", Authorization=basic("eve", PASSWORD), X_Forwarded_Groups=" a,,b , a")
    assert told(groups.text)["groups"] == ["a", "b", "system:authenticated"]


def put(file: Path, text: str | None) -> None:
    """Put another file there, as the kubelet does, or none."""
    if text is None:
        file.unlink()
    else:
        new = file.with_suffix(".new")
        new.write_text(text)
        new.replace(file)


async def test_the_password_of_the_proxy_is_that_of_the_file_as_it_is_now(site: Site, password: Path) -> None:
    for text, given, status in (
        ("second", PASSWORD, 401),
        ("second", "second", 200),
        ("", "", 401),
        (None, "second", 401),
        ("third", "third", 200),
    ):
        put(password, text)
        assert (await site.get("/who", Authorization=basic("eve", given))).status == status, (text, given)


async def test_without_a_password_file_no_proxy_is_believed(kube: KubeClient) -> None:
    async with served(People(kube)) as site:
        for given in ("", PASSWORD):
            assert (await site.get("/who", Authorization=basic("eve", given))).status == 401


async def test_in_local_mode_only_who_has_the_key_and_names_this_machine_is_answered(kube: KubeClient) -> None:
    async with served(People(kube, key=KEY)) as site:
        signed = await site.get(f"/signin?key={KEY}&to=/who")
        assert (signed.status, signed.headers["Location"]) == (303, "/who")
        cookie = signed.cookies[0].partition(";")[0]
        assert told((await site.get("/who", Cookie=cookie)).text)["user"] == "me"
        for wrong in ("x", KEY[:-1], "token-eve"):
            assert (await site.get("/who", Authorization=f"Bearer {wrong}")).status == 401
            assert (await site.get(f"/signin?key={wrong}")).cookies == []
        port = site.url.rpartition(":")[2]
        for host, status in {
            f"127.0.0.1:{port}": 200,
            f"localhost:{port}": 200,
            "LOCALHOST": 200,
            f"[::1]:{port}": 200,
            f"evil.example:{port}": 403,
            f"localhost.evil.example:{port}": 403,
            f"127.0.0.1.nip.io:{port}": 403,
            "[::1": 403,
        }.items():
            for path in ("/who", "/static/style.css", "/signin"):
                answer = await site.get(path, Host=host, Authorization=f"Bearer {KEY}")
                assert answer.status == status, (host, path)
    async with served(People(kube)) as site:
        assert (await site.get("/signin?key=token-eve")).cookies == []


# --- sessions --------------------------------------------------------------------------------------------------------


async def test_a_session_ends_with_its_hours_its_token_its_sign_out_and_no_other(
    site: Site, clock: Clock, server: Server
) -> None:
    async def user(cookie: str) -> str:
        answer = await site.get("/who", Cookie=cookie)
        return told(answer.text)["user"] if answer.status == 200 else ""

    used, idle = await signed_in(site), await signed_in(site)
    for _ in range(8):
        assert await user(used) == "ann"
        clock.now += 3599
    assert await user(idle) == ""
    assert await user(used) == "ann"
    clock.now += 10
    assert await user(used) == "", "8 h are over"
    first, second = await signed_in(site), await signed_in(site)
    out = await site.send("POST", "/signout", {"csrf": await word(site, Cookie=first)}, Cookie=first)
    assert (out.status, out.headers["Location"]) == (303, "/signin")
    assert "Max-Age=0" in out.cookies[0]
    assert (await user(first), await user(second)) == ("", "ann")
    server.expired.add("token-ann")
    clock.now += 30
    assert await user(second) == ""
    server.expired.clear()
    clock.now += 3
    assert await user(second) == "", "it does not come back with its token"


async def test_a_session_has_a_new_secret_that_the_browser_keeps_for_itself(site: Site) -> None:
    planted = await signed_in(site, "mallory")
    answer = await site.send("POST", "/signin", {"token": "token-ann", "to": "/who"}, Cookie=planted)
    assert (answer.status, answer.headers["Location"]) == (303, "/who")
    cookie, *attributes = answer.cookies[0].split("; ")
    assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Strict"]
    assert cookie.startswith("frameworkhistory=")
    assert cookie != planted
    assert len(cookie.partition("=")[2]) == 43
    assert (await site.get("/who", Cookie=planted)).status == 401, "the session before it has ended"
    chosen = await site.send("POST", "/signin", {"token": "token-ann"}, Cookie="frameworkhistory=chosen")
    assert "chosen" not in chosen.cookies[0]
    tls = await site.send("POST", "/signin", {"token": "token-ann"}, X_Forwarded_Proto="https")
    name, *attributes = tls.cookies[0].split("; ")
    assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Strict", "Secure"]
    assert name.startswith("__Host-frameworkhistory=")
    plain = name.removeprefix("__Host-")
    assert (await site.get("/who", Cookie=plain, X_Forwarded_Proto="https")).status == 401
    assert (await site.get("/who", Cookie=name, X_Forwarded_Proto="https")).status == 200
    for wrong in ("nobody", "", "token ann", "x" * 20_000):
        page = await site.send("POST", "/signin", {"token": wrong, "to": "/who"})
        assert (page.status, page.cookies, page.field("to")) == (401, [], "/who")
        assert not wrong or wrong not in page.text


async def test_sessions_are_bounded_for_one_person_and_for_all(
    people: People, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await signed_in(site, "bob")
    own = [await signed_in(site, "ann") for _ in range(limits.SESSIONS_OF_ONE + 5)]
    alive = [(await site.get("/who", Cookie=cookie)).status == 200 for cookie in own]
    assert alive == [False] * 5 + [True] * limits.SESSIONS_OF_ONE
    assert (await site.get("/who", Cookie=other)).status == 200
    monkeypatch.setattr(limits, "SESSIONS", 10)
    await signed_in(site, "eve")
    assert len(people._sessions) == 10
    assert (await site.get("/who", Cookie=other)).status == 200, "it was used last"
    assert (await site.get("/who", Cookie=own[5])).status == 401


# --- forms -----------------------------------------------------------------------------------------------------------


async def test_a_form_counts_from_this_site_with_the_word_of_its_person_alone(site: Site) -> None:
    ann, again, bob = await signed_in(site, "ann"), await signed_in(site, "ann"), await signed_in(site, "bob")
    words = {who: await word(site, Cookie=who) for who in (ann, again, bob)}
    assert len(set(words.values())) == 3
    own, host = {"csrf": words[ann]}, site.url.partition("//")[2]
    rows: dict[str, tuple[Any, dict[str, str], int]] = {
        "no word": ({}, {}, 403),
        "an empty word": ({"csrf": ""}, {}, 403),
        "a wrong word": ({"csrf": words[ann][:-1] + "x"}, {}, 403),
        "no ASCII": ({"csrf": "ü"}, {}, 403),
        "another person's word": ({"csrf": words[bob]}, {}, 403),
        "another session's word": ({"csrf": words[again]}, {}, 403),
        "another site": (own, {"Origin": "https://evil.example"}, 403),
        "another port": (own, {"Origin": "http://127.0.0.1:1"}, 403),
        "a site that begins so": (own, {"Origin": f"http://{host}.evil.example"}, 403),
        "a user that is called so": (own, {"Origin": f"http://{host}@evil.example"}, 403),
        "an origin that is hidden": (own, {"Origin": "null"}, 403),
        "no origin": (own, {"Origin": ""}, 403),
        "half a bracket": (own, {"Origin": "http://[::1"}, 403),
        "cross-site": (own, {"Sec-Fetch-Site": "cross-site", "Origin": site.url}, 403),
        "same-site": (own, {"Sec-Fetch-Site": "same-site"}, 403),
        "an address that was typed": (own, {"Sec-Fetch-Site": "none"}, 403),
        "JSON": (json.dumps(own), {"Content-Type": "application/json"}, 415),
        "text": (f"csrf={words[ann]}", {"Content-Type": "text/plain"}, 415),
        "a type that takes long to parse": (
            "csrf=a",
            {"Content-Type": f"application/x-www-form-urlencoded{';' * 4000}"},
            415,
        ),
        "a strange charset": ("csrf=a", {"Content-Type": "application/x-www-form-urlencoded; charset=no"}, 400),
        "a large form": (own | {"more": "x" * 70_000}, {}, 413),
        "its own form behind a proxy": (own, {"Sec-Fetch-Site": "same-origin", "Origin": "https://fc.example"}, 303),
    }
    for what, (form, headers, status) in rows.items():
        named = {key.replace("-", "_"): value for key, value in headers.items()}
        answer = await site.send("POST", "/signout", form, Cookie=ann, **named)
        assert answer.status == status, (what, answer.text)
    assert (await site.send("POST", "/signout", {"csrf": words[again]}, Cookie=again)).status == 303
    for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": ""}):
        answer = await site.send("POST", "/signin", {"token": "token-mallory"}, **headers)
        assert (answer.status, answer.cookies) == (403, []), "nobody is signed in as another person by another site"


async def test_the_word_of_a_form_is_another_one_for_each_person_without_a_session(
    site: Site, kube: KubeClient
) -> None:
    ann, bob = ({"Authorization": f"Bearer token-{user}"} for user in ("ann", "bob"))
    assert await word(site, **ann) == await word(site, **ann) != await word(site, **bob)
    async with served(People(kube)) as other:
        assert await word(other, **ann) != await word(site, **ann), "the secret is one of this process"


@each(
    "text, expected",
    [
        ("/", "/"),
        ("/frameworks/a/b?uid=1&x=//y#z", "/frameworks/a/b?uid=1&x=//y#z"),
        *(
            (text, "/")
            for text in (
                "",
                "who",
                "https://evil.example",
                "//evil.example",
                "///evil.example",
                "/\\evil.example",
                "\\/evil.example",
                "/\t/evil.example",
                "/\n/evil.example",
                " //evil.example",
                "/..//evil.example",
                "/a//evil.example",
                "http:/who",
                "javascript:alert(1)",
                "//[",
                "/ü",
                "/a b",
                "/a\r\nSet-Cookie: a=b",
            )
        ),
    ],
    ids=repr,
)
def test_only_paths_of_this_site_are_gone_to(text: str, expected: str) -> None:
    assert local_path(text) == expected


async def test_who_signs_in_is_sent_to_no_other_site(site: Site) -> None:
    for path in ("//evil.example", "/\\evil.example", "https://evil.example/"):
        answer = await site.send("POST", "/signin", {"token": "token-ann", "to": path})
        assert answer.headers["Location"] == "/"
        assert (await site.send("GET", "/signin?" + f"to={path}")).field("to") == "/"
    # A page that needs a person leads back to itself, as it was asked for, and never to what a form would do.
    page = await site.get("/who?a=%22%3E%3Cb%3E&b=1")
    assert page.field("to") == "/who?a=%22%3E%3Cb%3E&amp;b=1"


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_each_answer_has_the_headers_and_an_error_says_no_more_than_it_should(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    ann = {"Authorization": "Bearer token-ann"}
    html, plain = "text/html; charset=utf-8", "application/json; charset=utf-8"
    rows: dict[str, tuple[str, str, dict[str, str], int, str, str]] = {
        "a page": ("GET", "/who", ann, 200, "ann", plain),
        "no person": ("GET", "/who", {}, 401, "Sign in to see this.", html),
        "no page": ("GET", "/absent", ann, 404, "There is no such page.", html),
        "no page, for nobody": ("GET", "/absent", {}, 401, "Sign in", html),
        "no method": ("POST", "/who", ann, 405, "cannot be asked so", html),
        "a method of others": ("PROPFIND", "/who", ann, 405, "cannot be asked so", html),
        "a defect": ("GET", "/broken?how=defect", ann, 500, "Something went wrong", html),
        "a refusal": ("GET", "/broken?how=refused", ann, 422, "It is &lt;b&gt;no&lt;/b&gt;.", html),
        "a defect, as JSON": ("GET", "/api/v1/broken?how=a", ann, 500, '{"error": "Something', plain),
        "no page, as JSON": ("GET", "/api/v2", ann, 404, '{"error": "There is no', plain),
        "a page for everybody": ("GET", "/signin", {}, 200, "Sign in", html),
    }
    for what, (method, path, headers, status, text, kind) in rows.items():
        answer = await site.send(method, path, **headers)
        assert (answer.status, text in answer.text, answer.headers["Content-Type"]) == (status, True, kind), what
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, what
        assert answer.headers["Cache-Control"] == "no-store", what
        assert "secret-detail" not in answer.text, what
        assert "aiohttp" not in f"{answer.text}{answer.headers}", what
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert (await site.send("POST", "/who", **ann)).headers["Allow"] == "GET,HEAD"
    assert (await site.get("/static/style.css")).headers["Cache-Control"] == "max-age=60"
    assert "secret-detail" in capsys.readouterr().out, "the log says what went wrong"


async def test_the_log_says_of_a_change_what_was_done_and_not_what_else_the_form_said(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    played, path = PlayedServer(), "/frameworks/demo/training/stop"
    await played.put(FRAMEWORKS, framework().to_dict())
    who = {"Authorization": "Bearer token-who.gets.and.patches"}
    async with a_client(played) as client, served(people, client) as site:
        assert (await site.confirmed(path, {"task": "worker-0"}, **who)).status == 303
    done = next(line for line in capsys.readouterr().out.splitlines() if "a person changes a Framework" in line)
    assert all(told in done for told in ("outcome=done", "verb=stop", "uid=framework-uid"))
    assert "worker-0" not in done


async def test_an_answer_that_fails_after_its_beginning_breaks_off(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(site.url.rpartition(":")[2]))
    writer.write(b"GET /broken?how=began HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer token-ann\r\n\r\n")
    whole = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    await writer.wait_closed()
    assert whole.count("HTTP/1.1") == 1
    assert "begun" in whole
    assert not whole.endswith("0\r\n\r\n"), "the client must not take it for whole"
    assert "secret-detail" not in whole


async def test_who_leaves_while_an_answer_is_sent_leaves_no_line_in_the_log(
    site: Site, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Each was forty lines: 32 connections that broke off what they had asked for wrote 70 KB/s."""
    for read in (0, 1):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(site.url.rpartition(":")[2]))
        writer.write(b"GET /broken?how=endless HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer token-ann\r\n\r\n")
        await asyncio.wait_for(reader.read(1), 10)
        if read:
            await asyncio.sleep(0.2)  # it waits until somebody reads on
        writer.transport.abort()
    await asyncio.sleep(0.2)
    assert (await site.get("/who", Authorization="Bearer token-ann")).status == 200
    assert (caplog.text, capsys.readouterr().out) == ("", "")
