"""What every request and every answer of the page goes through: who asks, forms of this site alone, headers, errors.

`setup` adds it to an application. A handler finds the person in `request[PERSON]` and raises `PageError` for what it
does not answer; any other error is a page that says no more than its status.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler

from frameworkhistory.page.people import PERSON, SESSION, PageError, People, cookie_name, is_secure
from frameworkkube.log import Logger
from frameworkkube.serving.connection import media_type

FORM_BYTES: Final = 64 * 1024  # the `client_max_size` of an application: aiohttp refuses larger forms
FORM_SECONDS: Final = 10.0
FORM: Final = "application/x-www-form-urlencoded"
MEDIA_TYPE_CHARACTERS: Final = 100
AT_ONCE: Final = 64  # requests of one person that are answered at a time, pages that follow what changes among them
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer browsers send `Origin: null` with the forms of this site, too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # The own one tells the versions of Python and aiohttp.
    "Server": "frameworkhistory",
}
_SECRET: Final = web.AppKey("secret", bytes)
_SENTENCES: Final = {
    404: "There is no such page.",
    405: "This page cannot be asked so.",
    413: "The form is too large.",
    500: "Something went wrong here; the log of this program says what.",
}
_PATH: Final = re.compile(r"/[!-\[\]-~]*")
Render: TypeAlias = Callable[..., web.Response]
"""Makes a page: `render(request, template, *, status=200, **values)`."""
_log = Logger(__name__)


def setup(app: web.Application, people: People, render: Render) -> None:
    """Add it all to an application, with the pages `/signin` and `/signout`; `render` makes the pages."""
    app[_SECRET] = secrets.token_bytes(32)
    guard = _Guard(people, render)
    app.middlewares.append(guard.guard)
    app.on_response_prepare.append(_add_headers)
    app.router.add_get("/signin", guard.sign_in)
    app.router.add_post("/signin", guard.sign_in)
    app.router.add_post("/signout", guard.sign_out)


def csrf_token(request: web.Request) -> str:
    """Return what each form of a person has in its field `csrf`; another person's, or session's, is not accepted."""
    person = request[PERSON]
    whose = f"session\0{request[SESSION]}" if SESSION in request else f"person\0{person.user}\0{person.uid}"
    return hmac.digest(request.app[_SECRET], whose.encode("utf-8", "replace"), hashlib.sha256).hex()


def local_path(text: str) -> str:
    """Return a path of this site to which somebody wants to be sent, `/` if it is not one."""
    # Browsers read a backslash as a slash, leave out line ends, and take two slashes for the beginning of a host.
    return text if _PATH.fullmatch(text) and "//" not in re.split("[?#]", text, maxsplit=1)[0] else "/"


def redirect(path: str) -> web.Response:
    """Return the answer to a form that was accepted: look there."""
    # As it is: the redirects of aiohttp rewrite paths.
    return web.Response(status=303, headers={"Location": local_path(path)})


class _Guard:
    def __init__(self, people: People, render: Render) -> None:
        self._people, self._render = people, render
        self._busy: Counter[str] = Counter()

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, whatever happens."""
        try:
            self._people.check_host(request)
            return await (_handled(request, handler) if _is_public(request) else self._answer(request, handler))
        except Exception as error:
            if isinstance(error, ConnectionError) and (request.transport is None or request.transport.is_closing()):
                return web.Response()  # to nobody: the person has left
            status = error.status if isinstance(error, PageError | web.HTTPException) else 500
            if status == 500:
                _log.exception("a page failed", method=request.method, path=request.path)
            if request.writer.output_size:
                raise  # what has begun can only be broken off
            sentence = error.sentence if isinstance(error, PageError) else _SENTENCES.get(status, "")
            response = self._refusal(request, status, sentence or f"{HTTPStatus(status).phrase}.")
            if isinstance(error, web.HTTPMethodNotAllowed):
                response.headers["Allow"] = error.headers["Allow"]
            return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer somebody who is known, and has not too many requests that are being answered."""
        user = (await self._people.identify(request)).user
        if self._busy[user] >= AT_ONCE:
            raise PageError(429, "You ask for too much at once; try again when some of it is answered.")
        self._busy[user] += 1
        try:
            return await _handled(request, handler)
        finally:
            self._busy[user] -= 1
            self._busy = +self._busy  # without those who ask for nothing

    def _refusal(self, request: web.Request, status: int, sentence: str) -> web.Response:
        if request.path.startswith("/api/"):
            response = web.json_response({"error": sentence}, status=status)
        elif status == 401:
            response = self._signin(request, request.path_qs if request.method == "GET" else "/", sentence)
        else:
            title = HTTPStatus(status).phrase
            response = self._render(request, "error.html", status=status, title=title, sentence=sentence)
        if status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _signin(self, request: web.Request, path: str, problem: str) -> web.Response:
        status = 401 if problem else 200
        return self._render(request, "signin.html", status=status, to=local_path(path), problem=problem)

    async def sign_in(self, request: web.Request) -> web.Response:
        """Begin a session by a form, or by the address that a local program has written; else show the form."""
        if is_form := request.method == "POST":
            given: Mapping[str, object] = await request.post()
            token = str(given.get("token", "")).strip()
        else:
            given, token = request.query, request.query.get("key", "") if self._people.is_local else ""
        path, person = str(given.get("to", "/")), await self._people.of_token(token)
        if person is None:
            problem = "The API server does not know this token, or it has expired." if token or is_form else ""
            return self._signin(request, path, problem)
        self._people.end_session(request)
        _log.info("signed in", person=person.user)
        # With a secret that nobody knew before.
        return _with_cookie(request, redirect(path), self._people.begin_session(person, token))

    async def sign_out(self, request: web.Request) -> web.Response:
        """End the session."""
        self._people.end_session(request)
        _log.info("signed out", person=request[PERSON].user)
        return _with_cookie(request, redirect("/signin"), "")


def _with_cookie(request: web.Request, response: web.Response, secret: str) -> web.Response:
    """Return an answer that gives the browser the secret of its session, or takes it away."""
    age, secure = None if secret else 0, is_secure(request)
    response.set_cookie(cookie_name(request), secret, max_age=age, httponly=True, samesite="Strict", secure=secure)
    return response


def _is_public(request: web.Request) -> bool:
    """Report whether a page is for everybody: the one to sign in, and the files that all pages use."""
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical.split("/")[1] in {"signin", "static"}


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    # Of a file of the program a browser asks whether it has changed.
    response.headers.setdefault("Cache-Control", "no-cache" if request.path.startswith("/static/") else "no-store")


async def _handled(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.method not in {"GET", "HEAD"} and request.match_info.http_exception is None:
        await _check_form(request)
    return await handler(request)


async def _check_form(request: web.Request) -> None:
    """Return if a request is a form of this site, which its person has sent."""
    if not _is_of_this_site(request):
        raise PageError(403, "The form was sent by another site: open the page here and repeat.")
    # The form itself is read by aiohttp, which parses all of the header.
    is_long = len(request.headers.get("Content-Type", "")) > MEDIA_TYPE_CHARACTERS
    if is_long or media_type(request) != FORM:
        raise PageError(415, "Only forms are read.")
    try:
        async with asyncio.timeout(FORM_SECONDS):
            token = str((await request.post()).get("csrf", "")).encode("utf-8", "replace")
    except TimeoutError:
        raise PageError(408, "The form did not arrive in time.") from None
    except (ValueError, LookupError):
        raise PageError(400, "The form cannot be read.") from None
    if PERSON in request and not hmac.compare_digest(token, csrf_token(request).encode()):
        raise PageError(403, "The form is too old, or another person's: open the page again and repeat.")


def _is_of_this_site(request: web.Request) -> bool:
    # Browsers send the first one to https and localhost alone, and scripts cannot set either.
    if "Sec-Fetch-Site" in request.headers:
        return request.headers["Sec-Fetch-Site"] == "same-origin"
    origin = request.headers.get("Origin", "").partition("://")[2].lower()
    return bool(origin) and origin == request.host.lower()
