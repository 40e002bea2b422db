# SPDX-License-Identifier: Apache-2.0
"""The objects that the pipeline gives out.

A component is a server-side-apply document in wire form: a plain dictionary with apiVersion, kind, metadata (name,
namespace, the TrainJob as controller) and everything that we own, and nothing else. Dictionaries rather than models,
because an apply document is a statement of fields and not an object: it is compared, printed and sent as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass

from trainwright.controller.runtime.objects import Document

PLACEHOLDER = "Z2VuZXJhdGVkIHdoZW4gdGhlIFNlY3JldCBpcyBjcmVhdGVk"
"""Stands for generated key material in the data of a Secret. It says so itself, in base64."""

_ORDER = {"ConfigMap": 0, "Secret": 0, "PodGroup": 1, "JobSet": 3}


@dataclass(frozen=True, slots=True)
class Component:
    """One object to apply."""

    document: Document
    plugin: str = ""
    """Who built it; filled in by the pipeline."""
    generate: Callable[[Document], Document] | None = None
    """Set for objects with generated content: create only if absent, never apply again. Called once, off the event
    loop, with the document; returns the document to create, with every placeholder replaced."""
    fallback: Document | None = None
    """What is applied to the object that is there already if the API server refuses `document`: the same object with
    nothing but what may still change."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identity: apiVersion, kind, namespace, name."""
        metadata = self.document["metadata"]
        return (self.document["apiVersion"], self.document["kind"], metadata.get("namespace", ""), metadata["name"])

    @property
    def rank(self) -> tuple[int, str, str, str]:
        """Position in the output: what pods need comes before the pods.

        ConfigMaps and Secrets, then PodGroups, then kinds of other plugins, then the JobSet; by kind and name within.
        """
        api_version, kind, _, name = self.key
        return (_ORDER.get(kind, 2), kind, api_version, name)
