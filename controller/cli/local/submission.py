# SPDX-License-Identifier: Apache-2.0
"""`trainwright local run`: submit, follow, clean up."""

import argparse
import asyncio
import contextlib
import math
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trainwright.api.kubernetes.core.v1 import Node, Pod
from trainwright.api.objects import Document, dig, name_of, namespace_of
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_PROGRESS_STALL_AFTER,
    ANNOTATION_RECOVERY,
    ANNOTATION_RETRIES,
    RECOVERY_GANG,
)
from trainwright.controller.cli import state
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local import (
    commit,
    daemon,
    ends,
    environments,
    feasibility,
    local_jobs,
    outputs,
    scripts,
)
from trainwright.controller.cli.local.daemon import images_of, node_settings
from trainwright.controller.cli.local.follower import OUT_OF_TIME, TRAINJOB, Followed, Follower
from trainwright.controller.cli.local.options import LocalOptions
from trainwright.controller.cli.local.outputs import folder_of_job
from trainwright.controller.cli.local.pods import pods_of, still_running
from trainwright.controller.cli.local.stalls import EXIT_CODE as STALLED
from trainwright.controller.cli.local.stalls import Stalls
from trainwright.controller.local.apiserver.store.disk import StateLostError
from trainwright.controller.local.interpreter import forget_user_folders
from trainwright.controller.local.node.images import OUTPUT, PYTHON, RUNS, WORKDIR
from trainwright.controller.runtime import (
    AlreadyExists,
    Client,
    Discovery,
    HTTPTransport,
    KubernetesError,
    NotFound,
    configure_logging,
    load_config,
)
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.errors import TransportError
from trainwright.controller.trainer.job.stall import SHORTEST_SECONDS
from trainwright.controller.trainer.job.status import REASON_INTERRUPTED, REASON_LATE, REASON_STALLED
from trainwright.controller.views.cluster import if_there
from trainwright.controller.views.ended import end_of
from trainwright.plugins.contract import Runtime
from trainwright.progress import ON_STALL, RESUME_FROM

LOST = (KubernetesError, StateLostError)
"""What ends a run that was not refused. Of the first, ConfigurationErrors refuse it."""
_GRACE_SECONDS = 40.0
_INTERRUPTED = {signal.SIGINT: 130, signal.SIGTERM: 143}
_MANAGER = "trainwright-local-run"
_Result = TypeVar("_Result")


async def run(options: LocalOptions, documents: list[Document], arguments: argparse.Namespace) -> int:
    """Submit the objects and follow the job; returns the exit code. Raises WrongUseError."""
    interrupted = Interrupted()
    try:
        return await _run(options, documents, arguments, interrupted)
    except asyncio.CancelledError:
        return _conclude(None, interrupted)


async def _run(
    options: LocalOptions, documents: list[Document], arguments: argparse.Namespace, interrupted: "Interrupted"
) -> int:
    stays = state.running(options.folder) is not None
    async with cluster_of(options, detach=arguments.detach) as (transport, dashboard):
        # As kubectl: a job whose misspelled field is dropped trains with what was not asked for.
        client = Client(transport, user_agent=_MANAGER).with_defaults(field_validation="Strict")
        output = outputs.JobOutput(arguments.output)
        job = await _prepared_and_submitted(client, options, documents, arguments)
        namespace, name = namespace_of(job), name_of(job)
        output.created(job)
        if dashboard and sys.stdout.isatty():
            # Not into a log, which may be passed on: the address gives access to the jobs.
            print(f"| dashboard: {dashboard}#/jobs/{namespace}/{name}", flush=True)
        if arguments.detach:
            print(f"TrainJob {name} is submitted; follow it with: {_command(options, 'logs', job, ' --follow')}")
            output.tell_where()
            return 0
        stalls = Stalls(arguments.stall_after) if arguments.stall_after is not None else None
        follower = Follower(client, namespace, name, stop_at_failure=_stops_at_failure(arguments), stalls=stalls)
        following = asyncio.ensure_future(
            follower.follow(
                start_seconds=arguments.start_timeout,
                seconds=arguments.timeout,
                end_job=lambda text: ends.end(client, namespace, name, ends.REASON_FAILED, text),
                stop_job=_stopping(client, namespace, name, arguments),
            )
        )
        if not arguments.keep:
            said = "ending the job; once more to kill it"
        elif stays:
            said = f"the job goes on; follow it with: {_command(options, 'logs', job, ' --follow')}"
        else:
            said = "ending the cluster, and the job with it"
        unread: BrokenPipeError | None = None
        try:
            ended = await interrupted.may_end(following, said)
        except BrokenPipeError as error:
            # The reader of our output has gone. End the job and the command as after Ctrl-C.
            ended, unread = None, error
        await _end(client, job, ended, interrupted, arguments)
        if not arguments.rm:
            for said in await ends.drop_lines(client, options.folder / "logs", wall_clock()):
                print(f"| {said}", flush=True)
        interrupted.ends_the_command()
        if unread is not None:
            raise unread
    code = _conclude(ended, interrupted)
    output.tell()
    if code and stays and not arguments.rm:
        said = f"its lines stay: {_command(options, 'logs', job)}; why: {_command(options, 'show', job)}"
        if code == STALLED and arguments.keep:
            said = f"the job stays suspended; let it go on with: {_command(options, 'resume', job)}"
        print(said, file=sys.stderr)
    return code


