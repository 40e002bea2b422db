# SPDX-License-Identifier: Apache-2.0
"""Names on the pages are names of things that there are, and what there is has its place on the pages."""

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from types import ModuleType

from tests.pages import pages
from tests.repository import ROOT
from trainwright.api.trainer.v1alpha1 import constants
from trainwright.controller.cli.local.status import LIMITS
from trainwright.controller.cli.main import build_parser
from trainwright.controller.trainer.assembly.features import GATES
from trainwright.controller.trainer.job import events, status
from trainwright.controller.trainer.job.obstacles import Reason
from trainwright.controller.trainer.why.catalogue import CATALOGUE
from trainwright.controller.trainer.why.site.examination import CHECKS

_FILE = r"`((?:api|codegen|config|controller|docs|hack|plugins|tests)/[\w./-]+)`"
_OPTIONS_ELSEWHERE = {"--follow", "--for", "--timeout", "--lr", "--clusterrole", "--user", "--as", "--token"}
"""Of kubectl and of a script."""
_NOT_SET_BY_USERS = {"attempt-base", "avoided-nodes", "failures", "progress-history", "registered-by-url"}
"""Annotations that the manager and local nodes write."""
_WORDS_OF_OTHERS = (
    "unknown field",
    "Insufficient cpu",
    "ModuleNotFoundError",
    "Address already in use",
    "denied the request: spec.RuntimeRef: Invalid value",
    "failed calling webhook",
    "no endpoints available",
    "connection refused",
    "context deadline exceeded",
    "x509: certificate signed by unknown authority",
    'is forbidden: User "system:serviceaccount:kubeflow-system',
)
"""Of the API server, of the scheduler, of JobSet, and of the standard libraries of Go and Python."""


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def names() -> Iterator[str]:
    """What is named and is not there, and what is there and is not named."""
    for rule in (_targets_and_files, _commands, _local_cluster, _tables, _messages, _runtime_classes):
        yield from rule()


def _differences(page: str, what: str, told: Collection[str], there: Collection[str]) -> Iterator[str]:
    for one in sorted({*told} - {*there}):
        yield f"{page}: there is no {what} {one}"
    for one in sorted({*there} - {*told}):
        yield f"{page}: {what} {one} is missing"


def _unknown(pattern: str, what: str, known: Callable[[str], bool], but: Collection[str] = ()) -> Iterator[str]:
    for page in pages():
        name = str(page.relative_to(ROOT))
        if name not in but:
            for found in re.findall(pattern, text_of(name)):
                if not known(found):
                    yield f"{name}: there is no {what} {found}"


def _targets_and_files() -> Iterator[str]:
    targets = set(re.findall(r"(?m)^([a-z-]+):", text_of("Makefile")))
    yield from _unknown(r"(?m)(?:`|^)make ([a-z-]+)", "target of make", targets.__contains__)
    # A decision names the files of its day.
    yield from _unknown(_FILE, "file", lambda name: (ROOT / name).exists(), but=["docs/decisions.md"])


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its sub-commands
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _commands() -> Iterator[str]:
    known = _commands_of(build_parser())
    yield from _unknown(r"(?m)(?:`|^)trainwright ([a-z]+)", "command trainwright", known.__contains__)
    local = _commands_of(known["local"])
    yield from _unknown(r"(?m)(?:`|^)trainwright local ([a-z]+)", "command trainwright local", local.__contains__)


def _local_cluster() -> Iterator[str]:
    page, known = "docs/users/local.md", _commands_of(_commands_of(build_parser())["local"])
    text, run = text_of(page), known["run"]
    options = {option for parser in known.values() for one in parser._actions for option in one.option_strings}  # noqa: SLF001
    for option in sorted(set(re.findall(r"(?<=[`\s])--[a-z][a-z-]+", text)) - options - _OPTIONS_ELSEWHERE):
        yield f"{page}: there is no option {option}"
    for one in run._actions:  # noqa: SLF001
        spelt = [name for name in one.option_strings if re.search(rf"{name}(?![\w-])", text)]
        if one.option_strings and one.dest != "help" and not spelt:
            yield f"{page}: option {one.option_strings[0]} of run is missing"
    section = text.partition("## What it is not\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (.+) \| (.+) \|$", re.sub(r"\[([^]]+)\]\(\S+?\)", r"\1", section).replace("`", ""))
    if rows[2:] != list(LIMITS.items()):
        yield f"{page}: the table of What it is not differs from LIMITS, which `status --limits` prints"
    table = re.findall(r"(?m)^\| (\d+(?:, \d+)*) \|", text)
    told = {code for row in table for code in row.split(", ")}
    yield from _differences(page, "exit code of run", told, re.findall(r"\b\d+\b", run.description or ""))


