# SPDX-License-Identifier: Apache-2.0
"""Objects read and written as the administrator over HTTPS, without a kubectl for each, as tests look again and again.

A kubectl would cost up to a fifth of a second of CPU time. Kinds are named as for kubectl: `pods`, `trainjob`,
`events.events.k8s.io`. What is served is asked for once, and again when a kind is not known.
"""

import contextlib
import functools
import http.client
import json
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from trainwright.api import manifest
from trainwright.controller.runtime.testing.component import has_condition
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import SECONDS, GaveUp, eventually_sync, in_coroutine, is_empty

T = TypeVar("T")

_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
_USER_AGENT = "test-kit"


class Poster:
    """Sends requests with a token, and returns the answers.

    All raise ControlPlaneError if the API server cannot be reached or refuses the request; with its message.
    """

    def __init__(self, url: str, authority: bytes, token: str) -> None:
        """`authority` is the certificate, as PEM, that the API server's is checked against."""
        self._host = urlsplit(url).netloc
        self._context = ssl.create_default_context(cadata=authority.decode())
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": _USER_AGENT}

    def send(self, method: str, path: str, body: object, content_type: str = "application/json") -> dict[str, Any]:
        """POST a document to a collection or a subresource, or PATCH an object; `content_type` says how."""
        return _accepted(f"{method} {path}", *self._send(method, path, body, content_type=content_type))

    def apply(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply; `path` has the options. Retried while the storage of the kind is being made."""
        deadline = time.monotonic() + _SECONDS
        while True:
            # JSON is YAML.
            status, answer = self._send("PATCH", path, document, content_type="application/apply-patch+yaml")
            if status != http.client.TOO_MANY_REQUESTS or time.monotonic() > deadline:
                return _accepted(f"apply {path.partition('?')[0]}", status, answer)
            time.sleep(_PAUSE_SECONDS)

    def delete(self, path: str, options: Mapping[str, Any]) -> bool:
        """DELETE an object; returns whether there was one."""
        status, answer = self._send("DELETE", path, options)
        if status == http.client.NOT_FOUND:
            return False
        _accepted(f"DELETE {path}", status, answer)
        return True

    def read(self, path: str, *, accept: str = "application/json") -> dict[str, Any] | None:
        """GET a path; None where nothing is."""
        status, answer = self._send("GET", path, None, accept=accept)
        return None if status == http.client.NOT_FOUND else _accepted(f"GET {path}", status, answer)

    def until(
        self, look: Callable[[], T], holds: Callable[[T], object], *, seconds: float = SECONDS, what: str = ""
    ) -> T:
        """See `waiting.eventually_sync`; on the clock of the API server."""
        return eventually_sync(look, holds, seconds=seconds, what=what)

    def advance(self, seconds: float) -> None:
        """Let time pass on the clock of the API server."""
        time.sleep(seconds)

    def frames(self, path: str) -> Generator[bytes, None, None]:
        """The lines of the answer to a GET, as they arrive; closing the iterator ends the connection."""
        connection = http.client.HTTPSConnection(self._host, timeout=_SECONDS, context=self._context)
        try:
            connection.request("GET", path, headers=self._headers)
            with connection.getresponse() as response:
                if response.status >= http.client.BAD_REQUEST:
                    raise ControlPlaneError(f"GET {path} failed: {response.read().decode(errors='replace')}")
                yield from response
        except (OSError, http.client.HTTPException) as error:
            raise ControlPlaneError(f"GET {path} failed: {error}") from error
        finally:
            connection.close()

    def _send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> tuple[int, dict[str, Any]]:
        headers = {**self._headers, "Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        # A connection of its own: a test must leave none open. It is on the loopback, so no proxy applies.
        connection = http.client.HTTPSConnection(self._host, timeout=_SECONDS, context=self._context)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ControlPlaneError(f"{method} {path} failed: {error}") from error
        finally:
            connection.close()
        try:
            answer: dict[str, Any] = json.loads(text)
        except ValueError:
            answer = {"message": text.decode(errors="replace")}
        return response.status, answer


def _accepted(what: str, status: int, answer: dict[str, Any]) -> dict[str, Any]:
    if status >= http.client.BAD_REQUEST:
        raise ControlPlaneError(f"{what} failed: {answer.get('message')}")
    return answer


_STRICT = "fieldValidation=Strict"
_STYLES = {style: f"application/{style}-patch+json" for style in ("merge", "json")} | {
    "strategic": "application/strategic-merge-patch+json"
}
_GONE_SECONDS = 60.0
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class _Served:
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short: tuple[str, ...]
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def is_called(self, name: str) -> bool:
        plain, _, group = name.lower().partition(".")
        known = {self.plural, self.singular, self.kind.lower(), *self.short}
        return plain in known and group in ("", self.group)

    def path(self, namespace: str, name: str = "") -> str:
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{quote(namespace)}" if namespace and self.namespaced else ""
        return f"{root}{place}/{self.plural}" + (f"/{quote(name)}" if name else "")


class StoredObjects:
    """The objects of one cluster, real, in the process of the test or in virtual time, as its administrator has them.

    All methods raise ControlPlaneError: the kind is not served, or the API server refuses or cannot be reached.
    """

    def __init__(self, poster: Poster) -> None:
        """`poster` sends the requests as the administrator."""
        self._poster = poster
        self._served: list[_Served] = []

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """An object, or None if there is none."""
        return self._poster.read(self._called(kind).path(namespace, name))

    def list(self, kind: str, namespace: str = "") -> "list[dict[str, Any]]":
        """The objects of a kind in a namespace, or all of them."""
        served = self._called(kind)
        found = self._poster.read(served.path(namespace)) or {}
        about = {"apiVersion": served.api_version, "kind": served.kind}  # items of lists lack it
        return [about | item for item in found.get("items") or ()]

    def wait(
        self,
        kind: str,
        name: str,
        holds: Callable[[dict[str, Any]], object] = bool,
        namespace: str = "",
        *,
        seconds: float = SECONDS,
    ) -> dict[str, Any]:
        """Wait until an object is there and `holds`; returns it. Raises GaveUp with what was last seen of it."""
        found = self._poster.until(
            lambda: self.get(kind, name, namespace),
            lambda found: found is not None and holds(found),
            seconds=seconds,
            what=f"{kind} {name}",
        )
        assert found is not None
        return found

    def watch(
        self, kind: str, namespace: str = "", *, seconds: float = SECONDS
    ) -> "Generator[dict[str, Any], None, None]":
        """The events of a kind, `type` and `object`, beginning with what is there, until the time is over.

        Whoever stops before that closes the iterator (`contextlib.closing`).
        """
        path = self._called(kind).path(namespace)
        lines = self._poster.frames(f"{path}?watch=true&resourceVersion=0&timeoutSeconds={seconds:.0f}")
        with contextlib.closing(lines):
            for line in lines:
                yield json.loads(line)

    def advance(self, seconds: float) -> None:
        """Let so much time pass; in virtual time that takes none, and all is done that is due meanwhile."""
        self._poster.advance(seconds)

    def groups(self) -> set[str]:
        """The API groups that are served at this moment."""
        return {group["name"] for group in (self._poster.read("/apis") or {}).get("groups") or ()}

    def apply(self, *documents: Mapping[str, Any], field_manager: str) -> None:
        """Server-side apply; fields that a kind lacks are refused. What can be applied is, also after a refusal."""
        refused = []
        for document in documents:
            try:
                path = self._kind_of(document).path(_namespace(document), document["metadata"]["name"])
                self._poster.apply(f"{path}?fieldManager={quote(field_manager)}&{_STRICT}", document)
            except ControlPlaneError as error:
                refused.append(str(error))
        if refused:
            raise ControlPlaneError("; ".join(refused))

    def create(self, document: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object; fields that its kind lacks are refused. Returns what is stored."""
        path = self._kind_of(document).path(_namespace(document))
        return self._poster.send("POST", f"{path}?{_STRICT}" + ("&dryRun=All" if dry_run else ""), document)

    def patch(
        self, kind: str, name: str, body: object, namespace: str = "", *, style: str = "merge", subresource: str = ""
    ) -> dict[str, Any]:
        """Change an object; returns what is stored. `style` is `merge`, `strategic` or `json`."""
        path = self._called(kind).path(namespace, name) + (f"/{subresource}" if subresource else "")
        return self._poster.send("PATCH", f"{path}?{_STRICT}", body, _STYLES[style])

    def delete(
        self, kind: str, name: str, namespace: str = "", *, cascade: str = "background", wait: bool = True
    ) -> None:
        """Delete an object, and wait until finalizers have let it go or another one has its name. None may be there.

        `cascade` is `background`, `foreground` or `orphan`. Also raises if the object is still there after a minute; in
        a coroutine at once, because what should let it go may run on the event loop, which the wait would block.
        """
        path = self._called(kind).path(namespace, name)
        before = self._poster.read(path)
        if before is None or not self._poster.delete(path, {"propagationPolicy": cascade.capitalize()}) or not wait:
            return

        def left() -> Mapping[str, Any] | None:
            found = self._poster.read(path)
            return found if found is not None and found["metadata"]["uid"] == before["metadata"]["uid"] else None

        seconds = 0.0 if in_coroutine() else _GONE_SECONDS
        try:
            self._poster.until(left, is_empty, seconds=seconds)
        except GaveUp as error:
            holders = error.last["metadata"].get("finalizers")
            advice = "" if seconds else "; in an async test, delete with wait=False and `await eventually(…)`"
            raise ControlPlaneError(
                f"{kind} {name} is still there {seconds:g} s after its deletion; finalizers: {holders}{advice}"
            ) from error

    def _kind_of(self, document: Mapping[str, Any]) -> _Served:
        api_version, kind = document["apiVersion"], document["kind"]
        return self._find(
            f"{kind} of {api_version}", lambda served: (served.api_version, served.kind) == (api_version, kind)
        )

    def _called(self, kind: str) -> _Served:
        return self._find(kind, lambda served: served.is_called(kind))

    def _find(self, what: str, is_wanted: Callable[[_Served], bool]) -> _Served:
        for attempt in range(2):
            # A definition may be newer than what was asked for.
            if attempt or not self._served:
                self._served = [*self._ask()]
            for served in self._served:
                if is_wanted(served):
                    return served
        raise ControlPlaneError(f"the API server does not serve {what}")

    def _ask(self) -> Iterator[_Served]:
        for root in ("/api", "/apis"):
            for group in (self._poster.read(root, accept=_DISCOVERY) or {}).get("items") or ():
                for version in group["versions"]:
                    yield from _served(group["metadata"].get("name", ""), version)


def _namespace(document: Mapping[str, Any]) -> str:
    return str(document["metadata"].get("namespace") or "default")


def _served(group: str, version: Mapping[str, Any]) -> Iterator[_Served]:
    for one in version.get("resources") or ():
        # What has subresources alone has no kind.
        if kind := (one.get("responseKind") or {}).get("kind"):
            yield _Served(
                group=group,
                version=version["version"],
                kind=kind,
                plural=one["resource"],
                singular=one.get("singularResource", ""),
                short=tuple(one.get("shortNames") or ()),
                namespaced=one["scope"] == "Namespaced",
            )


_WAIT_SECONDS = 60
_DEFINITION = "CustomResourceDefinition"
_MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")


def install_definitions(
    paths: Sequence[Path], *, stored: StoredObjects, field_manager: str, serves: Callable[[str], bool]
) -> None:
    """Apply the manifests in files and folders, and wait until the API server serves the CRDs.

    Other objects in them are applied too. `serves` says whether the API server answers a GET of a path with success.

    Raises ControlPlaneError: a path does not exist, a folder holds no manifests, a definition was refused, or it is not
    served after a minute.
    """
    documents = [document for path in paths for file in manifests(path) for document in documents_of(file)]
    stored.apply(*documents, field_manager=field_manager)
    # The files may contain other objects, which are served at once.
    names = [one["metadata"]["name"] for one in documents if one["kind"] == _DEFINITION]

    # While its storage is made, a CRD that is Established can be answered with 429.
    def waiting() -> list[str]:
        crds = {name: stored.get(_DEFINITION, name) for name in names}
        return [name for name, crd in crds.items() if crd is None or not _is_served(crd, serves)]

    try:
        eventually_sync(waiting, is_empty, seconds=_WAIT_SECONDS)
    except GaveUp as error:
        raise ControlPlaneError(
            f"the API server does not serve {', '.join(error.last)} after {_WAIT_SECONDS} s"
        ) from error


def _is_served(crd: Mapping[str, Any], serves: Callable[[str], bool]) -> bool:
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    return has_condition(crd, "Established") and all(
        serves(f"/apis/{group}/{version['name']}/{plural}?limit=1")
        for version in crd["spec"]["versions"]
        if version["served"]
    )


def manifests(path: Path) -> list[Path]:
    """The file itself, or the manifests of a folder without its kustomization."""
    if not path.is_dir():
        return [path]
    found = sorted(
        file for file in path.iterdir() if file.suffix in _MANIFEST_SUFFIXES and file.stem.lower() != "kustomization"
    )
    if not found:
        suffixes = ", ".join(f"*{suffix}" for suffix in _MANIFEST_SUFFIXES)
        raise ControlPlaneError(f"{path} contains no CRDs ({suffixes})")
    return found


def documents_of(file: Path) -> list[dict[str, Any]]:
    """The objects in a manifest; not to be changed. Raises ControlPlaneError."""
    try:
        return _parsed(file, file.stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise ControlPlaneError(f"the manifest {file} cannot be read: {error}") from error


@functools.lru_cache(maxsize=64)
def _parsed(file: Path, _changed: int) -> list[dict[str, Any]]:
    """Definitions are long, and each control plane of a session has the same."""
    found = []
    for document in manifest.documents(file.read_text()):
        listed = document.items() if isinstance(document.data, dict) and document.data.get("kind") == "List" else ()
        found += [one.data for one in listed] or [document.data]
    return [one for one in found if one]