async def submitted(options: LocalOptions, documents: list[Document], arguments: argparse.Namespace) -> Document:
    """Submit the objects to the cluster that runs; returns the job. Raises WrongUseError, KubernetesError."""
    async with cluster_of(options, detach=True) as (transport, _):
        client = Client(transport, user_agent=_MANAGER).with_defaults(field_validation="Strict")
        return await _prepared_and_submitted(client, options, documents, arguments)


async def _prepared_and_submitted(
    client: Client, options: LocalOptions, documents: list[Document], arguments: argparse.Namespace
) -> Document:
    job = train_job_of(documents)
    runtime = await feasibility.runtime_of(job, documents, client)
    if runtime is not None:
        await prepare(options, runtime, client, job, arguments)
    if arguments.queue is not None:
        own = (job["spec"].get("trainer") or {}).get("numNodes")
        policy = dig(msgspec.to_builtins(runtime), "spec.mlPolicy") or {}
        nodes = own or policy.get("numNodes") or 1
        machines = (await client.list(Node.RESOURCE)).items
        feasibility.ask_for_share(job, machines, nodes * arguments.queue, is_torch=policy.get("torch") is not None)
    return await _submit(client, documents, job)


async def _end(
    client: Client, job: Document, ended: Followed | None, interrupted: "Interrupted", arguments: argparse.Namespace
) -> None:
    namespace, name = namespace_of(job), name_of(job)
    early = ended is None or ended.code == OUT_OF_TIME
    if early and not arguments.keep:
        text = f"`trainwright local run` was ended by {interrupted.name}" if ended is None else ended.message
        reason = REASON_INTERRUPTED if ended is None else REASON_LATE
        step = asyncio.ensure_future(ends.end(client, namespace, name, reason, text))
        await _or_kill(interrupted, step, client, job)
    elif ended is not None and ended.code not in (0, OUT_OF_TIME, STALLED) and not ended.failed:
        # Only now it is known which container failed first.
        with contextlib.suppress(NotFound):
            await ends.say_failed(client, namespace, name, ends.REASON_FAILED, ended.message)
    if arguments.rm and not ((early or (ended is not None and ended.code == STALLED)) and arguments.keep):
        step = asyncio.ensure_future(local_jobs.delete(client, job, _GRACE_SECONDS))
        await _or_kill(interrupted, step, client, job)


async def _or_kill(interrupted: "Interrupted", step: "asyncio.Future[bool]", client: Client, job: Document) -> None:
    if await interrupted.may_end(step, "killing the processes of the job") is None:
        namespace, name = namespace_of(job), name_of(job)
        await _kill(client, namespace, name)
        ended = asyncio.ensure_future(still_running(client, namespace, name, math.inf))
        await interrupted.may_end(ended, "giving up")


