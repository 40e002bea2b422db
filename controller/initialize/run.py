# SPDX-License-Identifier: Apache-2.0
"""One run of an initializer, from the variables to the marker."""

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.controller.initialize.contract import (
    WAITING_HELPS,
    InitializeError,
    Kind,
    Provider,
    ProviderRequest,
    RemoteFile,
)
from trainwright.controller.initialize.folder import Folder, failure, free_bytes, locked
from trainwright.controller.initialize.manifest import (
    MANIFEST,
    VERSION,
    Finished,
    Manifest,
    ManifestEntry,
    begin,
    is_untouched,
    read_manifest,
    write_manifest,
)
from trainwright.controller.initialize.providers import provider_class
from trainwright.controller.initialize.reports import (
    Log,
    Progress,
    Redactor,
    amount,
    leave_sentence,
    secrets_in,
    secrets_of,
)
from trainwright.controller.initialize.selection import (
    SPACE_CHECK,
    Settings,
    advice_on_weights,
    check_names,
    select,
    settings_of,
)
from trainwright.controller.initialize.transfer import Sleep, Transfer, Tries, hash_file, part_name, persist

_END_SECONDS = 1.5
"""A thread that still writes after a signal is not waited for longer: pods are to end within two seconds."""
_SHOWN = 5


def run(
    kind: Kind,
    variables: Mapping[str, str],
    *,
    address: str | None = None,
    target: str | None = None,
    dry_run: bool = False,
    verify: bool = False,
) -> int:
    """Do what the command says; returns the exit code."""
    redactor = Redactor([*secrets_of(variables, ()), *secrets_in(address or variables.get("STORAGE_URI", ""))])
    log = Log(redactor)
    progress: Progress | None = None
    code = 1
    try:
        if verify:
            settings = settings_of(kind, variables, address="any://", target=target)
            code = asyncio.run(_stoppable(_verify(settings.target, log), log, variables))
        else:
            settings = settings_of(kind, variables, address=address, target=target)
            known = provider_class(settings.scheme)
            redactor = Redactor([*secrets_of(variables, known.secrets), *secrets_in(settings.address)])
            log = Log(redactor)
            request = ProviderRequest(
                kind=kind,
                address=settings.address,
                target=settings.target,
                variables={name: variables[name] for name in known.variables if variables.get(name)},
                connections=settings.connections,
                warn=log,
            )
            # Before the loop takes SIGTERM: the reporter has a handler of its own, which must not remain the last one.
            progress = Progress(kind, log)
            work = Run(settings, known(request), progress=progress, log=log).initialize(dry_run=dry_run)
            code = asyncio.run(_stoppable(work, log, variables))
    except InitializeError as error:
        sentence = redactor.clean(error.sentence)
        log(f"error: {error.word}: {sentence}")
        leave_sentence(sentence, variables)
    except Exception as error:  # a defect of ours or of a provider: nothing secret may get out with it
        log("".join(traceback.format_exception(error)))
        sentence = redactor.clean(f"the initializer failed: {type(error).__name__}: {error}")
        log(f"error: {sentence}")
        leave_sentence(sentence, variables)
    finally:
        # After the sentence: the last document stands on the line below it.
        if progress is not None:
            progress.close(failed=code == 1)
    return code


async def _stoppable(work: Coroutine[Any, Any, int], log: Callable[[str], None], variables: Mapping[str, str]) -> int:
    """Run until the end, or until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    stopped: list[int] = []

    def stop(number: int) -> None:
        if not stopped:
            stopped.append(number)
            sentence = f"stopped by {signal.Signals(number).name}; the next start goes on where this one ended"
            log(sentence)
            leave_sentence(sentence, variables)
            loop.call_later(_END_SECONDS, os._exit, 128 + number)
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if stopped:
            return 128 + stopped[0]
        raise


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a source has for us."""

    revision: str
    files: Sequence[RemoteFile]


