# SPDX-License-Identifier: Apache-2.0
"""Trainings from Python, such as from a notebook: `trainwright.run` and what it returns.

They do what the commands do, on a local cluster or on one of the user's kubeconfig. Each call works in a thread with an
event loop of its own, since that of a notebook runs already.
"""

import argparse
import asyncio
import contextlib
import html
import importlib.util
import io
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from trainwright.api.errors import UserError
from trainwright.api.objects import Document, name_of, namespace_of
from trainwright.api.times import wall_clock
from trainwright.controller.cli import state
from trainwright.controller.cli.commands import loaded
from trainwright.controller.cli.local import (
    environments,
    export,
    feasibility,
    functions,
    job_commands,
    scripts,
    submission,
)
from trainwright.controller.cli.local.follower import TRAINJOB
from trainwright.controller.cli.local.local_jobs import LocalJobs, typed
from trainwright.controller.cli.local.options import options_of
from trainwright.controller.cli.local.outputs import folder_of_job
from trainwright.controller.cli.main import build_parser
from trainwright.controller.runtime import Client, ClusterConfig, HTTPTransport, load_config
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.trainer.progress.ring import Ring
from trainwright.controller.views import text
from trainwright.controller.views.job import History, JobView, report_of, view_of
from trainwright.controller.views.reports import recorded

LOOK_SECONDS = 1.0
_SHOWN = 6
"""Metrics in the table of a notebook."""
_WIDTH, _HEIGHT = 240, 40
_Result = TypeVar("_Result")


def run(
    train: Callable[..., Any] | str | Path,
    *,
    nodes: int | None = None,
    name: str = "",
    runtime: str = "",
    output: str | Path = "",
    env: Mapping[str, str] | None = None,
    context: str | None = None,
    namespace: str = "",
    parameters: Mapping[str, Any] | None = None,
    **more: Any,
) -> "Run":
    """Train a function, or a script by its path, and return at once. Raises UserError, KubernetesError.

    It runs in the default local cluster, which is started if it does not run; with `context`, in the cluster of that
    context of the kubeconfig. There, a function or script is all that travels: its image has the rest.

    `more` and `parameters` are what the function is called with, or the options of the script: `lr=0.1` is `--lr=0.1`.
    `parameters` is for names that this function has itself. `output` is a folder for a local training.
    """
    given = {**(parameters or {}), **more}
    words = ["local", "run", "--detach"]
    words += [f"--nodes={nodes}"] if nodes is not None else []
    words += [f"--job-name={name}"] if name else []
    words += [f"--runtime={runtime}"] if runtime else []
    words += [f"--output={output}"] if output else []
    words += [f"--env={key}={value}" for key, value in (env or {}).items()]
    if context is None:
        # Who waits for it wants to know of the first failure, and not of the last one some minutes later.
        words += [f"--python={sys.prefix}", "--retries=0"]
    arguments = _parsed(words)
    if callable(train):
        arguments.function = functions.sent(train, given)
    else:
        arguments.script, arguments.passed_on = str(train), [f"--{key}={value}" for key, value in given.items()]
    if context is not None:
        return _run_in_cluster(arguments, context, namespace)
    options = options_of(arguments)
    if state.running(options.folder) is None:
        _start_cluster()
    documents = scripts.documents_of(arguments)
    documents[-1]["metadata"]["namespace"] = namespace or "default"
    arguments.environment = environments.chosen(arguments, os.environ, print)
    job = _in_thread(submission.submitted(options, documents, arguments))
    return Run(job, options.folder / "kubeconfig", folder=options.folder)