def _values(prefix: str, *modules: ModuleType) -> set[str]:
    found = [vars(module).items() for module in modules]
    return {value for items in found for name, value in items if name.startswith(prefix) and isinstance(value, str)}


def _listed(section: str) -> set[str]:
    """The names in the first column of a table of the reference."""
    text = text_of("docs/reference/README.md").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return {name for cell in re.findall(r"(?m)^\| (`[^|]+) \|", text) for name in re.findall(r"`([\w-]+)`", cell)}


def _tables() -> Iterator[str]:
    page = "docs/users/causes.md"
    yield from _differences(page, "reason", re.findall(r"(?m)^\| `(\w+)` \|", text_of(page)), CATALOGUE)
    page = "docs/admins/doctor.md"
    rows = re.findall(r"(?m)^\| (.+?) \|", text_of(page).partition("| check | what it finds |\n| --- | --- |\n")[2])
    yield from _differences(page, "check", [title for row in rows for title in row.split("; ")], CHECKS)
    page = "docs/admins/configuration.md"
    gates = {f"{one.name}: {one.stage.lower()}, {'on' if one.default else 'off'}" for one in GATES.values()}
    told = {": ".join(one) for one in re.findall(r"(?m)^\| `(\w+)` \| (\w+, (?:on|off)) \|", text_of(page))}
    yield from _differences(page, "feature gate", told, gates)
    page = "docs/reference/README.md"
    conditions = _values("CONDITION_", constants, status) | {*status.EXPLAINING}
    yield from _differences(page, "condition", _listed("Conditions of a TrainJob"), conditions)
    yield from _differences(page, "event", _listed("Events on a TrainJob"), _values("EVENT_", constants, events))
    folders = ("api/trainer", "controller/trainer", "plugins")
    sources = "".join(path.read_text(encoding="utf-8") for one in folders for path in (ROOT / one).rglob("*.py"))
    used = set(re.findall(r"trainwright\.dev/([a-z][a-z-]+)", sources)) - _NOT_SET_BY_USERS
    yield from _differences(page, "annotation", _listed("Annotations"), used)


def _messages() -> Iterator[str]:
    """The messages that docs/troubleshooting.md explains are those that the code has."""
    page = "docs/troubleshooting.md"
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.*?) \|", text_of(page))
    yield from _differences(page, "reason", [name for name, _ in rows], [one.value for one in Reason])
    entries = re.findall(r"\*\*(`.*?)\*\*", text_of(page), re.DOTALL)
    told = [message for text in [*(cell for _, cell in rows), *entries] for message in re.findall(r"`([^`]+)`", text)]
    said = "\n".join(_said())
    for text in told:
        for part in re.split(r"…|<[\w<>-]+>", " ".join(text.split())):
            fragment = part.strip(' "`:')
            if len(fragment) > 3 and fragment not in said and not fragment.startswith(_WORDS_OF_OTHERS):
                yield f"{page}: nothing says {fragment!r}"


def _said() -> Iterable[str]:
    """The code without its comments, and every message of a rule in the schemas; what is filled in is a blank."""
    for folder in ("controller", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            code = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            whole = re.sub(r"""(["'])\s*\n\s*[rf]?\1""", "", code)
            yield re.sub(r"\{[^{}\n]*\}", "\0", whole)
    yield from (path.read_text(encoding="utf-8") for path in (ROOT / "config" / "crd").glob("trainer*.yaml"))


def _runtime_classes() -> Iterator[str]:
    """Those that stand alone as code on the pages about our names; other pages compare them with those of others."""
    folders = [ROOT / "api", ROOT / "controller" / "runtime", ROOT / "controller" / "local" / "testing"]
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")]
    known = {name for text in sources for name in re.findall(r"(?m)^ *(?:class +|)([A-Z]\w+)(?=[(:]| [=:])", text)}
    for page in ("README", "guarantees", "production"):
        for name in sorted(set(re.findall(r"`([A-Z][a-z]\w+)`", text_of(f"docs/runtime/{page}.md"))) - known):
            yield f"docs/runtime/{page}.md: there is no class {name}"
