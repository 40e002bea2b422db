# SPDX-License-Identifier: Apache-2.0
"""The messages that docs/troubleshooting.md explains are those that the code has."""

import re

from tests.repository import ROOT
from trainwright.controller.trainer.job.obstacles import Reason

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
# Words of the API server, of the scheduler, of JobSet, and of the standard libraries of Go and Python.
OF_OTHERS = {
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
}


def quoted() -> list[str]:
    """Fragments between the places that differ from case to case."""
    rows = re.findall(r"^\| `\w+` \| (.*?) \|", PAGE, re.MULTILINE)
    entries = re.findall(r"\*\*(`.*?)\*\*", PAGE, re.DOTALL)
    messages = [message for text in [*rows, *entries] for message in re.findall(r"`([^`]+)`", text)]
    fragments = [part.strip(' "`:') for text in messages for part in re.split(r"…|<[\w<>-]+>", " ".join(text.split()))]
    return [fragment for fragment in fragments if len(fragment) > 3]


def said() -> str:
    """The code without its comments, and every message of a rule in the schemas; what is filled in is a blank.

    Texts that are written in pieces are whole here. To parse all modules instead would take two seconds.
    """
    texts = []
    for folder in ("controller", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            code = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
            whole = re.sub(r"""(["'])\s*\n\s*[rf]?\1""", "", code)
            texts.append(re.sub(r"\{[^{}\n]*\}", "\0", whole))
    rules = [path.read_text() for path in (ROOT / "config" / "crd").glob("trainer*.yaml")]
    return "\n".join([*texts, *rules])


def test_every_message_exists() -> None:
    there = said()
    fragments = quoted()
    assert len(fragments) > 20
    assert [f for f in fragments if f not in there and not any(f.startswith(known) for known in OF_OTHERS)] == []


def test_every_reason_of_blocked_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)
    assert set(rows) == {reason.value for reason in Reason}
