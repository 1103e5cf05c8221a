"""The routes of `runward serve`: each asks one of the ways to look that it was given, and renders the answer.

Pages and JSON come from the same calls, so that they cannot say different things.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from runward.core import errors
from runward.ui import markup, view_box
from runward.ui.web import metrics, page_box, page_run, page_runs, readers, shell

LINES, MOST_LINES = 200, 2_000
"""Lines of a log: when not said how many, and at most."""
MOST_EVENTS = 10_000
PAGE_LINES = 60
_LONGEST_NAME = 100
_FILES = {"serve.css": "text/css", "serve.js": "text/javascript", "icon.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Looks:
    """Ways to look; each raises RunwardError where it cannot. They are called in threads."""

    rows: Callable[[], Sequence[Mapping[str, Any]]]
    """All runs as `ps --json` lists them. Of no state at all it raises NotFound."""
    status: Callable[[str], Mapping[str, Any]]
    """One run as `status --json` shows it."""
    statuses: Callable[[float], Sequence[Mapping[str, Any]]]
    """The same of all runs that go on, or ended in so many last seconds."""
    events: Callable[[str], Sequence[Mapping[str, Any]]]
    """The lines of `events --json`."""
    log_end: Callable[[str, int | None, int], Mapping[str, Any]]
    """The last lines of the output of an attempt, of the last one for None."""
    box: Callable[[], view_box.Page]
    now: Callable[[], float]
    place: str
    """The state directory."""
    version: str
    state: readers.Readers = field(default_factory=lambda: readers.Readers("the state"))
    logs: readers.Readers = field(default_factory=lambda: readers.Readers("the log", 2, 16, 8.0))
    machine: readers.Readers = field(default_factory=lambda: readers.Readers("this box", 1, 16))


def build(looks: Looks) -> Starlette:
    """The application, not guarded yet."""
    pages, api = _Pages(looks), _Api(looks)
    routes = [
        Route("/", pages.runs),
        Route("/runs/{run}", pages.run),
        Route("/box", pages.box),
        Route("/api/runs", api.runs),
        Route("/api/runs/{run}", api.status),
        Route("/api/runs/{run}/events", api.events),
        Route("/api/runs/{run}/log", api.log),
        Route("/healthz", api.healthz),
        Route("/metrics", api.metrics),
        Route("/static/{name}", _Static()),
    ]
    refused = {
        errors.RunwardError: _refusal(looks),
        HTTPException: _no_page(looks),
        Exception: _refusal(looks),
    }
    return Starlette(routes=routes, exception_handlers=refused)


class _Pages:
    """For people."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks

    async def runs(self, request: Request) -> Response:
        del request
        looks = self._looks
        rows = await looks.state.ask(lambda: _rows(looks))
        now = looks.now()
        return _page(looks, page_runs.title(rows, now), 0, page_runs.main(rows, now, looks.place), now)

    async def run(self, request: Request) -> Response:
        looks, name = self._looks, _name(request)
        log = asyncio.ensure_future(_log_or_why(looks, name))  # meanwhile: a browser waits for 12 s
        status, events = await looks.state.ask(lambda: (looks.status(name), looks.events(name)))
        told = page_run.Told(status, events, await log)
        now = looks.now()
        main = page_run.main(told, now)
        return _page(looks, f"{name}: {status['state']}", 1, main, now)

    async def box(self, request: Request) -> Response:
        del request
        page = await self._looks.machine.ask(self._looks.box)
        return _page(self._looks, page.host, 0, page_box.main(page), page.at)


