# SPDX-License-Identifier: Apache-2.0
"""Planted defects: each is a change of the product, and the simulation must find it.

A change is named by the function that it is in, wherever that is, and by what becomes of an expression or of statements
there. So it stays when code moves or is laid out in another way. A mutant runs in a process of its own, in which the
changed modules are compiled from their changed syntax trees; no file changes. What follows the name is for
tests.simulation; `make soak SOAK_ARGS=mutants` runs all.

python -m tests.simulation.mutants two-ends --seeds 0-249 --until-found
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
FOLDERS = ("controller/runtime", "controller/trainer")
"""What is changed, and where functions are looked for."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of code that occurs once in the functions of a name."""

    function: str
    """`Class.method` or the name of a function."""
    old: str
    """An expression, or statements that follow each other; `_` is any expression. Empty: the beginning of the function.
    """
    new: str
    """What takes its place. Nothing takes the place of statements if it is empty."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect."""

    name: str
    says: str
    edits: Sequence[Edit]
    kind: str = ""
    """Which worlds are to find it: `recovering`, or `queued`; empty: any."""

    def patched(self) -> Mapping[str, ast.Module]:
        """The changed modules by file. Raises ValueError for an edit that does not fit the code any more."""
        trees: dict[str, ast.Module] = {}
        for edit in self.edits:
            places = []
            for file in _files_with(edit.function):
                tree = trees.get(file) or ast.parse((ROOT / file).read_text(encoding="utf-8"))
                replacing = _Replacing(edit)
                replacing.visit(tree)
                places += [(file, tree)] * replacing.number
            if len(places) != 1:
                where = f"{edit.function} has {edit.old or 'its beginning'!r}"
                raise ValueError(f"mutant {self.name}: {where} {len(places)} times, not once")
            trees.update(places)
        return {file: ast.fix_missing_locations(tree) for file, tree in trees.items()}


def _files_with(function: str) -> Iterator[str]:
    name = f"def {function.rpartition('.')[2]}("
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if name in path.read_text(encoding="utf-8"):
                yield str(path.relative_to(ROOT))


class _Replacing(ast.NodeTransformer):
    """Makes an edit wherever it fits, and counts."""

    def __init__(self, edit: Edit) -> None:
        self.number = 0
        self._function, self._old, self._new = edit.function, ast.parse(edit.old).body, ast.parse(edit.new).body
        self._path: tuple[str, ...] = ()

    def visit(self, node: ast.AST) -> ast.AST:
        outer = self._path
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._path = (*outer, node.name)
        is_inside = ".".join(self._path) == self._function
        if is_inside and len(self._old) == 1 and isinstance(old := self._old[0], ast.Expr) and _same(node, old.value):
            self.number += 1
            [new] = self._new
            assert isinstance(new, ast.Expr)
            return ast.copy_location(new.value, node)
        self.generic_visit(node)
        if is_inside:
            for name in ("body", "orelse", "finalbody"):
                if isinstance(block := getattr(node, name, None), list):
                    self._replace_in(block, is_function=self._path != outer)
        self._path = outer
        return node

    def _replace_in(self, block: list[ast.stmt], *, is_function: bool) -> None:
        size = len(self._old)
        for at in range(len(block) - size + 1):
            fits = all(map(_same, block[at : at + size], self._old)) if size else is_function and at == 0
            if fits:
                self.number += 1
                block[at : at + size] = self._new or [ast.Pass()]
                return


