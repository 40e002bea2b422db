# SPDX-License-Identifier: Apache-2.0
"""What a local cluster is not: for `status --limits`. The table of docs/users/local.md says the same."""

import itertools
import textwrap
from collections.abc import Iterator

LIMITS = {
    "images": "are not pulled; see Environments",
    "isolation": "pods run as you: they see your files, processes and network, and what they write outside of "
    "volumes stays",
    "limits of CPU and memory": "are not enforced. Requests decide who starts: the node has your CPUs and memory "
    "less 10 %, or --capacity=cpu=8,memory=16Gi",
    "securityContext, such as runAsUser": "means nothing",
    "network policies": "mean nothing. What a framework opens on all addresses can be reached from your network, "
    "unless the cluster has --network=isolated",
    "roles": "are stored, and count with --rbac. Without it, every user with a token may do everything. Processes of "
    "pods can read the kubeconfig, whose rights are all",
    "several nodes": "one, named after the machine",
    "gang schedulers, Kueue, autoscalers": "none; a TrainJob that needs a PodGroup is Blocked",
    "preemption, quotas": "none",
    "ValidatingAdmissionPolicies": "are evaluated, also for kubectl exec. One that uses authorizer is refused; types "
    "are not checked, and costs are counted in long loops only",
    "kubectl explain": "describes the kinds of definitions, such as TrainJob. Built-in kinds have their fields and "
    "types only",
    "Deployments, CronJobs and other kinds that training does not need": "are stored, with a warning that nothing "
    "acts on them",
    "storage": "a PersistentVolumeClaim is a folder; its size and access mode are not enforced",
    "other users of the machine": "the API server listens on 127.0.0.1; without the token, which only you can read, "
    "it answers health and version only",
}
_LEFT, _WIDTH = 36, 120


def lines() -> Iterator[str]:
    for there, here in (("in a cluster", "here"), *LIMITS.items()):
        left, right = textwrap.wrap(there, _LEFT - 2), textwrap.wrap(here, _WIDTH - _LEFT)
        for first, second in itertools.zip_longest(left, right, fillvalue=""):
            yield f"{first:<{_LEFT}}{second}".rstrip()
