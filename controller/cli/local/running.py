# SPDX-License-Identifier: Apache-2.0
"""`trainwright local run`: submit, follow, clean up."""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.manifest import ManifestError
from trainwright.api.manifest import documents as read_documents
from trainwright.api.objects import Document, name_of, namespace_of
from trainwright.controller.cli.local import serving, state
from trainwright.controller.cli.local.jobs import JOBSET_LABEL, TRAINJOB, Followed, Follower
from trainwright.controller.cli.local.options import Options
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.errors import ApiError, KubernetesError, NotFound

_GRACE_SECONDS = 40.0
_INTERRUPTED = {signal.SIGINT: 130, signal.SIGTERM: 143}
_MANAGER = "trainwright-local-run"
_Result = TypeVar("_Result")


class WrongUseError(Exception):
    """The command cannot do what it is asked; the text says why."""


# ---------------------------------------------------------------------- what to run


def documents_of(arguments: argparse.Namespace) -> list[Document]:
    """The objects of the command line: those of the file, or a TrainJob for the script. Raises WrongUseError."""
    if (arguments.file is None) == (arguments.script is None):
        raise WrongUseError("say what to run: a manifest with --file, or a script")
    if arguments.file is None:
        return [_job_of(arguments)]
    try:
        text = sys.stdin.read() if str(arguments.file) == "-" else arguments.file.read_text(encoding="utf-8")
        found = [document.data for document in read_documents(text)]
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUseError(f"{arguments.file}: {error}") from error
    except ManifestError as error:
        raise WrongUseError(f"{arguments.file}: {error}") from error
    for document in found:
        if not isinstance(document, dict) or not document.get("kind"):
            raise WrongUseError(f"{arguments.file}: each document must be an object with apiVersion and kind")
    jobs = [document for document in found if document["kind"] == TRAINJOB.kind]
    if len(jobs) != 1:
        raise WrongUseError(f"{arguments.file} has {len(jobs)} TrainJobs; it must have one")
    for document in found:
        document.setdefault("metadata", {})
    return found


def _job_of(arguments: argparse.Namespace) -> Document:
    script = Path(arguments.script)
    if not script.is_file():
        raise WrongUseError(f"{script}: there is no such file")
    if script.suffix in (".yaml", ".yml", ".json"):
        raise WrongUseError(f"{script} is not a Python script; a manifest is given with --file")
    name = "".join(letter if letter.isalnum() else "-" for letter in script.stem.lower()).strip("-")[:40] or "script"
    trainer: Document = {"command": ["python", str(script.resolve()), *arguments.arguments, *arguments.passed_on]}
    if arguments.nodes is not None:
        trainer["numNodes"] = arguments.nodes
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": TRAINJOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": {"name": arguments.runtime}, "trainer": trainer},
    }


def show(documents: list[Document]) -> None:
    """Print the objects as YAML."""
    print(yaml.safe_dump_all(documents, sort_keys=False), end="")


# ---------------------------------------------------------------------- running


async def run(options: Options, documents: list[Document], arguments: argparse.Namespace) -> int:
    """Submit the objects and follow the job; returns the exit code. Raises WrongUseError."""
    interrupted = _Interrupted()
    try:
        return await _run(options, documents, arguments, interrupted)
    except asyncio.CancelledError:
        return _conclude(None, interrupted)


async def _run(
    options: Options, documents: list[Document], arguments: argparse.Namespace, interrupted: "_Interrupted"
) -> int:
    stays = state.running(options.folder) is not None
    async with _cluster(options, detach=arguments.detach) as transport:
        client = Client(transport, user_agent=_MANAGER)
        job = next(document for document in documents if document["kind"] == TRAINJOB.kind)
        job["metadata"].setdefault("namespace", "default")
        namespace, name = namespace_of(job), name_of(job)
        await _submit(client, documents, job)
        if arguments.detach:
            print(f"TrainJob {name} is submitted; follow it with: {_follow_command(options, job)}")
            return 0
        follower = Follower(transport, namespace, name, stop_at_failure=arguments.restarts == "none")
        following = asyncio.ensure_future(follower.follow(start_seconds=arguments.start_timeout))
        if not arguments.keep:
            said = "ending the job; once more to kill it"
        elif stays:
            said = f"the job goes on; follow it with: {_follow_command(options, job)}"
        else:
            said = "ending the cluster, and the job with it"
        unread: BrokenPipeError | None = None
        try:
            ended = await interrupted.may_end(following, said)
        except BrokenPipeError as error:
            # Nobody reads the lines any more. The job ends as after Ctrl-C, and so does the command.
            ended, unread = None, error
        if not arguments.keep:
            ending = asyncio.ensure_future(_delete(client, namespace, name))
            if await interrupted.may_end(ending, "killing the processes of the job") is None:
                await _kill(client, namespace, name)
                await interrupted.may_end(asyncio.ensure_future(_delete(client, namespace, name)), "giving up")
        interrupted.ends_the_command()
        if unread is not None:
            raise unread
    return _conclude(ended, interrupted)