def _same(one: object, old: object) -> bool:
    """Whether the code is as the edit says, wherever it stands."""
    if isinstance(old, ast.Name) and old.id == "_":
        return isinstance(one, ast.expr)
    if isinstance(old, list):
        return isinstance(one, list) and len(one) == len(old) and all(map(_same, one, old))
    if not isinstance(old, ast.AST):
        return one == old
    return type(one) is type(old) and all(_same(getattr(one, name), getattr(old, name)) for name in old._fields)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "made-and-forgotten",
        "an object that a build made, and had not seen, counts as current while it is absent",
        [
            Edit("_left_behind", "created[reference] = obj", "continue"),
            Edit(
                "_left_behind",
                "seen is None or _mark(seen) != _mark(obj)",
                "seen is not None and _mark(seen) != _mark(obj)",
            ),
        ],
    ),
    Mutant(
        "foreign-stays",
        "an object of somebody else is not replaced when it is deleted",
        [
            Edit(
                "WatchedKinds.declare",
                "builder.watches(kind, _once_synced(_namesake(cache)), predicates=[_ends_foreign])",
                "None",
            ),
            Edit("decide", "_.foreign_in", "0.0"),
        ],
    ),
    Mutant(
        "snapshot-stays-away",
        "a deleted snapshot is due after a second, and nothing looks at the job then",
        [Edit("decide", "_.snapshot_in", "0.0")],
    ),
    Mutant(
        "snapshot-stands-for-ever",
        "what is remembered of a deleted snapshot is taken for the snapshot, and the objects are not looked at",
        [Edit("JobObjects._stays_away", "memory.snapshot_in(now) > 0", "memory.made_once")],
    ),
    Mutant(
        "obstacles-outlive",
        "Blocked and Waiting stay on a job that is over",
        [Edit("wanted_status", "any(map(is_end, conditions))", "not conditions")],
    ),
    Mutant(
        "explained-for-ever",
        "what a manager with the gate Explain wrote stays when one without the gate follows",
        [Edit("JobFindings.of", "_ if self._absent else known", "known")],
    ),
    Mutant(
        "two-ends",
        "a job that has failed by its deadline completes",
        [Edit("wanted_status", "_ended_once(job, status.conditions or [])", "status.conditions or []")],
    ),
    Mutant(
        "late-deadline",
        "a deadline that passes in a jump of the clock is noticed after an hour",
        [Edit("decide", "LONGEST_WAIT_SECONDS", "3600.0")],
    ),
    Mutant(
        "made-for-deleted-owner",
        "objects are made again for a job that was deleted a moment ago",
        [Edit("JobObjects._check_exists", "not await is_there(self.client, job)", "not job.name")],
    ),
    Mutant(
        "half-made-for-deleted-owner",
        "objects of a build that fails half way are made again for a job that was deleted a moment ago",
        [
            Edit(
                "JobObjects.make",
                "any(found[reference] is None for reference in found.keys() & memory.there)",
                "memory.made_once and not all(found.values())",
            )
        ],
    ),
    Mutant(
        "record-for-deleted-owner",
        "the record of failures is made again for a job that was deleted a moment ago",
        [Edit("FailureRecorder._write", "not await is_there(self._client, job)", "not job.name")],
        kind="recovering",
    ),
    Mutant(
        "unwritten-record",
        "a record of failures that a lost request kept from the cluster is not written again",
        [
            Edit(
                "FailureRecorder.reconcile",
                "recorded.unwritten or entries != known or is_deleted",
                "entries != known",
            )
        ],
    ),
    Mutant(
        "unwatched-kind",
        "changes of ConfigMaps that belong to a job start no reconcile",
        [
            Edit(
                "WatchedKinds.declare",
                "builder.owns(kind, transforms=transforms, wait=wait)",
                "builder.owns(kind, transforms=transforms, wait=wait, "
                "predicates=[lambda _, kind=watch.resource.kind: kind != 'ConfigMap'])",
            )
        ],
    ),
    Mutant(
        "versionless-status",
        "a status is written without the version that it was computed from",
        [
            Edit(
                "status_patch",
                "is_urgent(patch) or all(value is None for value in changed.values())",
                "not changed",
            )
        ],
    ),
    Mutant(
        "open-fence",
        "a replica writes whose lease has expired",
        [Edit("Fence.check", "self.open", "self.open or self._renewed != _NEVER")],
    ),
    Mutant(
        "backoff-grows",
        "the back-off of a key is not reset after a success",
        [Edit("WorkQueue.forget", "self.limiter.forget(key)", "None")],
    ),
    Mutant(
        "echo-by-name",
        "each event that came during an own write of an object is taken for its echo",
        [Edit("EchoGuard.land", "version and seen == version", "version")],
    ),
    Mutant(
        "list-keeps-deleted",
        "a list after a gap does not tell what was deleted meanwhile",
        [Edit("InformerStore._changes", "yield Event(EventType.DELETED, key, old, None, last_known=True)", "None")],
    ),
    Mutant(
        "deadline-from-creation",
        "the deadline of a job that was resumed counts from its creation",
        [Edit("_started", "resumed is not None and resumed.status == 'False'", "False")],
    ),
    Mutant(
        "finalizer-stays",
        "a finalizer of earlier versions is not removed",
        [
            Edit(
                "_reconcile",
                "FINALIZER_RESOURCE_IN_USE in finalizers_of(runtime)",
                "not finalizers_of(runtime)",
            )
        ],
    ),
    Mutant(
        "memory-stays",
        "what is remembered of a job is kept after its deletion",
        [Edit("JobRecords.gone", "del self._records[record.key]", "")],
    ),
    Mutant(
        "adopts",
        "an object without a controller is taken over unasked",
        [Edit("refuse_foreign", "controller is None and adopt", "controller is None")],
    ),
    Mutant(
        "adopts-unseen",
        "the first apply takes over an object of somebody else that the cache has not shown, if no field of it differs",
        [Edit("Applier._create", "bool(owner_uid)", "False")],
    ),
    Mutant(
        "refused-for-ever",
        "after one refusal, no other document of that object is applied either",
        [
            # Not by leaving the digest out: what has a fallback is refused anyway, so that changes requests alone.
            Edit(
                "JobObjects._apply",
                "",
                "found = self.facts.find(component.reference)\n"
                "if component.reference in memory.refused and found is not None:\n"
                "    return found",
            )
        ],
    ),
    Mutant(
        "watch-after-gap",
        "a watch that is answered 410 is opened again from the same version",
        [
            Edit(
                "Reflector._fill_and_follow",
                "(TooManyRequests, Unreachable)",
                "(TooManyRequests, Unreachable, Gone)",
            )
        ],
    ),
    Mutant(
        "end-in-two-parts",
        "after a crash between the mark and the deletion, the JobSet of a job beyond its deadline stays",
        [
            Edit(
                "decide",
                "is_exceeded(job) or (left is not None and left <= 0)",
                "left is not None and left <= 0",
            )
        ],
    ),
    Mutant(
        "two-workers",
        "two workers take the same key",
        [
            Edit("WorkQueue._put", "self._parked if key in self._processing else self._entries", "self._entries"),
            Edit("WorkQueue.done", "self._processing.pop(key)", "self._processing.pop(key, None)"),
            Edit(
                "WorkQueue.done",
                "if self._observer:\n    self._observer.worked(self._now() - item.started)",
                "if self._observer and item:\n    self._observer.worked(self._now() - item.started)",
            ),
        ],
    ),
    Mutant(
        "hang-of-before",
        "an attempt is charged for the hang of the one before it",
        [
            Edit("StallClock.see", "not running or attempt != self.attempt", "not running"),
            Edit("stalled", "still.attempt != (uid_of(glance.jobset), glance.current)", "not still.stall.message"),
        ],
        kind="recovering",
    ),
    Mutant(
        "long-pause-in-queue",
        "a job in a queue pauses between attempts for longer than Kueue waits for its pods",
        [Edit("judge", "min(pause, LONGEST_PAUSE_IN_QUEUE) if ended.in_queue else pause", "pause")],
        kind="queued",
    ),
    Mutant(
        "partial-gang",
        "a suspended JobSet of which ranks had succeeded is resumed, not replaced",
        [
            Edit(
                "is_partial",
                "bool(is_stopped) and _ and not makes_claims(_)",
                "False",
            )
        ],
        kind="queued",
    ),
    Mutant(
        "success-taken-back",
        "a success that Kueue was told is taken back when JobSet runs the step again",
        [Edit("decide", "with_kept_success(job, observed)", "observed")],
        kind="queued",
    ),
)


