# SPDX-License-Identifier: Apache-2.0
"""Makes the answers of two runs comparable: names, addresses, times and identities are replaced by what they are."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

Document = dict[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ADDRESS = re.compile(r"\b(?:10|127|172|192|198)(?:\.\d{1,3}){3}\b")
_CONTAINER = re.compile(r"\b[a-z]+://[0-9a-f-]{8,}\b|\b[0-9a-f]{64}\b")
_RANDOM = re.compile(r"\b(kube-api-access-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_RUNTIME = re.compile(r"failed to (?:create containerd task|exec in container): .*?(?=exec: )|(?<=\S): unknown$")
"""What containerd and runc say around the cause, which is their own."""
_TRANSIENT = "failed to sync"
"""In events of a kubelet whose machine is so busy that a watch begins late."""
_REPEATED = re.compile(r"(.)\1{99,}")
_TIMES = frozenset({"startTime", "startedAt", "finishedAt", "lastTransitionTime", "lastProbeTime"})
_IDENTITIES = frozenset({"containerID", "imageID", "image", "hostIP", "podIP"})


class Normal:
    """Of the pods of one run."""

    def __init__(self, namespace: str, pods: Iterable[Mapping[str, Any]]) -> None:
        words = {namespace: "<namespace>"}
        for pod in pods:
            words[str(pod["metadata"]["uid"])] = "<uid>"
            if node := pod["spec"].get("nodeName"):
                words[node] = "<node>"
        self._words = [
            (re.compile(rf"(?<![A-Za-z0-9.-]){re.escape(word)}(?![A-Za-z0-9-])"), name) for word, name in words.items()
        ]

    def answer(self, answer: Document) -> Document:
        """One answer."""
        made = {key: self._walk(value) for key, value in answer.items()}
        if isinstance(made.get("status"), dict):
            made["status"] = _keyed(made["status"])
        if "events" in made:
            # How often something was told, and in which order within a second, differs from run to run.
            told = (f"{one['type']} {one['reason']}: {one['note'].strip()}" for one in made["events"])
            made["events"] = sorted({text for text in told if _TRANSIENT not in text})
        return made

    def _walk(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._walk(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._walk(inner) for inner in value]
        if isinstance(value, str):
            if key in _TIMES:
                return "<time>"
            if key in _IDENTITIES:
                return f"<{key}>" if value else ""
            return self._text(value)
        return value

    def _text(self, text: str) -> str:
        for pattern, name in self._words:
            text = pattern.sub(name, text)
        text = _TIME.sub("<time>", text)
        text = _CONTAINER.sub("<id>", text)
        text = _RANDOM.sub(r"\1<random>", text)
        text = _RUNTIME.sub("", text)
        text = _REPEATED.sub(lambda match: f"<{len(match[0])} times {match[1]}>", text)
        return _ADDRESS.sub("<address>", text)


def _keyed(status: Document) -> Document:
    """Lists as mappings, so that a path names what it means.

    Without `resources` of the pod: they are read from its control group, which may be gone by then.
    """
    keys = {"conditions": "type", "containerStatuses": "name", "initContainerStatuses": "name"}
    return {
        name: {one[keys[name]]: one for one in value} if name in keys and value else value
        for name, value in status.items()
        if name != "resources"
    }
