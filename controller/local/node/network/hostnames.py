# SPDX-License-Identifier: Apache-2.0
"""The host names by which the pods of a job find each other, in a cluster through a headless Service.

A pod with `hostname` and `subdomain` is `<hostname>.<subdomain>.<namespace>.svc.cluster.local`. A container may start
before the pod that it looks for exists, so the names of a JobSet and of an indexed Job are known by their form, too:
`<set>-<replicated job>-<job index>-<pod index>` and `<job>-<index>`.
"""

import re
from collections.abc import Iterable

from trainwright.api.objects import Document, labels_of, namespace_of
from trainwright.controller.local.node.document.pods import hostname_of, spec_of

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_NAME = "batch.kubernetes.io/job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

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
    return namespace_of(pod), labels_of(pod).get(JOBSET_NAME) or spec_of(pod).get("subdomain") or ""


def peers_of(pod: Document, pods: Iterable[Document]) -> list[Document]:
    """The pod and those of its group."""
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
    if jobset := labels.get(JOBSET_NAME):
        if domain:
            forms.append(rf"{re.escape(jobset)}-{_LABEL}-\d+-\d+{domain}")
        # Without the subdomain only names of the own replicated job: a form for any would match too much.
        if own := labels.get(REPLICATED_JOB):
            forms.append(rf"{re.escape(jobset)}-{re.escape(own)}-\d+-\d+")
    elif (job := labels.get(JOB_NAME)) and COMPLETION_INDEX in labels and domain:
        forms.append(rf"{re.escape(job)}-\d+{domain}")
    return forms