def _follow_command(options: Options, job: Document) -> str:
    namespace = namespace_of(job)
    where = "" if namespace == "default" else f" --namespace={namespace}"
    return f"{options.command('logs')} {name_of(job)} --follow{where}"


def _conclude(ended: Followed | None, interrupted: "_Interrupted") -> int:
    if ended is None:
        print("interrupted", file=sys.stderr)
        return interrupted.code
    print(f"{'error: ' if ended.code else ''}{ended.message}", file=sys.stderr if ended.code else sys.stdout)
    return ended.code


class _Interrupted:
    """Ctrl-C and SIGTERM: each ends what the command does at the time, and it goes on with the next."""

    def __init__(self) -> None:
        self.code = 130
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
async def _cluster(options: Options, *, detach: bool) -> AsyncIterator[Transport]:
    """The way to the cluster that runs, or to one for the length of the block."""
    if state.running(options.folder) is not None:
        transport = HTTPTransport(load_config(options.folder / "kubeconfig"))
        try:
            yield transport
        finally:
            await transport.close()
        return
    if detach:
        raise WrongUseError(f"--detach needs a cluster that runs; start one with: {options.command('up')}")
    from trainwright.controller.cli.local.training import training_cluster  # noqa: PLC0415 - only here
    from trainwright.controller.runtime.manager import logs  # noqa: PLC0415

    state.make_folder(options.folder)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(state.held(options.folder))
        except state.InUseError as error:
            raise WrongUseError(str(error)) from error
        # The terminal is for the lines of the job.
        file = None if options.verbose else options.folder / serving.LOG
        logs.configure("INFO" if options.verbose else "WARNING", file=file)
        async with training_cluster(options.node_settings(), port=options.port) as cluster:
            yield cluster.api.transport()


async def _submit(client: Client, documents: list[Document], job: Document) -> None:
    """Create the objects, the job last. Raises WrongUseError with what the cluster says."""
    discovery = Discovery(client)
    try:
        for document in sorted(documents, key=lambda one: one is job):
            resource = await _resource_of(discovery, document)
            if resource.namespaced:
                document["metadata"].setdefault("namespace", "default")
            if document is job:
                await _make_room(client, job)
                await client.create(document, kind=resource)
            else:
                await client.apply(document, kind=resource, field_manager=_MANAGER, force=True)
    except ApiError as error:
        raise WrongUseError(error.message) from error
    except KubernetesError as error:
        raise WrongUseError(str(error)) from error


async def _resource_of(discovery: Discovery, document: Document) -> Resource:
    try:
        return await discovery.resource_of(document)
    except NotFound as error:
        raise WrongUseError(
            f"the cluster does not serve {document['kind']} of {document.get('apiVersion')}: take it out of the file"
        ) from error


async def _make_room(client: Client, job: Document) -> None:
    """A job of that name that has ended goes; one that runs is refused."""
    try:
        found = await client.get(TRAINJOB, name_of(job), namespace_of(job))
    except NotFound:
        return
    conditions = (found.get("status") or {}).get("conditions") or ()
    if not any(entry["type"] in ("Complete", "Failed") and entry["status"] == "True" for entry in conditions):
        raise WrongUseError(f"TrainJob {name_of(job)} runs already; delete it first, or give this one another name")
    await _delete(client, namespace_of(job), name_of(job))


async def _delete(client: Client, namespace: str, name: str) -> bool:
    """Delete the job and wait until it and its pods are gone; returns whether they are."""
    try:
        await client.delete(TRAINJOB, name, namespace, propagation="Foreground")
        async with asyncio.timeout(_GRACE_SECONDS):
            while True:
                await client.get(TRAINJOB, name, namespace)
                await asyncio.sleep(0.05)
    except NotFound:
        return True
    except TimeoutError:
        return False


async def _kill(client: Client, namespace: str, name: str) -> None:
    """Delete the pods of the job without any grace."""
    pods = await client.list(Pod.RESOURCE, namespace, label_selector=f"{JOBSET_LABEL}={name}")
    for pod in pods.items:
        with contextlib.suppress(NotFound):
            await client.delete(Pod.RESOURCE, name_of(pod), namespace, grace_period=0)
