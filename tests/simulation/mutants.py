# SPDX-License-Identifier: Apache-2.0
"""Planted defects: each is a patch of the product, and the simulation must find it.

A mutant runs in a process of its own, in which the patched modules are compiled from their patched text; no file
changes. What follows the name is for tests.simulation; `make soak SOAK_ARGS=mutants` runs all.

python -m tests.simulation.mutants two-ends --seeds 0-249 --until-found
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
_RUNTIME, _TRAINER = "controller/runtime/", "controller/trainer/"


@dataclass(frozen=True, slots=True)
class Edit:
    """A text of a file that occurs there once, and what takes its place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect."""

    name: str
    says: str
    edits: Sequence[Edit]
    kind: str = ""
    """Which worlds are to find it: `recovering`, or `queued`; empty: any."""

    def patched(self) -> Mapping[str, str]:
        """The patched texts by file. Raises ValueError for an edit that does not fit its file any more."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file) or (ROOT / edit.file).read_text(encoding="utf-8")
            if (count := text.count(edit.old)) != 1:
                raise ValueError(f"mutant {self.name}: its text is {count} times in {edit.file}, not once: {edit.old}")
            texts[edit.file] = text.replace(edit.old, edit.new)
        return texts


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "made-and-forgotten",
        "an object that a build made, and had not seen, counts as current while it is absent",
        [
            Edit(_TRAINER + "build/objects.py", "            created[reference] = obj\n", "            continue\n"),
            Edit(
                _TRAINER + "build/objects.py",
                "        elif seen is None or _mark(seen) != _mark(obj):\n",
                "        elif seen is not None and _mark(seen) != _mark(obj):\n",
            ),
        ],
    ),
    Mutant(
        "foreign-stays",
        "an object of somebody else is not replaced when it is deleted",
        [
            Edit(
                _TRAINER + "build/kinds.py",
                "builder.watches(kind, _once_synced(_namesake(cache)), predicates=[_ends_foreign])",
                "pass",
            ),
            Edit(
                _TRAINER + "controller.py",
                "foreign_in=RETRY_SECONDS if memory.build.foreign and _is_built(job) else 0.0",
                "foreign_in=0.0",
            ),
        ],
    ),
    Mutant(
        "snapshot-stays-away",
        "a deleted snapshot is due after a second, and nothing looks at the job then",
        [Edit(_TRAINER + "controller.py", "            snapshot_in=snapshot_in,\n", "")],
    ),
    Mutant(
        "snapshot-stands-for-ever",
        "what is remembered of a deleted snapshot is taken for the snapshot, and the objects are not looked at",
        [
            Edit(
                _TRAINER + "build/objects.py",
                "        return memory.snapshot_in(now) > 0\n",
                "        return memory.made_once\n",
            )
        ],
    ),
    Mutant(
        "obstacles-outlive",
        "Blocked and Waiting stay on a job that is over",
        [Edit(_TRAINER + "job/status.py", "    if any(map(is_end, conditions)):\n", "    if not conditions:\n")],
    ),
    Mutant(
        "explained-for-ever",
        "what a manager with the gate Explain wrote stays when one without the gate follows",
        [
            Edit(
                _TRAINER + "job/findings.py",
                "return (*known, Finding(self._absent, None)) if self._absent else known",
                "return known",
            )
        ],
    ),
    Mutant(
        "two-ends",
        "a job that has failed by its deadline completes",
        [
            Edit(
                _TRAINER + "job/status.py",
                "found = _ended_once(job, status.conditions or [])",
                "found = status.conditions or []",
            )
        ],
    ),
    Mutant(
        "late-deadline",
        "a deadline that passes in a jump of the clock is noticed after an hour",
        [Edit(_TRAINER + "job/decision.py", "LONGEST_WAIT_SECONDS = 60.0", "LONGEST_WAIT_SECONDS = 3600.0")],
    ),
    Mutant(
        "made-for-deleted-owner",
        "objects are made again for a job that was deleted a moment ago",
        [
            Edit(
                _TRAINER + "build/objects.py",
                "if not await is_there(self.client, job):",
                "if not job.name:",
            )
        ],
    ),
    Mutant(
        "half-made-for-deleted-owner",
        "objects of a build that fails half way are made again for a job that was deleted a moment ago",
        [
            Edit(
                _TRAINER + "build/objects.py",
                "        if any(found[reference] is None for reference in found.keys() & memory.there):\n",
                "        if memory.made_once and not all(found.values()):\n",
            )
        ],
    ),
    Mutant(
        "record-for-deleted-owner",
        "the record of failures is made again for a job that was deleted a moment ago",
        [
            Edit(
                _TRAINER + "failures/recorder.py",
                "if self._lacks_record(job) and not await is_there(self._client, job):",
                "if self._lacks_record(job) and not job.name:",
            )
        ],
        kind="recovering",
    ),
    Mutant(
        "unwritten-record",
        "a record of failures that a lost request kept from the cluster is not written again",
        [
            Edit(
                _TRAINER + "failures/recorder.py",
                "recorded.unwritten = recorded.unwritten or entries != known or is_deleted",
                "recorded.unwritten = entries != known",
            )
        ],
    ),
    Mutant(
        "unwatched-kind",
        "changes of ConfigMaps that belong to a job start no reconcile",
        [
            Edit(
                _TRAINER + "build/kinds.py",
                "builder.owns(kind, transforms=transforms, wait=",
                "builder.owns(kind, transforms=transforms, "
                'predicates=[lambda _, kind=watch.resource.kind: kind != "ConfigMap"], wait=',
            )
        ],
    ),
    Mutant(
        "versionless-status",
        "a status is written without the version that it was computed from",
        [
            Edit(
                _TRAINER + "job/status.py",
                "    if is_urgent(patch) or all(value is None for value in changed.values()):\n",
                "    if not changed:\n",
            )
        ],
    ),
    Mutant(
        "open-fence",
        "a replica writes whose lease has expired",
        [
            Edit(
                _RUNTIME + "leaderelection/fence.py",
                "        if self.open:\n",
                "        if self.open or self._renewed != _NEVER:\n",
            )
        ],
    ),
    Mutant(
        "backoff-grows",
        "the back-off of a key is not reset after a success",
        [Edit(_RUNTIME + "workqueue/queue.py", "        self.limiter.forget(key)\n", "        pass\n")],
    ),
    Mutant(
        "echo-by-name",
        "each event that came during an own write of an object is taken for its echo",
        [
            Edit(
                _RUNTIME + "cache/echo.py",
                "            if version and seen == version:\n",
                "            if version:\n",
            )
        ],
    ),
    Mutant(
        "list-keeps-deleted",
        "a list after a gap does not tell what was deleted meanwhile",
        [
            Edit(
                _RUNTIME + "cache/store.py",
                "                yield Event(EventType.DELETED, key, old, None, last_known=True)\n",
                "                pass\n",
            )
        ],
    ),
    Mutant(
        "deadline-from-creation",
        "the deadline of a job that was resumed counts from its creation",
        [
            Edit(
                _TRAINER + "job/decision.py",
                '    if resumed is not None and resumed.status == "False":\n',
                "    if resumed is None:\n        return None\n    if not resumed.status:\n",
            )
        ],
    ),
    Mutant(
        "finalizer-stays",
        "a finalizer of earlier versions is not removed",
        [
            Edit(
                _TRAINER + "assembly/finalizers.py",
                "    if runtime is not None and FINALIZER_RESOURCE_IN_USE in finalizers_of(runtime):\n",
                "    if runtime is not None and not finalizers_of(runtime):\n",
            )
        ],
    ),
    Mutant(
        "memory-stays",
        "what is remembered of a job is kept after its deletion",
        [
            Edit(
                _TRAINER + "job/records.py",
                "            del self._records[record.key]\n            for",
                "            for",
            )
        ],
    ),
    Mutant(
        "adopts",
        "an object without a controller is taken over unasked",
        [
            Edit(
                _RUNTIME + "apply/applier.py",
                "    if controller is None and adopt:\n",
                "    if controller is None:\n",
            )
        ],
    ),
    Mutant(
        "adopts-unseen",
        "the first apply takes over an object of somebody else that the cache has not shown, if no field of it differs",
        [
            Edit(
                _RUNTIME + "apply/applier.py",
                "must_be_new=bool(owner_uid))",
                "must_be_new=False)",
            )
        ],
    ),
    Mutant(
        "refused-for-ever",
        "after one refusal, no other document of that object is applied either",
        [
            # Not by leaving the digest out: what has a fallback is refused anyway, so that changes requests alone.
            Edit(
                _TRAINER + "build/objects.py",
                "        if component.fallback is not None and memory.was_refused(component):\n",
                "        found = self._facts.find(component.reference)\n"
                "        if component.reference in memory.refused and found is not None:\n"
                "            return found\n"
                "        if component.fallback is not None and memory.was_refused(component):\n",
            )
        ],
    ),
    Mutant(
        "watch-after-gap",
        "a watch that is answered 410 is opened again from the same version",
        [
            Edit(
                _RUNTIME + "cache/reflector.py",
                "            except (TooManyRequests, Unreachable) as error:\n",
                "            except (TooManyRequests, Unreachable, Gone) as error:\n",
            )
        ],
    ),
    Mutant(
        "end-in-two-parts",
        "after a crash between the mark and the deletion, the JobSet of a job beyond its deadline stays",
        [
            Edit(
                _TRAINER + "job/decision.py",
                "    exceeded = is_exceeded(job) or (left is not None and left <= 0)\n",
                "    exceeded = left is not None and left <= 0\n",
            )
        ],
    ),
    Mutant(
        "two-workers",
        "two workers take the same key",
        [
            Edit(
                _RUNTIME + "workqueue/queue.py",
                "        home = self._parked if key in self._processing else self._entries\n",
                "        home = self._entries\n",
            ),
            Edit(
                _RUNTIME + "workqueue/queue.py",
                "        item = self._processing.pop(key)\n        if self._observer:\n",
                "        item = self._processing.pop(key, None)\n        if self._observer and item:\n",
            ),
        ],
    ),
    Mutant(
        "hang-of-before",
        "an attempt is charged for the hang of the one before it",
        [
            Edit(
                _TRAINER + "job/stall.py",
                "        begins, self.attempt = not running or attempt != self.attempt, attempt\n",
                "        begins, self.attempt = not running, attempt\n",
            ),
            Edit(
                _TRAINER + "recovery/attempts.py",
                "    if still.attempt != (uid_of(glance.jobset), glance.current):\n",
                "    if not still.stall.message:\n",
            ),
        ],
        kind="recovering",
    ),
    Mutant(
        "long-pause-in-queue",
        "a job in a queue pauses between attempts for longer than Kueue waits for its pods",
        [
            Edit(
                _TRAINER + "recovery/verdict.py",
                "min(pause, LONGEST_PAUSE_IN_QUEUE) if ended.in_queue else pause",
                "pause",
            )
        ],
        kind="queued",
    ),
    Mutant(
        "partial-gang",
        "a suspended JobSet of which ranks had succeeded is resumed, not replaced",
        [
            Edit(
                _TRAINER + "recovery/attempts.py",
                "    return bool(is_stopped) and _lacks_ranks(known, glance) and not makes_claims(glance.jobset)\n",
                "    return False\n",
            )
        ],
        kind="queued",
    ),
    Mutant(
        "success-taken-back",
        "a success that Kueue was told is taken back when JobSet runs the step again",
        [
            Edit(
                _TRAINER + "job/decision.py",
                "        with_kept_success(job, observed),\n",
                "        observed,\n",
            )
        ],
        kind="queued",
    ),
)