def _stopping(
    client: Client, namespace: str, name: str, arguments: argparse.Namespace
) -> Callable[[str], Awaitable[object]] | None:
    """What ends a job that seems to hang. One that is kept is suspended: its pods would run on, and do nothing."""
    if not arguments.stall_stop or arguments.retries is not None:
        return None
    if arguments.keep:
        stopped = False

        async def stop(_: str) -> None:
            nonlocal stopped
            if not stopped:  # a user may have let it go on meanwhile
                await local_jobs.LocalJobs(client, namespace).stop(name)
            stopped = True

        return stop
    said = "it seemed to hang, and --stall-stop ended it"
    return lambda how: ends.end(client, namespace, name, REASON_STALLED, f"{said}: {how}")


def _command(options: LocalOptions, command: str, job: Document, more: str = "") -> str:
    return options.command_on(command, name_of(job), namespace_of(job), more)


def _conclude(ended: Followed | None, interrupted: "Interrupted") -> int:
    if ended is None:
        print("interrupted", file=sys.stderr)
        return interrupted.code
    print(f"{'error: ' if ended.code else ''}{ended.message}", file=sys.stderr if ended.code else sys.stdout)
    return ended.code


class Interrupted:
    """Ctrl-C and SIGTERM: each ends what the command does at the time, and it goes on with the next."""

    def __init__(self) -> None:
        self.code = 130
        self.name = "Ctrl-C"
        self._command = asyncio.current_task()
        self._step: asyncio.Future[Any] | None = None
        self._said = ""
        self._ended = False
        self._again = False
        loop = asyncio.get_running_loop()
        for number in _INTERRUPTED:
            loop.add_signal_handler(number, self._on, number)

    async def may_end(self, step: "asyncio.Future[_Result]", said: str) -> "_Result | None":
        """Wait for the step; returns None if a signal ended it, which prints what is `said`."""
        self._step, self._said, self._ended = step, said, False
        if self._again:
            self._again = False
            self._end(step)
        try:
            return await step
        except asyncio.CancelledError:
            if not self._ended:
                raise
            return None

    def ends_the_command(self) -> None:
        """From here on a signal ends the command itself."""
        self._step = None

    def _on(self, number: signal.Signals) -> None:
        self.code = _INTERRUPTED[number]
        self.name = "Ctrl-C" if number == signal.SIGINT else number.name
        if self._step is None:
            if self._command is not None:
                self._command.cancel()
        elif self._ended or self._step.done():
            # The step is ending; this signal is for the next one.
            self._again = True
        else:
            self._end(self._step)

    def _end(self, step: "asyncio.Future[Any]") -> None:
        print(self._said, file=sys.stderr, flush=True)
        self._ended = True
        step.cancel()


@asynccontextmanager
async def cluster_of(options: LocalOptions, *, detach: bool) -> AsyncIterator[tuple[Transport, str]]:
    """The way to the cluster that runs, or to one for the length of the block; and the address of its dashboard."""
    if (run := state.running(options.folder)) is not None:
        if why := options.unlike(run):
            raise WrongUseError(why)
        transport = HTTPTransport(load_config(options.folder / "kubeconfig"))
        try:
            yield transport, run.dashboard
        except TransportError as error:
            if not (why := await asyncio.to_thread(options.why_lost)):
                raise
            raise KubernetesError(why) from error
        finally:
            await transport.close()
        return
    if detach:
        raise WrongUseError(f"--detach needs a cluster that runs; start one with: {options.command('up')}")
    # Imported here: a command that uses a cluster that runs needs no server.
    from trainwright.controller.cli.local.training import training_cluster  # noqa: PLC0415
    from trainwright.controller.dashboard import embedded  # noqa: PLC0415

    daemon.leave_out_user_plugins()
    forget_user_folders()
    state.claim(options.folder)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(state.held(options.folder))
        except state.InUseError as error:
            advice = f"for several jobs at once, start a cluster first with: {options.command('up')}"
            raise WrongUseError(f"{error}; {advice}") from error
        # The terminal is for the lines of the job.
        file = None if options.verbose else options.folder / daemon.LOG
        configure_logging("INFO" if options.verbose else "WARNING", file=file)
        async with training_cluster(node_settings(options), port=options.port) as cluster:
            inside = cluster.api.transport()
            # Also where its address is not printed: it keeps the curves.
            config = load_config(options.folder / "kubeconfig")
            command = options.command("up")
            async with embedded(inside, config, options.folder, command=command, output_of=folder_of_job) as dashboard:
                yield inside, dashboard if sys.stdout.isatty() else ""


