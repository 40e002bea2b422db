# SPDX-License-Identifier: Apache-2.0
"""The dashboard's HTTP server, on 127.0.0.1 alone. One of the few modules that import aiohttp.

It only reads. `security` says who gets an answer, `contract` what the answers are.
"""

import asyncio
import errno
import functools
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, TypeVar

import msgspec
from aiohttp import web

from trainwright.api.objects import Key
from trainwright.controller.dashboard import contract, logbook, security
from trainwright.controller.dashboard.actions import VERBS
from trainwright.controller.dashboard.keys import HOST, KeptKeys, Keys, is_free
from trainwright.controller.dashboard.reader import Events, job_events, list_events
from trainwright.controller.dashboard.security import HEADERS, PROOF, PageRequest, cookie_name
from trainwright.controller.dashboard.service import DashboardService, problem_of
from trainwright.controller.runtime import ConfigurationError, KubernetesError, NotFound
from trainwright.controller.runtime.errors import BadRequest
from trainwright.controller.runtime.servers.http import listening
from trainwright.controller.views.comparison import Direction, as_csv
from trainwright.plugins.contract.errors import RegistryError

log = logging.getLogger(__name__)
_protocol = log.getChild("protocol")
_protocol.setLevel(logging.CRITICAL)  # other programs may send anything to the port; failures are logged here