def installed(name: str) -> Mutant:
    """Patch the product in this process, which must not have imported the patched modules yet.

    Raises ValueError for a name that no mutant has, and for an edit that does not fit.
    """
    mutant = next((one for one in MUTANTS if one.name == name), None)
    if mutant is None:
        raise ValueError(f"no such mutant: {name}; known are {', '.join(one.name for one in MUTANTS)}")
    texts = {_module(file): text for file, text in mutant.patched().items()}
    if early := sorted(texts.keys() & sys.modules.keys()):
        raise ValueError(f"imported before it was patched: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder(texts))
    return mutant


def _module(file: str) -> str:
    return "trainwright." + file.removesuffix(".py").replace("/", ".")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds patched modules where they are, and gives them a loader that reads their patched text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Only of modules that are patched."""
        if fullname not in self._texts:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._texts[fullname])
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a text in place of the file's."""

    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Without the bytecode of the file, and without leaving any."""
        code: CodeType = compile(self._text, self.get_filename(fullname), "exec", dont_inherit=True)
        return code


def main() -> int:
    """Patch the product, and live worlds as `python -m tests.simulation` does."""
    if len(sys.argv) < 2:
        print(*(f"{one.name:24} {one.says}" for one in MUTANTS), sep="\n")
        return 0
    try:
        mutant = installed(sys.argv[1])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{mutant.name}: {mutant.says}", flush=True)
    from tests.simulation.__main__ import main as simulated  # noqa: PLC0415 - it imports what is patched

    return simulated([*sys.argv[2:], *((f"--{mutant.kind}",) if mutant.kind else ())])


if __name__ == "__main__":
    raise SystemExit(main())