class Run:
    """Brings one source into one folder."""

    def __init__(
        self,
        settings: Settings,
        provider: Provider,
        *,
        progress: Progress,
        log: Callable[[str], None],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._progress = progress
        self._log = log
        self._sleep = sleep
        self._allow = tuple(settings.allow or provider.allow)

    async def initialize(self, *, dry_run: bool = False) -> int:
        """Fetch what is missing, and mark the folder; returns the exit code. Raises InitializeError."""
        try:
            with self._failures():
                plan = await self._plan()
                if plan is None:
                    return 0
                if dry_run:
                    self._show(plan)
                    return 0
                with Folder(self._settings.target, create=True) as folder:
                    async with locked(folder, self._log, sleep=self._sleep) as waited:
                        if waited and self._is_current(folder, plan):
                            self._log(f"the other initializer completed {self._settings.target}")
                            return 0
                        await self._fetch(folder, plan)
        finally:
            await self._provider.close()
        return 0

    async def _plan(self) -> _Plan | None:
        """What to fetch; None: the folder is complete."""
        target, source = self._settings.target, self._provider.source
        manifest = None
        is_intact = False
        if target.is_dir():
            with Folder(target, create=False) as folder:
                manifest = read_manifest(folder)
                if manifest is None and folder.state(MANIFEST) is not None:
                    self._log(f"{MANIFEST} in {target} cannot be read by this version: checking all files again")
                is_intact = manifest is not None and manifest.is_intact(folder)
                if manifest is not None and is_intact and self._settings.verifies:
                    is_intact = await self._are_as_fetched(folder, manifest)
        is_ours = manifest is not None and manifest.is_of(source, self._allow, self._settings.ignore)
        try:
            revision = await persist(self._provider.resolve, self._tries())
            if revision:
                self._log(f"{source} is at revision {revision}")
                if manifest is not None and is_ours and is_intact and manifest.revision == revision:
                    self._log(f"{target} is complete: nothing to fetch")
                    return None
            offered = await persist(lambda: self._provider.files(revision), self._tries())
        except InitializeError as error:
            if manifest is not None and is_ours and is_intact and error.word in WAITING_HELPS:
                at = f" at revision {manifest.revision}" if manifest.revision else ""
                self._log(f"warning: {error.sentence}; {target} is complete{at} and is used as it is")
                return None
            raise
        files = select(offered, self._allow, self._settings.ignore)
        if not files:
            what = f"the patterns leave no file of {len(offered)}" if offered else "there is no file"
            raise InitializeError("NothingFound", f"{what} in {source}")
        check_names(files)
        if self._settings.kind == "model" and (advice := advice_on_weights(files, offered)):
            self._log(f"warning: {advice}")
        if manifest is not None and is_ours and is_intact and not revision and manifest.is_of_files(files):
            self._log(f"{target} is complete: nothing to fetch")
            return None
        return _Plan(revision, files)

    async def _are_as_fetched(self, folder: Folder, manifest: Manifest) -> bool:
        damaged = [entry.path for entry in manifest.files if not await _is_as_fetched(folder, entry, self._log)]
        for path in damaged:
            self._log(f"warning: {path} is not as it was fetched, with its size and time unchanged: fetching it again")
        return not damaged

    def _tries(self) -> Tries:
        return Tries(self._sleep, self._log)

    def _is_current(self, folder: Folder, plan: _Plan) -> bool:
        manifest = read_manifest(folder)
        return (
            manifest is not None
            and manifest.is_of(self._provider.source, self._allow, self._settings.ignore)
            and manifest.revision == plan.revision
            and (bool(plan.revision) or manifest.is_of_files(plan.files))
            and manifest.is_intact(folder)
        )

    def _show(self, plan: _Plan) -> None:
        """List the files and the space on standard output."""
        for file in sorted(plan.files, key=lambda file: file.path):
            sys.stdout.write(f"{amount(file.size):>12}  {file.path}\n")
        size = sum(file.size for file in plan.files)
        free = amount(free_bytes(self._settings.target))
        sys.stdout.write(f"{len(plan.files)} files, {amount(size)}; {free} are free in {self._settings.target}\n")

    async def _fetch(self, folder: Folder, plan: _Plan) -> None:
        with Finished(folder, self._provider.source) as finished:
            await self._complete(folder, plan, finished)

    async def _complete(self, folder: Folder, plan: _Plan, finished: Finished) -> None:
        old = read_manifest(folder)
        names = {part_name(self._provider.source, file): file for file in plan.files if file.identity}
        if dropped := folder.forget_parts(names):
            self._log(f"deleted {dropped} unfinished files that nothing needs")
        known = [*old.files] if old and old.source == self._provider.source else []
        done = await self._present(folder, plan.files, {**{one.path: one for one in known}, **finished.entries})
        missing = [file for file in plan.files if file.path not in done]
        sizes = folder.parts()
        started = sum(min(sizes[name], file.size) for name, file in names.items() if name in sizes)
        self._check_space(folder, sum(file.size for file in missing) - started)
        here = sum(entry.size for entry in done.values())
        size = sum(file.size for file in plan.files)
        self._progress.begin(here=here, size=size, files_here=len(done), files=len(plan.files))
        self._log(f"{len(missing)} of {len(plan.files)} files are missing, {amount(size - here - started)} to fetch")
        ours = begin(folder, old, finished.fetched.values())
        finished.begin()
        # Not every provider has it: files that are their own source are not ours, and no later run may delete them.
        in_place = bool(getattr(self._provider, "is_target", False))

        def note(entry: ManifestEntry) -> None:
            if not in_place:
                finished.add(entry)

        for path in done.keys() - finished.entries.keys():
            note(done[path])
        transfer = Transfer(
            folder, self._provider, plan.revision, progress=self._progress, log=self._log, tries=self._tries, note=note
        )

        async def bring(file: RemoteFile) -> None:
            done[file.path] = await transfer.fetch(file)
            self._progress.files += 1

        reporting = asyncio.create_task(self._progress.run(), name="initialize-progress")
        try:
            # The largest first: they would be the last ones alone.
            missing.sort(key=lambda file: file.size, reverse=True)
            await self._at_once(bring, missing)
        finally:
            reporting.cancel()
        for name in sorted(ours.keys() - done.keys()):
            await self._drop(folder, ours[name])
        folder.forget_parts(())
        write_manifest(
            folder,
            Manifest(
                version=VERSION,
                source=self._provider.source,
                revision=plan.revision,
                allow=self._allow,
                ignore=self._settings.ignore,
                files=tuple(done[file.path] for file in plan.files),
                in_place=in_place,
            ),
        )
        self._progress.report()
        self._log(self._progress.line())
        self._log(f"{self._settings.target} is complete")

    async def _drop(self, folder: Folder, entry: ManifestEntry) -> None:
        """Delete a file of an earlier run that this source does not have, unless it is not what was fetched."""
        if not is_untouched(folder, entry) and not await _is_as_fetched(folder, entry):
            if folder.has(entry.path):
                self._log(f"warning: {entry.path} stays: an earlier run fetched it, and it was changed since")
            return
        folder.remove(entry.path)

    async def _present(
        self, folder: Folder, files: Sequence[RemoteFile], known: Mapping[str, ManifestEntry]
    ) -> dict[str, ManifestEntry]:
        """Files that are there and right: known from earlier runs, or by their hash."""
        done: dict[str, ManifestEntry] = {}

        async def look(file: RemoteFile) -> None:
            state = folder.state(file.path)
            if state is None or state.st_size != file.size:
                return
            entry = known.get(file.path)
            is_known = entry and file.identity and entry.identity == file.identity and is_untouched(folder, entry)
            if entry and is_known and (not self._settings.verifies or await _is_as_fetched(folder, entry)):
                done[file.path] = entry
            elif file.digest is not None:
                found = await hash_file(folder, file.path, file.digest.algorithm, file.size)
                if found == file.digest.hex:
                    done[file.path] = ManifestEntry(
                        path=file.path,
                        size=file.size,
                        hash=str(file.digest),
                        mtime=state.st_mtime_ns,
                        identity=file.identity,
                    )

        await self._at_once(look, files)
        return done

    async def _at_once(
        self, do: Callable[[RemoteFile], Coroutine[Any, Any, None]], files: Sequence[RemoteFile]
    ) -> None:
        """Work on all files, on so many at the same time as there are connections. Raises the first error."""
        rest = iter(files)

        async def work() -> None:
            for file in rest:
                await do(file)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._settings.connections, len(files))):
                    group.create_task(work())
        except* InitializeError as errors:
            first: BaseException = errors
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from None

    def _check_space(self, folder: Folder, needed: int) -> None:
        free = folder.free_bytes()
        if self._settings.checks_space and needed > free:
            raise InitializeError(
                "NoSpace",
                f"{amount(needed)} are needed and {amount(free)} are free in {self._settings.target} "
                f"({SPACE_CHECK}=off turns this check off)",
            )

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise failure(error, str(error.filename or self._settings.target), self._settings.target) from error


