# SPDX-License-Identifier: Apache-2.0
"""Serves the page with answers that a test sets: states that are hard to bring about in a cluster, and many jobs.

The answers are structs of the contract, so the page is not tested against something else.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tests.e2e.dashboard.webserver import JoinedWebServer
from tests.repository import ROOT
from trainwright.controller.dashboard import contract, curves
from trainwright.controller.dashboard.searches import Search
from trainwright.controller.views.comparison import JobComparison
from trainwright.controller.views.rendered import ObjectsView

PAGE = ROOT / "controller" / "dashboard" / "page"
SAMPLES = ROOT / "tests" / "unit" / "dashboard" / "samples"
POLICY = "default-src 'self'"
UNSEEN = "unseen"
"""A namespace that the dashboard does not show."""
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

Query: TypeAlias = dict[str, list[str]]
Events: TypeAlias = queue.Queue[bytes | None]


def sample(name: str, kind: type[Any]) -> Any:
    """A sample answer of the contract."""
    return msgspec.json.decode((SAMPLES / f"{name}.json").read_bytes(), type=kind)


def sample_job(name: str, **fields: Any) -> contract.Job:
    """The sample of a job, with other fields."""
    job: contract.Job = sample(f"job_{name}", contract.Job)
    return msgspec.structs.replace(job, **fields)


def many(count: int) -> contract.JobList:
    """So many jobs: every second one runs, the others are like those of the sample."""
    jobs: contract.JobList = sample("jobs", contract.JobList)
    plain = [row for row in jobs.jobs if row.name != "hostile"]
    rows = [
        msgspec.structs.replace(
            plain[0] if index % 2 else plain[index // 2 % len(plain)],
            name=f"job-{index:04}",
            uid=f"uid-{index}",
            namespace=f"team-{index % 4}",
        )
        for index in range(count)
    ]
    return msgspec.structs.replace(jobs, jobs=rows, undecodable=[])


class Stub:
    """What the page is answered. Tests change it at any time."""

    def __init__(self) -> None:
        self.jobs: contract.JobList = sample("jobs", contract.JobList)
        self.job: dict[str, contract.Job] = {}
        self.series: dict[str, curves.JobSeries] = {}
        self.comparison: JobComparison = sample("comparison", JobComparison)
        self.compared: list[list[str]] = []
        """The jobs of each question for a comparison."""
        self.search: Search | None = None
        self.objects: ObjectsView = sample("objects", ObjectsView)
        self.log: Callable[[str, Query], bytes | contract.PageProblem] = lambda _pod, _query: b"one line\n"
        self.actions: contract.Actions = sample("actions_none", contract.Actions)
        self.done: contract.ActionDone | contract.PageProblem = sample("done", contract.ActionDone)
        self.changed: list[tuple[str, dict[str, str]]] = []
        """Paths and headers of what the page wanted to change."""
        self.session: contract.PageSession = sample("session", contract.PageSession)
        self.is_up = True
        self.url = ""
        self._streams: list[tuple[str, Events]] = []
        self._has_ended = False
        self._lock = threading.Lock()

    def put(self, job: contract.Job) -> str:
        """Have a job; returns its place in the page."""
        self.job[f"{job.row.namespace}/{job.row.name}"] = job
        return f"#/jobs/{job.row.namespace}/{job.row.name}"

    def send(self, event: str, answer: contract.PageAnswer, stream: str = "jobs") -> None:
        """Send an event to the open streams: of the list, or of the job `namespace/name`."""
        with self._lock:
            for name, events in self._streams:
                if name == stream:
                    events.put(_event(event, answer))

    def cut(self) -> None:
        """Break all streams."""
        with self._lock:
            for _, events in self._streams:
                events.put(None)

    def end(self) -> None:
        """Break all streams, and those that a page which has just gone may still have asked for."""
        with self._lock:
            self._has_ended = True
        self.cut()

    def answer(self, path: str, query: Query) -> msgspec.Struct | bytes | Events:
        """What a path of the API is answered: a struct, bytes of a log, or events."""
        if path == "/api/v1/compare":
            self.compared.append(query.get("job", []))
            return self.comparison
        if path == "/api/v1/session":
            return self.session
        if path.startswith("/api/v1/searches/"):
            return self.search if self.search is not None else sample("problem_not_found", contract.PageProblem)
        parts = [unquote(part) for part in path.removeprefix("/api/v1/jobs").strip("/").split("/") if part]
        if not parts:
            return self.jobs
        if parts == ["stream"]:
            return self._subscribe("jobs", _event("snapshot", self.jobs))
        return self._of_job(parts, query)

    def _of_job(self, parts: list[str], query: Query) -> msgspec.Struct | bytes | Events:
        key, rest = "/".join(parts[:2]), parts[2:]
        job = self.job.get(key)
        if job is None:
            return self._of_absent(parts[0], parts[1], rest)
        match rest:
            case ["stream"]:
                assert job is not None
                return self._subscribe(key, _event("job", job))
            case ["series"]:
                nothing: curves.JobSeries = sample("series_empty", curves.JobSeries)
                return self.series.get(key, nothing)
            case ["actions" | "objects" as part]:
                return self.actions if part == "actions" else self.objects
            case ["lines", *more]:
                return self._lines(query, more)
            case _:
                return job

    def _lines(self, query: Query, more: list[str]) -> msgspec.Struct | bytes:
        """Ranges of `log`; a log of all ranks has each of its lines from another of two."""
        pod = query["pod"][0]
        told = self.log(pod, query)
        if isinstance(told, contract.PageProblem):
            return told
        lines = told.decode().removesuffix("\n").split("\n") if told else []
        if more == ["file"]:
            return told
        if more == ["find"]:
            found = [number for number, line in enumerate(lines) if query["text"][0].lower() in line.lower()]
            return contract.Found(total=len(lines), lines=found, more=False)
        first, count = (int(query.get(name, ["0"])[0]) for name in ("from", "count"))
        begin = max(0, len(lines) + first) if first < 0 else first
        names = ["rank 0", "rank 1"] if pod == "*" else ["rank 0"]
        shown = lines[begin : begin + count]
        return contract.Lines(
            total=len(lines),
            first=begin,
            texts=shown,
            times=["2026-11-22T12:00:00.000000001Z"] * len(shown),
            sources=[(begin + place) % len(names) for place in range(len(shown))],
            names=names,
            reading=False,
            follows=False,
            problems=[],
            cut=False,
        )

    def _of_absent(self, namespace: str, name: str, rest: list[str]) -> contract.PageProblem | Events:
        if rest == ["stream"] and namespace != UNSEEN:
            gone = contract.JobGone(now=self.jobs.now, namespace=namespace, name=name)
            return self._subscribe(f"{namespace}/{name}", _event("gone", gone))
        missing: contract.PageProblem = sample("problem_not_found", contract.PageProblem)
        return missing

    def _subscribe(self, stream: str, first: bytes) -> Events:
        events: Events = queue.Queue()
        events.put(first)
        with self._lock:
            self._streams.append((stream, events))
            if self._has_ended:
                events.put(None)
        return events


def _event(event: str, answer: contract.PageAnswer) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(answer))


class _Handler(BaseHTTPRequestHandler):
    stub: Stub

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if not self.stub.is_up:
            self.close_connection = True
        elif not asked.path.startswith("/api/"):
            self._file(asked.path)
        else:
            self._answer(self.stub.answer(asked.path, parse_qs(asked.query)))

    def do_POST(self) -> None:
        self.stub.changed.append((self.path, dict(self.headers)))
        self._answer(self.stub.done)

    def _file(self, path: str) -> None:
        file = PAGE / (path.lstrip("/") or "index.html")
        if file.is_file():
            self._send(200, _TYPES.get(file.suffix, "text/plain"), file.read_bytes())
        else:
            self._send(404, "text/plain", b"")

    def _answer(self, found: msgspec.Struct | bytes | Events) -> None:
        if isinstance(found, queue.Queue):
            self._stream(found)
        elif isinstance(found, bytes):
            self._send(200, "text/plain; charset=utf-8", found)
        else:
            code = found.code if isinstance(found, contract.PageProblem) else 200
            self._send(code, "application/json", msgspec.json.encode(found))

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Events) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        while (text := events.get()) is not None:
            try:
                self.wfile.write(text)
            except OSError:
                return

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    """Serve on a port of its own, with the policy of the dashboard."""
    server = JoinedWebServer(type("Handler", (_Handler,), {"stub": stub}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="stub")
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield stub
    finally:
        stub.end()
        server.shutdown()
        server.server_close()
        thread.join()


def one_row(name: str, **fields: Any) -> contract.JobRow:
    """A job that runs."""
    return msgspec.structs.replace(many(2).jobs[1], name=name, uid=f"uid-{name}", **fields)


def problem(name: str) -> contract.PageProblem:
    """A sample of a refusal."""
    found: contract.PageProblem = sample(f"problem_{name}", contract.PageProblem)
    return found


def job_curves(count: int) -> list[curves.Curve]:
    """Two curves of so many points; one value is not finite."""
    return [
        curves.Curve(name="loss", values=[2.0 - 0.1 * index for index in range(count)], not_finite=[]),
        curves.Curve(name="grad_norm", values=[None if index == 2 else 1.0 for index in range(count)], not_finite=[2]),
    ]


def with_curves(stub: Stub, job: contract.Job) -> str:
    """Ten reports of a job; the sixth begins attempt 2, half way back. Returns its place in the page."""
    series: curves.JobSeries = sample("series", curves.JobSeries)
    points = curves.Points(
        uid=job.row.uid,
        number=10,
        replace=False,
        times=[1_795_343_400.0 + 10 * index for index in range(10)],
        steps=[float(step) for step in (0, 10, 20, 30, 40, 20, 30, 40, 50, 60)],
        percentages=[0, 10, 20, 30, 40, 20, 30, 40, 50, 60],
        curves=job_curves(10),
        marks=[curves.Mark(index=0, segment=0, attempt=1), curves.Mark(index=5, segment=1, attempt=2)],
    )
    stub.series[f"{job.row.namespace}/{job.row.name}"] = msgspec.structs.replace(series, points=points)
    return stub.put(job)


def more_points(job: contract.Job, number: int = 11, loss: float = 0.5) -> curves.Points:
    """One report after those of `with_curves`."""
    loss_curve = curves.Curve(name="loss", values=[loss], not_finite=[])
    return curves.Points(
        uid=job.row.uid,
        number=number,
        replace=False,
        times=[1_795_343_600.0],
        steps=[70.0],
        percentages=[70],
        curves=[loss_curve],
        marks=[],
    )
