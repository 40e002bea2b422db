# SPDX-License-Identifier: Apache-2.0

"""The documents that are put both to an API server and to offline validation.

`wrong` names the fields that an error must speak of; an empty tuple means that the document is accepted. A case with
`old` is an update of that document.
"""

from dataclasses import dataclass
from typing import Any

from tests.cases import cases

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One document, or one change of a document, and what is wrong with it."""

    name: str
    document: Json
    wrong: tuple[str, ...] = ()
    old: Json | None = None
    subresource: str = ""


def job(name: str = "job", /, **spec: Any) -> Json:
    """A TrainJob."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": "torch"}, **spec},
    }


ALL = [Case(**{**one, "wrong": tuple(one["wrong"])}) for one in cases(__file__)["cases"]]
