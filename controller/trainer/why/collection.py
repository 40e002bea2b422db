# SPDX-License-Identifier: Apache-2.0
"""Pictures over objects that are at hand: those of caches, of a file, or of a test."""

from collections.abc import Collection, Iterable
from datetime import datetime

from trainwright.api.objects import Document, dig, labels_of, name_of, namespace_of
from trainwright.plugins.contract import Picture, Unreadable
from trainwright.plugins.contract.picture import NOT_SERVED, Answer, Query, Verb


class GivenObjects:
    """Answers queries from a set of objects, as if it were the whole cluster.

    Args:
        objects: in wire form, each with apiVersion and kind.
        unreadable: plurals of resources (`nodes`, `pods/log`) that may not be read.
        unserved: API groups that the cluster does not have.
        logs: last lines by `<pod>/<container>`.
    """

    def __init__(
        self,
        objects: Iterable[Document],
        *,
        unreadable: Collection[str] = (),
        unserved: Collection[str] = (),
        logs: dict[str, list[str]] | None = None,
    ) -> None:
        self._by_kind: dict[tuple[str, str], list[Document]] = {}
        for obj in objects:
            group = str(obj.get("apiVersion", "")).rpartition("/")[0]
            self._by_kind.setdefault((group, str(obj.get("kind"))), []).append(obj)
        self._unreadable = frozenset(unreadable)
        self._unserved = frozenset(unserved)
        self._logs = logs or {}

    def picture(self, job: Document, now: datetime) -> Picture:
        return Picture(job, self.answer, now)

    def answer(self, query: Query) -> Answer:
        """The answer to a query; there always is one."""
        resource = query.resource
        if query.verb is Verb.LOG:
            return self._log(query)
        if resource.group in self._unserved:
            return NOT_SERVED
        if query.verb is Verb.SERVES:
            return ({},)
        if resource.plural in self._unreadable:
            return Unreadable(f'{resource.plural} is forbidden: cannot {query.verb.value} resource "{resource.plural}"')
        everywhere = query.verb is Verb.LIST and not query.namespace
        some = [
            obj
            for obj in self._by_kind.get((resource.group, resource.kind), ())
            if everywhere or namespace_of(obj) in (query.namespace, "")
        ]
        if query.verb is Verb.GET:
            return tuple(obj for obj in some if name_of(obj) == query.name)[:1]
        return tuple(obj for obj in some if _matches(obj, query))

    def _log(self, query: Query) -> Answer:
        if "pods/log" in self._unreadable:
            return Unreadable("pods/log is forbidden")
        lines = self._logs.get(f"{query.name}/{query.fields.partition(',')[0]}")
        return ({"lines": lines},) if lines is not None else ()


def _matches(obj: Document, query: Query) -> bool:
    return all(labels_of(obj).get(key) == value for key, value in _terms(query.labels)) and all(
        dig(obj, path) == value for path, value in _terms(query.fields)
    )


def _terms(selector: str) -> list[tuple[str, str]]:
    pairs = (term.partition("=") for term in selector.split(",") if term)
    return [(key, value) for key, _, value in pairs]
