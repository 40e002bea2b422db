# SPDX-License-Identifier: Apache-2.0
"""What a job was run with, as names and values: arguments, environment, image, nodes, git commit. Pure.

Values that the job leaves to its runtime are those of the JobSet that it became, where that is given. Secrets are not
shown: neither what comes from a Secret, nor a value whose name looks like one.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from trainwright.api.messages import one_line, shortened
from trainwright.api.objects import Document, annotations_of, dig
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER

ANNOTATION_COMMIT = "trainwright.dev/git-commit"
"""Of a TrainJob: the commit that the folder of its script was at."""
ANNOTATION_DIRTY = "trainwright.dev/git-dirty"
"""`true` if something differed from that commit, `false` if not."""
ARGUMENT, ENVIRONMENT, CODE, JOB, PATCH = "argument", "environment", "code", "job", "patch"
GROUPS = (JOB, CODE, ARGUMENT, ENVIRONMENT, PATCH)
"""The order in which they are shown."""
MOST = 500
_PROGRAM = frozenset({"command", "function"})
"""What is run, beside what it is given."""
FEW, SHORT = 24, 60
"""Parameters of one job in a list, and characters of their values."""
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_NAMED = re.compile(r"\+{0,2}[A-Za-z_][\w.@/-]*")
_SENT = "read -r -d '' SCRIPT << EOM\n"
"""Begins the source of a function in a command."""
_CALL = re.compile(r"^(\w+)\((?:\*\*)?(\{.*\})?\)\Z", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\$`])")
"""As in a here-document of a shell."""
_DIGEST = 8
"""Characters that tell whether the source is the same."""
_OF_NODE = {"workdir": "folder", "python": "python", "output": "output", "runs": "", "local": ""}
"""What `trainwright local run` asks of the local node, in annotations such as `workdir.trainwright.dev/node`.