async def prepared(options: LocalOptions, documents: list[Document], arguments: argparse.Namespace) -> list[Document]:
    """The objects as they would be submitted, for `--dry-run`: without a cluster, runtimes are the shipped ones.

    Raises WrongUseError where they cannot run here.
    """
    job = train_job_of(documents)
    if state.running(options.folder) is None:
        if (runtime := feasibility.shipped_runtime_of(job)) is not None:
            await prepare(options, runtime, None, job, arguments)
        return documents
    async with local_jobs.jobs_of(options.folder, "") as local:
        if (runtime := await feasibility.runtime_of(job, documents, local.client)) is not None:
            await prepare(options, runtime, local.client, job, arguments)
    return documents


def train_job_of(documents: list[Document]) -> Document:
    job = next(document for document in documents if document["kind"] == TRAINJOB.kind)
    job["metadata"].setdefault("namespace", "default")
    return job


async def prepare(
    options: LocalOptions, runtime: Runtime, client: Client | None, job: Document, arguments: argparse.Namespace
) -> None:
    """Choose what starts the script, and refuse what cannot run here. Raises WrongUseError."""
    images = images_of(options)
    objects = feasibility.objects_of(job, runtime)
    why = feasibility.obstacle(objects, images)
    if not why and client is not None:
        why = await feasibility.unserved(objects, client)
    if why:
        raise WrongUseError(f"runtime {runtime.name} cannot run on a local cluster: {why}")
    if arguments.output is not None:
        outputs.check(arguments.output, job)
        await _check_alone(arguments.output, options.folder)
    output = {RUNS: str(options.runs)} if arguments.output is None else {OUTPUT: str(arguments.output)}
    if arguments.file is not None:
        if arguments.output is not None or not feasibility.has_output(objects):
            feasibility.ask(job, objects, output, feasibility.OUTPUT_OF_MANIFEST)
    else:
        _prepare_script(options, objects, runtime, job, arguments, output)
        here = await asyncio.to_thread(commit.commit_of, scripts.code_folder_of(arguments))
        if here is not None:
            job["metadata"].setdefault("annotations", {}).update(here.annotations())
    _recover(job, arguments)
    if _stops_at_failure(arguments) and not arguments.detach:
        # After --detach no command ends the other ranks, so containers start again, as on a cluster.
        feasibility.never_restart(job, objects)


async def _check_alone(output: Path, cluster: Path) -> None:
    """Raises WrongUseError if a job of another cluster has the same name, and writes into the same output.

    In the same cluster, the job of before is replaced, or the name is refused.
    """
    before = outputs.kept(output)
    if before is None or before.owner.cluster == str(cluster):
        return
    if why := (await local_jobs.in_use_of([before])).get(output):
        whose = before.owner.cluster
        text = f"{output} is the output of a job in the cluster {whose}: {why}"
        raise WrongUseError(f"--output: name another folder, since {text}")


def _stops_at_failure(arguments: argparse.Namespace) -> bool:
    return arguments.restarts == "none" and arguments.retries is None


