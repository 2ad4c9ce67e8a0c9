"""The guard and the actions of the page as an application on loopback, with the smallest frame around their pages."""

import base64
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import jinja2
from aiohttp import ClientSession, DummyCookieJar, web

from frameworkclient.aio import AsyncClient
from frameworkhistory.page import actions, security
from frameworkhistory.page.people import PERSON, SESSION, PageError, People
from tests.support.http import app_served

FRAME = jinja2.DictLoader(
    {"base.html": "<title>{% block title %}{% endblock %}</title>{% block content %}{% endblock %}"}
)
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.ChoiceLoader([FRAME, jinja2.PackageLoader("frameworkhistory.page")]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)


def basic(user: str, password: str) -> str:
    """Return what a proxy sends for a user."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Answer:
    """What a server has answered."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str, cookies: list[str]) -> None:
        self.status, self.headers, self.text, self.cookies = status, headers, text, cookies

    def field(self, name: str) -> str:
        """Return the value of a hidden field of the page's form."""
        found = re.search(f'name="{name}" value="([^"]*)"', self.text)
        assert found, self.text
        return found[1]


class Site:
    """A client of the application; it follows no redirects and keeps no cookies."""

    def __init__(self, session: ClientSession, url: str) -> None:
        self._session, self.url = session, url

    async def send(self, method: str, path: str, form: Any = None, **headers: str) -> Answer:
        """Send a request; `_` in the name of a header is `-`. A form is of this site if no header says otherwise."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST" and not {"Origin", "Sec-Fetch-Site"} & set(named):
            named["Origin"] = self.url
        sent = self._session.request(
            method, self.url + path, data=form, headers={k: v for k, v in named.items() if v}, allow_redirects=False
        )
        async with sent as answer:
            return Answer(answer.status, answer.headers, await answer.text(), answer.headers.getall("Set-Cookie", []))

    async def get(self, path: str, **headers: str) -> Answer:
        """Send a GET request."""
        return await self.send("GET", path, **headers)

    async def confirmed(self, path: str, form: Mapping[str, str] | None = None, **headers: str) -> Answer:
        """Send the form that the page at `path` shows, or return the page if it shows none."""
        page = await self.get(path, **headers)
        if page.status != 200:
            return page
        task = re.findall('name="(task)" value="([^"]*)"', page.text)
        fields = {"csrf": page.field("csrf"), "uid": page.field("uid"), **dict(task), **(form or {})}
        return await self.send("POST", path.partition("?")[0], fields, **headers)


def render(request: web.Request, template: str, /, *, status: int = 200, **values: Any) -> web.Response:
    """Return a page."""
    csrf = security.csrf_token(request) if PERSON in request else ""
    text = ENVIRONMENT.get_template(template).render(csrf=csrf, **values)
    return web.Response(text=text, status=status, content_type="text/html")


async def who(request: web.Request) -> web.Response:
    """Say who asks."""
    person = request[PERSON]
    session = request.get(SESSION, "")
    whole = {"user": person.user, "groups": person.groups, "csrf": security.csrf_token(request), "session": session}
    return web.json_response(whole)


async def style(_request: web.Request) -> web.Response:
    """Return a file that all pages use."""
    return web.Response(text="", headers={"Cache-Control": "max-age=60"})


async def broken(request: web.Request) -> web.StreamResponse:
    """Fail in a way that the query names."""
    match request.query["how"]:
        case "refused":
            raise PageError(422, "It is <b>no</b>.")
        case "began":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"begun")
            raise ValueError("secret-detail")
        case "endless":
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"x" * 100_000)
    raise ValueError("secret-detail")


def make_app(people: People, client: AsyncClient | None = None) -> web.Application:
    """Return the application, with pages that show who asks, and that fail."""
    app = web.Application(client_max_size=security.FORM_BYTES)
    security.setup(app, people, render)
    if client is not None:
        actions.setup(app, people, client, render)
    for path in ("/who", "/api/v1/who"):
        app.router.add_get(path, who)
    for path in ("/broken", "/api/v1/broken"):
        app.router.add_get(path, broken)
    app.router.add_get("/static/style.css", style)
    return app


@contextlib.asynccontextmanager
async def served(people: People, client: AsyncClient | None = None) -> AsyncIterator[Site]:
    """Serve the application on loopback."""
    serving = app_served(make_app(people, client), access_log=None)
    async with serving as url, ClientSession(cookie_jar=DummyCookieJar()) as session:
        yield Site(session, url)
