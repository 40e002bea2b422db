# SPDX-License-Identifier: Apache-2.0
"""What the conversion webhook of a definition has answered.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
It is asked before an object is read or stored (`admission/conversion.py`), and whoever reads objects does not
wait.
"""

import copy
import hashlib
from collections.abc import Iterable, Sequence
from math import inf

import msgspec

from trainwright.api.objects import Document
from trainwright.api.surroundings import new_uid, ticks
from trainwright.controller.local.apiserver import errors

_KEPT = 10_000
"""Answers that are kept beside those that were just asked for."""
_FRESH_SECONDS = 5.0
"""How long an answer is good. All watches of a change share it; a webhook that runs new code is asked again."""
_REVIEWS = ("v1", "v1beta1")
_GROUP = "apiextensions.k8s.io"
_encode = msgspec.json.Encoder(order="sorted").encode


class ConversionError(Exception):
    """A webhook did not answer as it should."""


class WebhookConversion:
    """The conversion webhook of a definition, and what it has answered."""

    def __init__(self, webhook: Document, kind: str) -> None:
        self.client_config: Document = webhook["clientConfig"]
        self._kind = kind
        versions = webhook.get("conversionReviewVersions") or ()
        self._review_version = next((one for one in versions if one in _REVIEWS), _REVIEWS[0])
        self._answers: dict[tuple[str, bytes], tuple[float, bytes]] = {}
        """When and what was answered by wanted version and the digest of what was converted, the oldest first."""

    def missing(self, documents: Iterable[Document], api_version: str) -> list[Document]:
        """Those that the webhook has to be asked about."""
        for old in list(self._answers)[: max(0, len(self._answers) - _KEPT)]:
            del self._answers[old]
        oldest = ticks() - _FRESH_SECONDS
        return [
            one
            for one in documents
            if one["apiVersion"] != api_version and self._answers.get(_key(one, api_version), (-inf,))[0] < oldest
        ]

    def review(self, documents: Sequence[Document], api_version: str) -> Document:
        """The request for objects in a version."""
        request = {"uid": new_uid(), "desiredAPIVersion": api_version, "objects": documents}
        return {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{self._review_version}", "request": request}

    def accept(self, documents: Sequence[Document], api_version: str, review: Document, body: bytes) -> None:
        """Keep the answer to a review. Raises ConversionError."""
        try:
            answer = msgspec.json.decode(body)
            response = answer["response"]
            result, objects = response.get("result") or {}, response.get("convertedObjects") or []
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
            raise ConversionError("the answer is no ConversionReview with a response") from error
        if response.get("uid") != review["request"]["uid"]:
            raise ConversionError("the uid of the response is not that of the request")
        if result.get("status") != "Success":
            raise ConversionError(result.get("message") or "the webhook refused without a message")
        if len(objects) != len(documents):
            raise ConversionError(f"the webhook returned {len(objects)} objects, expected {len(documents)}")
        for before, made in zip(documents, objects, strict=True):
            if (made.get("apiVersion"), made.get("kind")) != (api_version, self._kind):
                raise ConversionError(
                    f"returned {made.get('kind')} in {made.get('apiVersion')}, expected {api_version}"
                )
            if (made.get("metadata") or {}).get("uid") != before["metadata"].get("uid"):
                raise ConversionError("the webhook returned an object with another uid")
            # Labels and annotations are all that a webhook may change in the metadata.
            metadata, given = dict(before["metadata"]), made.get("metadata") or {}
            for name in ("labels", "annotations"):
                metadata.pop(name, None)
                if given.get(name):
                    metadata[name] = given[name]
            key = _key(before, api_version)
            self._answers.pop(key, None)  # so that it is the youngest
            self._answers[key] = ticks(), _encode({**made, "metadata": metadata})

    def converted(self, document: Document, api_version: str) -> Document:
        """An object in a version, the caller's own. Raises StatusError if the webhook was not asked about it."""
        if document["apiVersion"] == api_version:
            return copy.deepcopy(document)
        answer = self._answers.get(_key(document, api_version))
        if answer is None:
            raise errors.plain_internal(f"{self._kind} {document['metadata'].get('name')} was not converted; try again")
        made: Document = msgspec.json.decode(answer[1])
        return made


def _key(document: Document, api_version: str) -> tuple[str, bytes]:
    return api_version, hashlib.blake2b(_encode(document), digest_size=16).digest()
