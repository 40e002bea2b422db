# SPDX-License-Identifier: Apache-2.0
"""The host names and ports by which the pods of a job find each other on one machine."""

import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TypeAlias

from trainwright.api.jobset.v1alpha2.labels import LABEL_INDEX, LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.objects import Document, labels_of, namespace_of, spec_of, uid_of
from trainwright.api.surroundings import fraction
from trainwright.controller.local.node.document import all_containers, hostname_of
from trainwright.controller.local.node.machine import MachineLocks

# ---------------------------------------------------------------------- names
#
# In a cluster, pods find each other through a headless Service: a pod with `hostname` and `subdomain` is
# `<hostname>.<subdomain>.<namespace>.svc.cluster.local`. A container may start before the pod that it looks for exists,
# so the names of a JobSet and of an indexed Job are known by their form, too:
# `<set>-<replicated job>-<job index>-<pod index>` and `<job>-<index>`.

JOB_NAME = "batch.kubernetes.io/job-name"

_INDEXED = re.compile(r"-\d+$")
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"


def names_of(pod: Document) -> list[str]:
    """All names of one pod that others can look up, the longest first. Without a subdomain there are none."""
    host, subdomain, namespace = hostname_of(pod), spec_of(pod).get("subdomain"), namespace_of(pod)
    if not subdomain:
        return []
    full = f"{host}.{subdomain}.{namespace}.svc.cluster.local"
    return [full, full.removesuffix(".cluster.local"), f"{host}.{subdomain}.{namespace}", f"{host}.{subdomain}", host]


def group_of(pod: Document) -> tuple[str, str]:
    """What pods that find each other have in common: namespace, and JobSet or subdomain. Empty: the pod is alone."""
    return namespace_of(pod), labels_of(pod).get(LABEL_JOBSET) or spec_of(pod).get("subdomain") or ""


def peers_of(pod: Document, pods: Iterable[Document]) -> list[Document]:
    group = group_of(pod)
    if not group[1]:
        return [pod]
    others = [other for other in pods if group_of(other) == group and other is not pod]
    return [pod, *others]


def name_pattern(pod: Document, pods: Iterable[Document]) -> re.Pattern[str] | None:
    """Finds the names of the pod's group in a text, at word boundaries; None if the pod has no group.

    A short name is found only if it ends with an index, as those of jobs do: a plain word such as `worker` means other
    things in commands, and no pod but its own can look it up in a cluster.
    """
    alternatives = _forms(pod)
    # Without what the forms find: a pattern of 500 names takes 20 ms to compile, for each container.
    known = re.compile("|".join(alternatives)) if alternatives else None
    names = [name for peer in peers_of(pod, pods) for name in names_of(peer)]
    alternatives += [
        re.escape(name)
        for name in names
        if ("." in name or _INDEXED.search(name)) and (known is None or not known.fullmatch(name))
    ]
    if not alternatives:
        return None
    # The longest first: an alternative must not stop at the short form of a longer name.
    alternatives.sort(key=len, reverse=True)
    return re.compile(rf"(?<![-.\w])(?:{'|'.join(dict.fromkeys(alternatives))})(?![-\w])(?!\.[-\w])")


def _forms(pod: Document) -> list[str]:
    """Patterns of names that the group's pods have or will have."""
    labels, spec = labels_of(pod), spec_of(pod)
    domain = ""
    if subdomain := spec.get("subdomain"):
        namespace = re.escape(namespace_of(pod))
        domain = rf"\.{re.escape(subdomain)}(?:\.{namespace}(?:\.svc(?:\.cluster\.local)?)?)?"
    forms = []
    if jobset := labels.get(LABEL_JOBSET):
        if domain:
            forms.append(rf"{re.escape(jobset)}-{_LABEL}-\d+-\d+{domain}")
        # Without the subdomain only names of the own replicated job: a form for any would match too much.
        if own := labels.get(LABEL_REPLICATED_JOB):
            forms.append(rf"{re.escape(jobset)}-{re.escape(own)}-\d+-\d+")
    elif (job := labels.get(JOB_NAME)) and LABEL_INDEX in labels and domain:
        forms.append(rf"{re.escape(job)}-\d+{domain}")
    return forms


# ---------------------------------------------------------------------- who has what

Holder: TypeAlias = tuple[str, str]
"""Namespace and JobSet or subdomain; or namespace and uid of a pod that has no group."""


def holder_of(pod: Document) -> Holder:
    """Who holds the ports of a pod: pods of one JobSet or subdomain share them."""
    group = group_of(pod)
    return group if group[1] else (namespace_of(pod), uid_of(pod))


# ---------------------------------------------------------------------- ports
#
# All pods share the ports of this machine, and every framework meets on the same one. A declared containerPort is held
# by its JobSet (or by its pod). A second JobSet that declares it gets a free port instead, if everything that says the
# number can be rewritten: a variable with PORT in its name and exactly that value, and `name:port` with a name of its
# own pods. Otherwise its pods wait.