MOST_STREAMS = 64
"""Open pages; each stream costs a connection and a little memory."""
RETRY_MILLISECONDS = 2000
SHUTDOWN_SECONDS = 1.0
"""Streams end by themselves; this is for a log that is followed."""
_NONCE = re.compile(r"[A-Za-z0-9_-]{16,128}")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_JSON = "application/json"
_NO_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">%s<title>Trainwright</title>
<h1>This page needs its token</h1>
<p>Open the address that <code>trainwright dashboard</code> printed.</p></html>
"""
_GO_ON = '<meta http-equiv="refresh" content="0;url=./">'
"""Browsers send no cookie after a link on another page or in a file. They do when this page loads itself again."""


PAGE = Path(__file__).parent / "page"
INDEX = "index.html"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
"""Files of other types are not served."""


def files_of(folder: Path = PAGE) -> dict[str, Path]:
    found = {
        f"/{path.relative_to(folder).as_posix()}": path
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES and path.is_file() and not path.is_symlink()
    }
    if f"/{INDEX}" in found:
        found["/"] = found[f"/{INDEX}"]
    return found


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    def __init__(
        self,
        site: DashboardService,
        *,
        port: int = 0,
        files: dict[str, Path] | None = None,
        kept: KeptKeys | None = None,
        command: str = "trainwright dashboard",
    ) -> None:
        """`kept` has port and secret of a local cluster, in place of `port` and a new one. Read `port` once it
        listens.
        """
        self.port = port
        self._site = site
        self.keys = Keys()
        self._kept = kept
        self._command = command
        self._files = files_of() if files is None else files
        self._streams = 0

    @property
    def address(self) -> str:
        return self.keys.address

    async def run(self, ready: Callable[[], None]) -> None:
        """Listen until cancelled; `ready` is called once. Raises ConfigurationError: the port cannot be used."""
        application = web.Application(middlewares=[self._guarded])
        application.on_shutdown.append(self._end_streams)
        routes = application.router
        api = "/{place}/api/v1"  # the guard has compared the place
        job = f"{api}/jobs/{{namespace}}/{{name}}"
        routes.add_post(f"{job}/actions/{{action}}", self._change)
        asked: dict[str, Callable[[Key], Awaitable[msgspec.Struct]]] = {
            f"{api}/searches/{{namespace}}/{{name}}": self._site.search,
            job: self._site.job,
            f"{job}/series": self._site.series,
            f"{job}/objects": self._site.rendered.objects,
            f"{job}/actions": self._site.actions.actions,
        }
        handlers: dict[str, _Handler] = {
            PROOF: self._proof,
            f"{api}/session": self._session,
            f"{api}/jobs": self._jobs,
            f"{api}/jobs/stream": self._jobs_stream,
            f"{api}/compare": self._compare,
            f"{api}/compare/csv": self._compare_csv,
            **{path: functools.partial(self._answer_about, ask) for path, ask in asked.items()},
            f"{job}/stream": self._job_stream,
            f"{job}/lines": self._lines,
            f"{job}/lines/find": self._find,
            f"{job}/lines/file": self._file,
            "/{place}/{file:.*}": self._page,
        }
        for path, handler in handlers.items():
            routes.add_get(path, handler)
        runner = web.AppRunner(
            application, access_log=None, logger=_protocol, shutdown_timeout=SHUTDOWN_SECONDS, handler_cancellation=True
        )
        try:
            async with self._listening(runner):
                await self._site.run(ready)
        except ConfigurationError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
                message = f"port {self.port} is taken: give another one, or none for a free one"
                raise ConfigurationError(message) from error
            raise

    @asynccontextmanager
    async def _listening(self, runner: web.AppRunner) -> AsyncIterator[None]:
        """Listen on the port of the last run, or on a free one if another program has taken it."""
        if self._kept is None:
            async with listening("dashboard", runner, HOST, self.port) as self.port:
                self.keys = replace(self.keys, port=self.port)
                yield
            return
        keys = await asyncio.to_thread(self._kept.read)
        port = keys.port if await asyncio.to_thread(is_free, keys.port) else 0
        if keys.port and not port:
            log.warning("another program uses port %s of the dashboard, which gets a new address", keys.port)
        async with listening("dashboard", runner, HOST, port) as self.port:
            self.keys = await asyncio.to_thread(self._kept.listens, keys, self.port)
            yield

    def _renew_keys(self) -> None:
        """Take new keys, which `up --new-token` has written."""
        if self._kept is not None and (found := self._kept.changed(self.keys)) is not None:
            self.keys = found

    async def _end_streams(self, _: web.Application) -> None:
        self._site.close()

    # ------------------------------------------------------------------ every request

    @web.middleware
    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        self._renew_keys()
        try:
            asked = PageRequest(
                request.method, request.path, request.headers, request.cookies, request.query.get("token")
            )
            cookie = cookie_name(self.port)
            refusal = security.refusal(self.keys, asked, cookie)
            if refusal is not None:
                response: web.StreamResponse = _refusal(request, refusal, f"{self.keys.place}/")
            elif security.is_entering(self.keys, asked):
                response = web.Response(
                    status=303,
                    headers={
                        **HEADERS,
                        "Location": f"{self.keys.place}/",
                        "Set-Cookie": security.cookie_of(self.keys, cookie),
                    },
                )
            else:
                response = await handler(request)
        except web.HTTPException as error:
            response = _problem(
                contract.PageProblem(code=error.status, reason="NotFound", message="there is no such page")
            )
        except (KubernetesError, RegistryError) as error:
            response = _problem(problem_of(error))
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s failed", request.path[:200])
            message = "the dashboard failed; see its output"
            response = _problem(contract.PageProblem(code=500, reason="InternalError", message=message))
        return response

    # ------------------------------------------------------------------ answers

    async def _page(self, request: web.Request) -> web.Response:
        found = self._files.get(request.path.removeprefix(self.keys.place))
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=found.read_bytes(), headers={**HEADERS, "Content-Type": TYPES[found.suffix]})

    async def _proof(self, request: web.Request) -> web.Response:
        nonce = request.query.get("nonce", "")
        if _NONCE.fullmatch(nonce) is None:
            raise BadRequest("nonce has 16 to 128 letters and digits")
        return web.Response(text=self.keys.proof(nonce), headers={**HEADERS, "Content-Type": "text/plain"})

    async def _session(self, _: web.Request) -> web.Response:
        keys = self.keys
        return _answer(contract.PageSession(proof_key=keys.proof_key, action_token=keys.action, command=self._command))

    async def _jobs(self, _: web.Request) -> web.Response:
        return _answer(self._site.jobs())

    async def _compare(self, request: web.Request) -> web.Response:
        return _answer(await self._site.comparison(_keys(request)))

    async def _compare_csv(self, request: web.Request) -> web.Response:
        query = request.query
        best: dict[str, Direction] = dict.fromkeys(query.getall("low", ()), "low")
        best.update(dict.fromkeys(query.getall("high", ()), "high"))
        text = as_csv(await self._site.comparison(_keys(request)), best)
        headers = {
            **HEADERS,
            "Content-Type": "text/csv; charset=utf-8",
            "Content-Disposition": 'attachment; filename="jobs.csv"',
        }
        # Some spreadsheets take a file for UTF-8 only if it begins with this mark.
        return web.Response(body=text.encode("utf-8-sig"), headers=headers)

    async def _answer_about(
        self, ask: Callable[[Key], Awaitable[msgspec.Struct]], request: web.Request
    ) -> web.Response:
        return _answer(await ask(self._key(request)))

    def _key(self, request: web.Request) -> Key:
        """The job that a request is about. Raises NotFound: it is in a namespace that this dashboard does not show."""
        key = Key(_valid(request, "namespace"), _valid(request, "name"))
        self._site.check(key)
        return key

    async def _jobs_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._send(request, list_events(self._site.watched))

    async def _job_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._send(request, job_events(self._site.watched, self._site.reader, self._key(request)))

    async def _change(self, request: web.Request) -> web.Response:
        key, action, uid = self._key(request), request.match_info["action"], request.query.get("uid", "")
        if action not in VERBS:
            raise web.HTTPNotFound
        if not uid:
            raise BadRequest("uid is that of the job")
        done = await self._site.actions.change(key, action, uid)
        log.info("%s of TrainJob %s in namespace %s: %s", action, key.name, key.namespace, done.message)
        return _answer(done)

    async def _lines(self, request: web.Request) -> web.Response:
        asked = _query(request, _LinesAsked)
        book = await self._site.book(self._key(request), _query(request, logbook.WantedLog))
        if asked.known is not None:
            await book.wait(asked.known)
        return _answer(logbook.answer_of(book, asked.first, asked.count))

    async def _find(self, request: web.Request) -> web.Response:
        if "text" not in request.query:
            raise BadRequest("text is missing")
        text = _query(request, _LinesAsked).text
        book = await self._site.book(self._key(request), _query(request, logbook.WantedLog))
        total = len(book)
        lines, more = await asyncio.to_thread(book.found, text)
        return _answer(contract.Found(total=total, lines=lines, more=more))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        key, wanted = self._key(request), _query(request, logbook.WantedLog)
        book = await self._site.book(key, wanted)
        while book.is_reading:
            await book.wait(-1)
        name = key.name if wanted.pod == logbook.ALL else wanted.pod
        response = _stream("text/plain", {"Content-Disposition": f'attachment; filename="{name}.log"'})
        await response.prepare(request)
        async for piece in book.pieces():
            await response.write(piece)
        await response.write_eof()
        return response

    async def _send(self, request: web.Request, events: Events) -> web.StreamResponse:
        if self._streams >= MOST_STREAMS:
            message = f"{MOST_STREAMS} pages are open already; close some"
            return _problem(contract.PageProblem(code=503, reason="TooManyStreams", message=message))
        response = _stream("text/event-stream")
        self._streams += 1
        keys = self.keys
        try:
            await response.prepare(request)
            await response.write(f"retry: {RETRY_MILLISECONDS}\n\n".encode())
            number = 0
            async with aclosing(events):
                async for name, data in events:
                    self._renew_keys()
                    if self.keys is not keys:
                        break  # the page asks again, and is told that its token counts no more
                    number += 1
                    # JSON has no line break in it, so one line of data holds it.
                    await response.write(
                        b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), msgspec.json.encode(data))
                    )
            await response.write_eof()
        except ConnectionError:
            log.debug("%s: the page has gone", request.path[:200])
        finally:
            self._streams -= 1
        return response


def _stream(kind: str, more: Mapping[str, str] = MappingProxyType({})) -> web.StreamResponse:
    return web.StreamResponse(headers={**HEADERS, "Content-Type": f"{kind}; charset=utf-8", **more})


def _answer(data: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), status=status, headers={**HEADERS, "Content-Type": _JSON})


def _problem(problem: contract.PageProblem) -> web.Response:
    return _answer(problem, problem.code)


def _refusal(request: web.Request, problem: contract.PageProblem, home: str) -> web.Response:
    """For a person who opened the page without its token, a page that says so."""
    is_page = request.path in ("/", home) and "text/html" in request.headers.get("Accept", "")
    if problem.reason != "NoToken" or not is_page:
        return _problem(problem)
    came_by_link = request.path == home and request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    text = _NO_PAGE % (_GO_ON if came_by_link else "")
    return web.Response(text=text, status=problem.code, headers={**HEADERS, "Content-Type": "text/html"})


def _keys(request: web.Request) -> list[Key]:
    found = [Key(*one.split("/", 1)) for one in request.query.getall("job", ()) if "/" in one]
    if any(_NAME.fullmatch(part) is None for key in found for part in key):
        raise BadRequest("job is namespace/name")
    return found


def _valid(request: web.Request, part: str) -> str:
    text = request.match_info[part]
    if _NAME.fullmatch(text) is None:
        raise NotFound(f"no object can have this {part}")
    return text


class _LinesAsked(msgspec.Struct, rename={"first": "from"}):
    """What a question about lines may have beside the log."""

    first: Annotated[int, msgspec.Meta(gt=-(10**9), lt=10**9)] = 0
    count: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] = 0
    known: Annotated[int, msgspec.Meta(ge=-1, lt=10**9)] | None = None
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)] = " "


_Query = TypeVar("_Query", bound=msgspec.Struct)


def _query(request: web.Request, kind: type[_Query]) -> _Query:
    """The parameters that the kind has. Raises BadRequest."""
    try:
        return msgspec.convert(dict(request.query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from error