Empty: no parameter, such as the same for all jobs of a cluster.
"""
_ASKED = re.compile(rf"({'|'.join(_OF_NODE)})\.trainwright\.dev/")


class Parameter(msgspec.Struct, frozen=True):
    group: str
    """One of GROUPS."""
    name: str


def parameters_of(job: Document, jobset: Document | None = None) -> dict[Parameter, str]:
    """What the job was run with. `jobset`: that of the job, if it can be had."""
    found: dict[Parameter, str] = {}
    for group, name, value in _all(job, jobset):
        if len(found) >= MOST:
            break
        found[Parameter(group, one_line(name))] = one_line(value)
    return found


def options_of(job: Document) -> dict[str, str]:
    """The arguments and variables of the training alone, few and short ones, for a list of jobs."""
    trainer = dig(job, "spec.trainer") or {}
    words = [*(trainer.get("command") or ()), *(trainer.get("args") or ())]
    # What stands before the program is for the interpreter or the launcher.
    begin = next((n for n, word in enumerate(words, 1) if word.endswith(".py") or words[n - 2 : n - 1] == ["-m"]), 0)
    found = [*_given(words, begin), *_environment(trainer.get("env"), "")]
    named = [(name.lstrip("-+"), value) for _, name, value in found if name not in _PROGRAM]
    return {one_line(name): shortened(one_line(value), SHORT) for name, value in named[:FEW]}


def _all(job: Document, jobset: Document | None) -> Iterator[tuple[str, str, str]]:
    spec = job.get("spec") or {}
    trainer = spec.get("trainer") or {}
    yield from _shape(spec, trainer, *_built(jobset))
    yield from _code(annotations_of(job))
    words = [*(trainer.get("command") or ()), *(trainer.get("args") or ())]
    yield from _given(words)
    yield from _environment(trainer.get("env"), "")
    for step, initializer in (spec.get("initializer") or {}).items():
        if uri := dig(initializer, "storageUri"):
            yield JOB, step, within(uri)
        yield from _environment(dig(initializer, "env"), f"{step}: ")
    for patch in spec.get("runtimePatches") or ():
        yield from _patch(patch.get("trainingRuntimeSpec"), "")


def _shape(spec: Document, trainer: Document, image: str, nodes: int | None) -> Iterator[tuple[str, str, str]]:
    """`image` and `nodes` are those of the JobSet, for a job that leaves them to its runtime."""
    found = {
        "runtime": dig(spec, "runtimeRef.name"),
        "image": within(str(trainer.get("image") or image)),
        "nodes": trainer.get("numNodes") if trainer.get("numNodes") is not None else nodes,
        "processes per node": trainer.get("numProcPerNode"),
        "deadline in seconds": spec.get("activeDeadlineSeconds"),
    }
    yield from ((JOB, name, str(value)) for name, value in found.items() if value not in (None, ""))
    for kind, amounts in (trainer.get("resourcesPerNode") or {}).items():
        for name, amount in (amounts or {}).items():
            yield JOB, f"{name} {kind} per node", str(amount)


def _code(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    if ANNOTATION_COMMIT in annotations:
        yield CODE, "git commit", annotations[ANNOTATION_COMMIT]
    if ANNOTATION_DIRTY in annotations:
        yield CODE, "git changes", "uncommitted" if annotations[ANNOTATION_DIRTY] == "true" else "none"


def _built(jobset: Document | None) -> tuple[str, int | None]:
    """Image and number of nodes of the trainer, where the JobSet tells them."""
    for part in dig(jobset, "spec.replicatedJobs") or ():
        if (dig(part, "template.metadata.labels") or {}).get(LABEL_ANCESTOR_STEP) != STEP_TRAINER:
            continue
        containers = dig(part, "template.spec.template.spec.containers") or ()
        container: Document = next((one for one in containers if one.get("name") == NODE), next(iter(containers), {}))
        return container.get("image") or "", dig(part, "template.spec.parallelism")
    return "", None


def _given(words: Sequence[str], begin: int = 0) -> Iterator[tuple[str, str, str]]:
    """What the training is called with: a function, or a program whose words begin there."""
    return _function(words[-1]) if words and _SENT in words[-1] else _arguments(words[begin:])


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The options by name; what is none is the command.

    `--lr 0.1`, `--lr=0.1` and `lr=0.1` are the same to people, and so are their names here. A word behind an option is
    its value unless it is an option, too.
    """
    command: list[str] = []
    options: dict[str, list[str]] = {}
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        name, equals, value = word.partition("=")
        if equals and (_OPTION.fullmatch(name) or _NAMED.fullmatch(name)):
            options.setdefault(name, []).append(value)
        elif _OPTION.fullmatch(word):
            takes = place < len(words) and not _is_named(words[place])
            options.setdefault(word, []).append(words[place] if takes else "yes")
            place += takes
        else:
            command.append(word)
    if command:
        yield ARGUMENT, "command", within(" ".join(command))
    for name, values in options.items():
        yield ARGUMENT, name, shown(name, " ".join(values))


def _function(script: str) -> Iterator[tuple[str, str, str]]:
    """The parameters of a function that was sent in the form of the Kubeflow SDK."""
    program, _, end = script.partition(_SENT)[2].partition("\nEOM\n")
    call = _CALL.search(program.rstrip())
    name, given = (call[1], call[2]) if call is not None else ("", "")
    digest = hashlib.sha256(program[: call.start() if call else None].strip().encode()).hexdigest()[:_DIGEST]
    yield ARGUMENT, "function", f"{name} ({digest})".strip()
    yield ARGUMENT, "command", within(end.strip().rpartition("\n")[2].partition(' "')[0])
    values: Any = {}
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        values = ast.literal_eval(_ESCAPED.sub(r"\1", given)) if given else {}
    for key, value in values.items() if isinstance(values, dict) else ():
        yield ARGUMENT, str(key), shown(str(key), str(value))


def _is_named(word: str) -> bool:
    return word == "--" or _OPTION.fullmatch(word.partition("=")[0]) is not None


def _environment(variables: Any, before: str) -> Iterator[tuple[str, str, str]]:
    for one in variables or ():
        if one.get("name"):
            yield ENVIRONMENT, f"{before}{one['name']}", _value(one)