_FIRST, _LAST = 10_000, 32_000
"""Of the ports that are chosen: below, programs of a machine as a rule have theirs; above, the kernel gives outgoing
connections one, which a program that begins to listen a while after the choice would meet."""
REFUSED = "the node didn't have free ports for the requested pod ports"


class Ports:
    def __init__(
        self,
        *,
        is_free: Callable[[int], bool] | None = None,
        pick: Callable[[], int] | None = None,
    ) -> None:
        """`is_free`: whether no process of the machine listens on a port; `pick` returns a free one."""
        self._is_free = is_free or port_is_free
        self._pick = pick or free_port
        self._locks = MachineLocks()
        self._used: dict[Holder, dict[int, int]] = {}
        """The real port by declared one."""
        self._pods: dict[Holder, set[str]] = {}
        """Those that are there."""

    def admit(self, pod: Document, pods: Iterable[Document]) -> bool:
        """Hold the ports that a pod declares; False if one of them is not to be had. Can be called again.

        `pods` are those of the node, for host names.
        """
        holder = holder_of(pod)
        held = self._used.get(holder, {})
        used = dict(held)
        known = list(pods)
        fits = True
        for port in declared_ports(pod):
            if port not in used:
                used[port] = port if self._take(port) else self._other()
            fits = fits and (used[port] == port or can_rewrite(pod, port, known))
        if not fits:
            for port in used.keys() - held.keys():
                self._locks.give_back(str(used[port]))
            return False
        self._used[holder] = used
        self._pods.setdefault(holder, set()).add(uid_of(pod))
        return True

    def release(self, pod: Document) -> None:
        """Nothing of the pod runs any more. With the last pod of a holder its ports are free."""
        holder = holder_of(pod)
        left = self._pods.get(holder, set())
        left.discard(uid_of(pod))
        if left:
            return
        self._pods.pop(holder, None)
        for port in self._used.pop(holder, {}).values():
            self._locks.give_back(str(port))

    def close(self) -> None:
        self._used.clear()
        self._pods.clear()
        self._locks.close()

    def moved(self, pod: Document) -> dict[int, int]:
        """The ports of a pod that differ from what it declares: the real one by declared one."""
        return {old: new for old, new in self._used.get(holder_of(pod), {}).items() if old != new}

    def _take(self, port: int) -> bool:
        """Hold a port, if neither this node, nor another one of the machine, nor any other program has it."""
        if any(port in ports.values() for ports in self._used.values()) or not self._locks.take(str(port)):
            return False
        if self._is_free(port):
            return True
        self._locks.give_back(str(port))
        return False

    def _other(self) -> int:
        while not self._take(port := self._pick()):
            continue
        return port


def declared_ports(pod: Document) -> list[int]:
    """The TCP ports that the containers of a pod declare, each once."""
    found = [
        int(port["containerPort"])
        for container in all_containers(pod)
        for port in container.get("ports") or ()
        if port.get("protocol", "TCP") == "TCP"
    ]
    return list(dict.fromkeys(found))


def can_rewrite(pod: Document, port: int, pods: Iterable[Document]) -> bool:
    """Whether the pod says the port at all, and only where it can be rewritten."""
    number = re.compile(rf"(?<!\d){port}(?!\d)")
    at_name = _at_name(pod, port, pods)
    said = 0
    for name, text in _texts(pod):
        if "PORT" in name and text == str(port):
            said += 1
            continue
        mentions = len(number.findall(text))
        if mentions != (len(at_name.findall(text)) if at_name is not None else 0):
            return False
        said += mentions
    return said > 0


class PortRewriter:
    def __init__(self, pod: Document, moved: Mapping[int, int], pods: Iterable[Document]) -> None:
        known = list(pods)
        self._moved = {str(old): str(new) for old, new in moved.items()}
        self._patterns = [(pattern, str(new)) for old, new in moved.items() if (pattern := _at_name(pod, old, known))]

    def text(self, text: str) -> str:
        for pattern, new in self._patterns:
            text = pattern.sub(rf"\g<1>:{new}", text)
        return text

    def variables(self, values: Mapping[str, str]) -> dict[str, str]:
        return {
            name: self._moved[value] if "PORT" in name and value in self._moved else self.text(value)
            for name, value in values.items()
        }


def _at_name(pod: Document, port: int, pods: Iterable[Document]) -> re.Pattern[str] | None:
    names = name_pattern(pod, pods)
    return None if names is None else re.compile(rf"({names.pattern}):{port}(?!\d)")


def _texts(pod: Document) -> Iterator[tuple[str, str]]:
    """Everything of the document that may say a port: name of the variable (or nothing) and text."""
    for container in all_containers(pod):
        for entry in container.get("env") or ():
            yield entry["name"], entry.get("value") or ""
        for word in [*(container.get("command") or ()), *(container.get("args") or ())]:
            yield "", word


def port_is_free(port: int) -> bool:
    """Whether a program could listen on a port of all addresses now."""
    with closing(socket.socket()) as one:
        # Without SO_REUSEADDR, as XGBoost's tracker: it cannot listen where a connection was closed a minute ago.
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port on which nothing listens."""
    while not port_is_free(port := _FIRST + int(fraction() * (_LAST - _FIRST))):
        continue
    return port