class _Api:
    """For programs."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks

    async def runs(self, request: Request) -> Response:
        del request
        rows = await self._looks.state.ask(lambda: _rows(self._looks))
        return _json({"schema_version": 1, "runs": rows})

    async def status(self, request: Request) -> Response:
        name = _name(request)
        return _json(await self._looks.state.ask(lambda: self._looks.status(name)))

    async def events(self, request: Request) -> Response:
        name, last = _name(request), _count(request, "last", MOST_EVENTS, MOST_EVENTS)
        bodies = await self._looks.state.ask(lambda: self._looks.events(name))
        lines = (json.dumps(body, separators=(",", ":")) + "\n" for body in bodies[-last:])
        return Response("".join(lines), media_type="application/x-ndjson")

    async def log(self, request: Request) -> Response:
        name, lines = _name(request), _count(request, "lines", LINES, MOST_LINES)
        attempt = _count(request, "attempt", 0, 1_000_000) or None
        return _json(await self._looks.logs.ask(lambda: self._looks.log_end(name, attempt, lines)))

    async def healthz(self, request: Request) -> Response:
        del request
        try:
            rows = await self._looks.state.ask(self._looks.rows)
        except errors.RunwardError as error:
            return PlainTextResponse(f"{error}\n", 503)
        return PlainTextResponse(f"ok: {len(rows)} runs\n")

    async def metrics(self, request: Request) -> Response:
        del request
        looks = self._looks
        try:
            runs = await looks.state.ask(lambda: looks.statuses(metrics.KEPT_S))
        except errors.NotFound:
            runs = []
        except errors.RunwardError:
            runs = None
        return Response(metrics.text(runs, looks.version, looks.now()), media_type=metrics.CONTENT_TYPE)


class _Static:
    """The few files of the pages, held in memory: no path of a request is ever opened."""

    def __init__(self) -> None:
        folder = resources.files("runward.ui.web").joinpath("static")
        self._files = {name: folder.joinpath(name).read_bytes() for name in _FILES}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["path_params"]["name"]
        if name not in self._files:
            raise HTTPException(404)
        await Response(self._files[name], media_type=_FILES[name])(scope, receive, send)


def _rows(looks: Looks) -> Sequence[Mapping[str, Any]]:
    """No state is no runs, as for `ps`."""
    try:
        return looks.rows()
    except errors.NotFound:
        return []


async def _log_or_why(looks: Looks, name: str) -> Mapping[str, Any]:
    """A log that cannot be read costs the page only the log."""
    try:
        return await looks.logs.ask(lambda: looks.log_end(name, None, PAGE_LINES))
    except errors.RunwardError as error:
        return {"attempt": None, "lines": [], "why": str(error)}


def _name(request: Request) -> str:
    """The run that is asked for. It is looked up in the state, never made a path. Raises NotFound."""
    name = str(request.path_params["run"])
    if len(name) > _LONGEST_NAME:
        raise errors.NotFound(errors.Problem("no run has so long a name", next_step="See runward ps."))
    return name


def _count(request: Request, option: str, default: int, most: int) -> int:
    """A number of the address. Raises UsageError."""
    given = request.query_params.get(option)
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) <= 9 and 1 <= int(given) <= most):
        raise errors.UsageError(errors.Problem(f"must be a number from 1 to {most}", option))
    return int(given)


def _json(body: Any, code: int = 200) -> Response:
    return Response(json.dumps(body) + "\n", code, media_type="application/json")


def _page(looks: Looks, title: str, depth: int, main: markup.Markup, at: float) -> Response:
    frame = shell.Frame(f"{title} - Runward", at, looks.place, depth)
    return HTMLResponse(shell.page(frame, main))


_CODES = ((errors.NotFound, 404), (errors.UsageError, 400), (errors.Unreachable, 503))
_Handler = Callable[[Request, Exception], Awaitable[Response]]


def _refusal(looks: Looks) -> _Handler:
    """What could not be answered, in words, on a page or as JSON."""

    async def answer(request: Request, error: Exception) -> Response:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), 500)
        if isinstance(error, errors.RunwardError):
            problems = error.problems
        else:
            problems = (
                errors.Problem("Runward itself failed; the runs are not touched", type(error).__name__),
            )
        return _failed(looks, request, code, problems)

    return answer


def _no_page(looks: Looks) -> _Handler:
    async def answer(request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 500
        problem = errors.Problem("there is no such page", request.url.path[:100], next_step="See /.")
        return _failed(looks, request, code, (problem,))

    return answer


def _failed(looks: Looks, request: Request, code: int, problems: Sequence[errors.Problem]) -> Response:
    path = request.url.path
    if path.startswith("/api/"):
        told = [{**one._asdict(), "text": str(one)} for one in problems]
        return _json({"schema_version": 1, "errors": told}, code)
    if path in {"/healthz", "/metrics"}:
        return PlainTextResponse("".join(f"{one}\n" for one in problems), code)
    main = markup.join(
        markup.say("h1", f"{code}"), markup.listed([str(one) for one in problems], class_="bad")
    )
    raw: bytes = request.scope.get("raw_path") or b"/"  # a slash that was written %2F is none for the browser
    depth = max(0, raw.count(b"/") - 1)
    frame = shell.Frame(f"{code} - Runward", looks.now(), looks.place, depth, refreshes=code == 503)
    return HTMLResponse(shell.page(frame, main), code)