def installed(name: str) -> Mutant:
    """Change the product in this process, which must not have imported the changed modules yet.

    Raises ValueError for a name that no mutant has, and for an edit that does not fit.
    """
    mutant = next((one for one in MUTANTS if one.name == name), None)
    if mutant is None:
        raise ValueError(f"no such mutant: {name}; known are {', '.join(one.name for one in MUTANTS)}")
    trees = {_module(file): tree for file, tree in mutant.patched().items()}
    if early := sorted(trees.keys() & sys.modules.keys()):
        raise ValueError(f"imported before it was changed: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder(trees))
    return mutant


def _module(file: str) -> str:
    return "trainwright." + file.removesuffix(".py").replace("/", ".")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds changed modules where they are, and gives them a loader that compiles their changed trees."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees = trees

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Only of modules that are changed."""
        if fullname not in self._trees:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._trees[fullname])
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a tree in place of the file's text."""

    def __init__(self, fullname: str, path: str, tree: ast.Module) -> None:
        super().__init__(fullname, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        """Without the bytecode of the file, and without leaving any."""
        code: CodeType = compile(self._tree, self.get_filename(fullname), "exec", dont_inherit=True)
        return code


def main() -> int:
    """Change the product, and live worlds as `python -m tests.simulation` does."""
    if len(sys.argv) < 2:
        print(*(f"{one.name:24} {one.says}" for one in MUTANTS), sep="\n")
        return 0
    try:
        mutant = installed(sys.argv[1])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{mutant.name}: {mutant.says}", flush=True)
    from tests.simulation.__main__ import main as simulated  # noqa: PLC0415 - it imports what is changed

    return simulated([*sys.argv[2:], *((f"--{mutant.kind}",) if mutant.kind else ())])


if __name__ == "__main__":
    raise SystemExit(main())