async def _verify(target: Path, log: Callable[[str], None]) -> int:
    """Hash all files of a complete folder; returns the exit code."""
    with Folder(target, create=False) as folder:
        manifest = read_manifest(folder)
        if manifest is None:
            raise InitializeError("Damaged", f"{target} is not marked as complete: start the initializer again")
        damaged = [entry.path for entry in manifest.files if not await _is_as_fetched(folder, entry, log)]
    if damaged:
        more = f" and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
        raise InitializeError(
            "Damaged",
            f"{', '.join(damaged[:_SHOWN])}{more} in {target} are not as they were fetched: delete them and start the "
            "initializer again",
        )
    log(f"{target} holds {len(manifest.files)} files of {manifest.source}, all with their hashes")
    return 0


async def _is_as_fetched(folder: Folder, entry: ManifestEntry, log: Callable[[str], None] | None = None) -> bool:
    """Whether a file has the size and the hash that it had at the end; `log` hears why it cannot be read."""
    try:
        state = folder.state(entry.path)
        algorithm, _, wanted = entry.hash.partition(":")
        right = state is not None and state.st_size == entry.size
        return right and await hash_file(folder, entry.path, algorithm, entry.size) == wanted
    except InitializeError as error:
        if log is not None:
            log(error.sentence)
        return False