def _parsed(words: list[str]) -> argparse.Namespace:
    """As the command parses them, which ends the process where they are wrong. Raises UserError instead."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return build_parser().parse_args(words)
    except SystemExit as error:
        raise UserError(said.getvalue().partition(": error: ")[2].strip()) from error


def _start_cluster() -> None:
    arguments = build_parser().parse_args(["local", "up"])
    with contextlib.redirect_stdout(io.StringIO()):  # it prints the dashboard's address, which gives access to the jobs
        loaded(arguments.run)(arguments)


def _run_in_cluster(arguments: argparse.Namespace, context: str, namespace: str) -> "Run":
    if arguments.output:
        raise UserError("output is a folder of this machine: leave it out with a context")
    sent = arguments.function
    if sent is None:
        script = Path(arguments.script)
        program = scripts.program_of(script, arguments.passed_on)
        sent = arguments.function = functions.SentFunction(script.stem, program)
    (job,) = scripts.documents_of(arguments)
    config = load_config(None, context)
    job["metadata"]["namespace"] = namespace or config.namespace

    async def create(client: Client) -> Document:
        runtime = await feasibility.runtime_of(job, [job], client)
        job["spec"]["trainer"]["command"] = sent.command(feasibility.starter_in_image(runtime).command)
        return await client.with_defaults(field_validation="Strict").create(job, kind=TRAINJOB)

    return Run(_in_thread(_connected(config, create)), None, context=context)


class Run:
    """A training that was started from Python."""

    def __init__(
        self, job: Document, kubeconfig: Path | None, *, context: str | None = None, folder: Path | None = None
    ) -> None:
        """`folder`: of the local cluster; None: it is another one."""
        self.name, self.namespace = name_of(job), namespace_of(job)
        self._kubeconfig, self._context, self._folder = kubeconfig, context, folder

    # ------------------------------------------------------------------ what people ask

    @property
    def state(self) -> str:
        """Such as Running, Complete or Failed."""
        return str(self._call(self._view).state)

    @property
    def outputs(self) -> Path | None:
        """The folder that a local training finds in TRAINWRIGHT_OUTPUT_DIR; None: it has none on this machine."""
        return folder_of_job(self._call(lambda jobs: jobs.get(self.name)))

    def wait(self, timeout: float | None = None) -> str:
        """Wait for the end; returns the state. In a notebook, a table shows how far it is.

        Raises TimeoutError after so many seconds. Ctrl-C, or the notebook's stop, ends the waiting, not the training.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        shown = _displayed(self)
        while True:
            view = self._call(self._view)
            if shown is not None:
                shown.update(self)
            if view.is_over:
                return str(view.state)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"TrainJob {self.name} after {timeout:g} s: {text.state(view)}")
            time.sleep(LOOK_SECONDS)

    def logs(self, rank: int | None = None) -> str:
        """The lines of all ranks, or of one, also of a training that has failed. Raises UserError: there are none."""
        wanted = job_commands.WantedLines(ranks=frozenset() if rank is None else frozenset({str(rank)}))
        out = io.StringIO()
        self._call(lambda jobs: job_commands.show_lines(jobs, self.name, wanted, out))
        return out.getvalue()

    def metrics(self) -> Any:
        """A table with a row for each value: a DataFrame where pandas is installed, else a list of dicts.

        In another cluster than a local one, rows are what the manager has recorded, and the last report.
        """
        rows = export.rows_of(self._call(self._samples))
        if importlib.util.find_spec("pandas") is None:
            return rows
        return importlib.import_module("pandas").DataFrame(rows)

    def stop(self) -> str:
        """Suspend the training and wait until its pods have ended; returns what to say."""
        return self._call(lambda jobs: jobs.stop(self.name))

    def resume(self) -> str:
        """Let it go on from its checkpoint; returns what to say."""
        return self._call(lambda jobs: jobs.resume(self.name))

    def __repr__(self) -> str:
        return f"Run({self.namespace}/{self.name})"

    def _repr_html_(self) -> str:
        async def both(jobs: LocalJobs) -> tuple[JobView, list[Sample]]:
            return await self._view(jobs), await self._samples(jobs)

        return as_html(*self._call(both))

    # ------------------------------------------------------------------ how it is found

    async def _samples(self, jobs: LocalJobs) -> list[Sample]:
        job = await jobs.get(self.name)
        if self._folder is not None:
            return await export.values_of(job, self._folder)
        ring = (await recorded(jobs.client, typed(job)))[0] or Ring()
        if (report := report_of(typed(job))) is not None:
            ring.add(report)
        return ring.samples()

    async def _view(self, jobs: LocalJobs) -> JobView:
        job = await jobs.get(self.name)
        ended, one = await jobs.ended([job]), typed(job)
        return view_of(one, History(), wall_clock(), failure=ended.sentence(one), brief=ended.brief(one))

    def _call(self, work: Callable[[LocalJobs], Awaitable[_Result]]) -> _Result:
        logs = self._folder / "logs" if self._folder is not None else None
        config = load_config(self._kubeconfig, self._context)
        return _in_thread(_connected(config, lambda client: work(LocalJobs(client, self.namespace, logs))))


async def _connected(config: ClusterConfig, work: Callable[[Client], Awaitable[_Result]]) -> _Result:
    client = Client(HTTPTransport(config), user_agent="trainwright-python")
    try:
        return await work(client)
    finally:
        await client.close()


def _in_thread(work: Coroutine[Any, Any, _Result]) -> _Result:
    with ThreadPoolExecutor(1, "trainwright") as thread:
        return thread.submit(asyncio.run, work).result()


def _displayed(shown: object) -> Any:
    """What a notebook shows of it, to be updated; None outside of a notebook."""
    if "IPython" not in sys.modules:
        return None
    shell = importlib.import_module("IPython").get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return importlib.import_module("IPython.display").display(shown, display_id=True)


def as_html(view: JobView, run: list[Sample]) -> str:
    """A small table. All texts come from the training, and are text."""
    rows = [("state", html.escape(text.state(view)))]
    if (why := text.why(view)) and why != text.NONE:
        rows.append(("why", html.escape(why)))
    if view.percentage is not None:
        rows.append(("progress", f'<progress max="100" value="{view.percentage}"></progress> {view.percentage}%'))
    if view.remaining is not None:
        rows.append(("to go", html.escape(text.remaining(view))))
    names = export.metrics_of(run)[:_SHOWN]
    for name in names:
        values = [one.values[name] for one in run if name in one.values]
        last = f"{values[-1]:.6g}" if values else text.NONE
        rows.append((html.escape(name), f"{last} {_line(values)}"))
    cells = "".join(f"<tr><th style='text-align:left'>{name}</th><td>{value}</td></tr>" for name, value in rows)
    return f"<table><caption>{html.escape(view.name)}</caption>{cells}</table>"


def _line(values: list[float]) -> str:
    """The curve as a drawing of its own, which needs no script."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    points = " ".join(
        f"{_WIDTH * place / (len(values) - 1):.1f},{_HEIGHT - _HEIGHT * (value - low) / ((high - low) or 1):.1f}"
        for place, value in enumerate(values)
    )
    style = "fill:none;stroke:currentColor;stroke-width:1"
    box = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 -1 {_WIDTH} {_HEIGHT + 2}"'
    return f'<svg {box} role="img" aria-label="curve"><polyline style="{style}" points="{points}"/></svg>'