def _value(variable: Mapping[str, Any]) -> str:
    for kind, source in (variable.get("valueFrom") or {}).items():
        told = source or {}
        match kind:
            case "secretKeyRef":
                return f"(Secret {told.get('name', '')}, key {told.get('key', '')})"
            case "configMapKeyRef":
                return f"(ConfigMap {told.get('name', '')}, key {told.get('key', '')})"
            case "fieldRef":
                return f"({told.get('fieldPath', '')})"
            case _:
                return f"({kind})"
    return shown(str(variable["name"]), str(variable.get("value") or ""))


def _patch(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """The values of a patch by path; what has a name is found by it."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if asked := _ASKED.match(str(name)):
                if _OF_NODE[asked[1]]:
                    yield CODE, _OF_NODE[asked[1]], within(str(inner))
            else:
                yield from _patch(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            name = inner.get("name") if isinstance(inner, Mapping) else None
            here = f"{path}[{name or index}]"
            if path.endswith(".env") and name:
                yield PATCH, here, _value(inner)
            elif isinstance(inner, Mapping):
                yield from _patch({key: one for key, one in inner.items() if key != "name"}, here)
            else:
                yield from _patch(inner, here)
    elif value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
        yield PATCH, path, HIDDEN if looks_secret(path.rpartition(".")[2]) else within(text)


HIDDEN = "(hidden)"
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_LOOKS_SECRET = re.compile(
    # Anywhere, since words are written together, too: MYSECRET, dbpassword.
    r"secret|passw|passphrase|passcode|credential|bearer|api_?keys?(_|$)|(access|private|signing|encryption|ssh|master)_?key"
    # `token`, but not what counts or makes tokens: max_tokens, tokenizer, tokenization.
    r"|token(?!s|i[sz])|(auth|access|api|hf|hub|git(hub|lab)?|bot)_?tokens"
    # As words of their own.
    r"|(^|_)(o?auth|authorization|cookies?|jwt|dsn|webhook|sas|pin|keys?|pat)(_?\d+)?$|(^|_)(o?auth|cookie|jwt|dsn)_"
    r"|_pwd(_|$)|conn(ection)?_str(ing)?|connection_?uri|database_url"
)
_IN_TEXT = re.compile(
    r"(?<![\w.])(?P<name>[A-Za-z_][\w.-]*+)(?P<between>['\"]?\s*+[=:]\s*+|\s++)(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|,}]+)"
)
_MOST = 20_000
"""Characters of a text; what follows is not shown."""
_USER_INFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]+@")
_IN_QUERY = re.compile(r"(?P<before>[?&])(?P<name>[^=&\s]+)=(?P<value>[^&\s]+)")


def looks_secret(name: str) -> bool:
    """Whether the name of a variable, an option or a field says that its value is a secret."""
    words = "_".join(word for word in _WORDS.split(name) if word).lower()
    return _LOOKS_SECRET.search(words) is not None


def shown(name: str, value: str) -> str:
    """The value as it may be shown; what looks like a secret in it is hidden, and all of it if its name does."""
    return HIDDEN if looks_secret(name) else within(value)


def within(text: str) -> str:
    """A text without the secrets in it: of `NAME=value` and `--name value`, and what an address has before its host."""
    text = text if len(text) <= _MOST else f"{text[:_MOST]}…"
    text = _USER_INFO.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _IN_QUERY.sub(
        lambda found: f"{found['before']}{found['name']}={HIDDEN if looks_secret(found['name']) else found['value']}",
        text,
    )
    made, at = "", 0
    # Found one after the other, and not all at once: a word may be a value of the one before it, or the next name.
    while (found := _IN_TEXT.search(text, at)) is not None:
        is_option = found["between"].strip() == "" and text[: found.start("name")].endswith("-")
        if looks_secret(found["name"]) and (found["between"].strip() or is_option):
            made += text[at : found.start("value")] + HIDDEN
            at = found.end("value")
        else:
            made += text[at : found.end("name")]
            at = found.end("name")
    return made + text[at:]
