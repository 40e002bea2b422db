# SPDX-License-Identifier: Apache-2.0
"""Conversion of custom resources between the versions of their kind: ConversionReview of `apiextensions.k8s.io/v1`.

A function converts an object from one version to another. Where there is none from the version that is stored to the
one that is asked for, the shortest chain of them is taken. Metadata stays as it is, except for labels and annotations:
the API server refuses every other change.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.objects import Document, wire
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.errors import ConfigurationError, DecodeError
from trainwright.controller.runtime.kinds import codec_of
from trainwright.controller.runtime.webhook.review import MalformedReview

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Object)
B = TypeVar("B", bound=Object)

CONVERT_PATH = "/convert"
"""Where the API server asks, as in controller-runtime."""
_KIND = "ConversionReview"
_VERSION = "apiextensions.k8s.io/v1"
_CHANGEABLE = ("labels", "annotations")


class _Request(msgspec.Struct):
    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    objects: list[Document]


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: _Request | None = None


_DECODER = msgspec.json.Decoder(_Review)
_ENCODER = msgspec.json.Encoder()


class Conversions:
    """The functions of all kinds of an operator; answers the reviews of the API server."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], dict[str, Callable[[Document], Document]]] = {}
        """By kind and apiVersion, then by the apiVersion that a function converts to."""
        self.resources: list[Resource] = []
        """The versions that can be converted."""

    def add(self, source: type[A], target: type[B], function: Callable[[A], B]) -> None:
        """Convert from one model to another. Raises ConfigurationError for two kinds, or a second function."""
        have, want = source.RESOURCE, target.RESOURCE
        if (have.group, have.kind) != (want.group, want.kind) or have.version == want.version:
            raise ConfigurationError(
                f"{have.kind} {have.api_version} cannot be converted to {want.kind} {want.api_version}:"
                " use two versions of one kind"
            )
        steps = self._steps.setdefault((have.kind, have.api_version), {})
        if want.api_version in steps:
            raise ConfigurationError(f"{have.kind}: {have.api_version} is converted to {want.api_version} already")
        codec = codec_of(source)

        def step(document: Document) -> Document:
            made = wire(function(codec.decode(_ENCODER.encode(document))))
            metadata = {**(document.get("metadata") or {})}
            for name in _CHANGEABLE:
                metadata.pop(name, None)
                if changed := (made.get("metadata") or {}).get(name):
                    metadata[name] = changed
            return {**made, "apiVersion": want.api_version, "kind": want.kind, "metadata": metadata}

        steps[want.api_version] = step
        self.resources += [one for one in (have, want) if one not in self.resources]

    def convert(self, document: Document, api_version: str) -> Document:
        """An object in another version. Raises ConfigurationError without a way there, DecodeError, and what a
        function raises."""
        kind, have = str(document.get("kind")), str(document.get("apiVersion"))
        for step in self._way(kind, have, api_version):
            document = step(document)
        return document

    def _way(self, kind: str, have: str, want: str) -> list[Callable[[Document], Document]]:
        ways: dict[str, list[Callable[[Document], Document]]] = {have: []}
        queue = deque([have])
        while queue and want not in ways:
            here = queue.popleft()
            for there, step in self._steps.get((kind, here), {}).items():
                if there not in ways:
                    ways[there] = [*ways[here], step]
                    queue.append(there)
        if want not in ways:
            raise ConfigurationError(f"{kind} {have} cannot be converted to {want}: no function does that")
        return ways[want]

    def answer(self, body: bytes) -> bytes:
        """Answer a review. A failure is answered with its message, and refuses the whole review.

        Raises:
            MalformedReview: the body is no review.
        """
        try:
            review = nesting.decode(_DECODER, body)
        except msgspec.MsgspecError as error:
            raise MalformedReview(400, f"the body is not a {_KIND}: {error}") from error
        if review.kind != _KIND or review.api_version != _VERSION or review.request is None:
            raise MalformedReview(400, f"the body is not a {_KIND} of {_VERSION} with a request")
        request = review.request
        answered: dict[str, Any] = {"uid": request.uid, "convertedObjects": [], "result": {"status": "Success"}}
        try:
            answered["convertedObjects"] = [self.convert(one, request.desired) for one in request.objects]
        except (ConfigurationError, DecodeError, ValueError) as error:
            answered["result"] = {"status": "Failed", "message": str(error)}
        except Exception as error:
            log.exception("conversion to %s failed", request.desired)
            message = f"the conversion webhook failed with {type(error).__name__}; see its log"
            answered["result"] = {"status": "Failed", "message": message}
        return _ENCODER.encode({"apiVersion": _VERSION, "kind": _KIND, "response": answered})