def _recover(job: Document, arguments: argparse.Namespace) -> None:
    """Annotate the job as the options about recovery say; they take precedence over a manifest."""
    marks, variables = {}, {}
    if arguments.stall_stop and arguments.retries is None:
        # The writer of progress then prints where each thread stands when its rank is stopped.
        variables[ON_STALL] = "restart"
    if arguments.retries is not None:
        marks = {ANNOTATION_RECOVERY: RECOVERY_GANG, ANNOTATION_RETRIES: str(arguments.retries)}
        if arguments.stall_stop:
            if arguments.stall_after < SHORTEST_SECONDS:
                raise WrongUseError("--stall-stop with --retries needs a --stall-after of 2m or more")
            marks[ANNOTATION_PROGRESS_STALL_AFTER] = f"{arguments.stall_after:.0f}s"
    if arguments.resume_from is not None:
        start = arguments.resume_from
        variables[RESUME_FROM] = start if "://" in start else str(Path(start).expanduser().absolute())
    if variables:
        trainer = job["spec"].get("trainer") or {}  # a manifest may say null
        env = [one for one in trainer.get("env") or () if one.get("name") not in variables]
        env += [{"name": name, "value": value} for name, value in variables.items()]
        job["spec"]["trainer"] = {**trainer, "env": env}
    if marks:
        job["metadata"].setdefault("annotations", {}).update(marks)


def _prepare_script(
    options: LocalOptions,
    objects: list[Document],
    runtime: Runtime,
    job: Document,
    arguments: argparse.Namespace,
    output: dict[str, str],
) -> None:
    images = images_of(options)
    chosen = environments.unless_mapped(arguments.environment, feasibility.environments_of(objects, images))
    starter = feasibility.starter_of(objects, runtime, images, chosen.python)
    job["spec"]["trainer"]["command"] = scripts.command_of(arguments, starter.command)
    asked = {WORKDIR: scripts.folder_of(arguments), PYTHON: chosen.python, **output}
    feasibility.ask(job, objects, {prefix: value for prefix, value in asked.items() if value}, feasibility.SCRIPT)
    for said in filter(None, (chosen.said, starter.missing)):
        print(f"| {said}", file=sys.stderr if arguments.dry_run else sys.stdout, flush=True)


async def _submit(client: Client, documents: list[Document], job: Document) -> Document:
    """Create the objects, the job last, which is returned. Raises WrongUseError with what the cluster says."""
    created = job
    discovery = Discovery(client)
    try:
        for document in sorted(documents, key=lambda one: one is job):
            try:
                resource = await discovery.resource_of(document)
            except NotFound as error:
                raise WrongUseError(
                    f"the cluster does not serve {document['kind']} of {document.get('apiVersion')}: "
                    "take it out of the file"
                ) from error
            if resource.namespaced:
                document["metadata"].setdefault("namespace", "default")
            if document is job:
                await _make_room(client, job)
                created = await client.create(document, kind=resource)
            else:
                await client.apply(document, kind=resource, field_manager=_MANAGER, force=True)
    except KubernetesError as error:
        raise WrongUseError(error.message) from error
    return created


async def _make_room(client: Client, job: Document) -> None:
    """A job of that name that has ended goes; one that runs is refused."""
    if not name_of(job):
        return  # the API server makes a name from generateName
    found = await if_there(client.get(TRAINJOB, name_of(job), namespace_of(job)))
    if found is None:
        return
    if end_of(found) is None:
        raise WrongUseError(
            f"TrainJob {name_of(job)} runs already; delete it first, or give this one another name: "
            "a script with --job-name, a manifest in metadata.name"
        )
    if claims := await ends.claims_of(client, found):
        raise WrongUseError(
            f"TrainJob {name_of(job)} has ended, and is not replaced: {', '.join(claims)} would be deleted with it, "
            "and all that it wrote there. Save what you need and delete it first, or give this one another name: "
            "a script with --job-name, a manifest in metadata.name"
        )
    # What is refused now would be refused once the old one is gone.
    with contextlib.suppress(AlreadyExists):
        await client.create(job, kind=TRAINJOB, dry_run=True)
    said = "is replaced, with its lines and curves; its output stays"
    print(f"| TrainJob {name_of(job)}, which has ended, {said}", flush=True)
    await local_jobs.delete(client, found, _GRACE_SECONDS)


async def _kill(client: Client, namespace: str, name: str) -> None:
    """Delete the pods of the job without any grace."""
    for pod in await pods_of(client, namespace, name):
        with contextlib.suppress(NotFound):
            await client.delete(Pod.RESOURCE, name_of(pod), namespace, grace_period=0)
