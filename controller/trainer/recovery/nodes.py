# SPDX-License-Identifier: Apache-2.0
"""Which nodes a job avoids: those whose hardware fails, and those that fail first again and again. No I/O here.

Affinity of a JobSet cannot be changed, so leaving a node takes a new JobSet. That is not done where the cluster has too
few other nodes, or where something else is more likely to be the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from trainwright.api.conditions import is_true
from trainwright.api.jobset.v1alpha2 import JobSet, ReplicatedJob
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.messages import counted
from trainwright.api.nodes import selects
from trainwright.api.objects import Document, name_of, wire
from trainwright.api.times import format_time
from trainwright.controller.trainer.failures.record import Entry
from trainwright.controller.trainer.job.pods import INITIALIZERS

AVOIDED = timedelta(days=1)
"""A node that was repaired is used again."""
MOST_AVOIDED = 8
_REPEATED = 2
_SHARE = 10
_TOPOLOGY = ("kueue.x-k8s.io/podset-", "-topology")


def suspect(entries: Mapping[int, Entry], attempt: int, avoided: Iterable[str], now: datetime) -> tuple[str, str]:
    """The node that is to be avoided after this attempt, and why; two empty texts: none.

    A node is suspect if the log of its rank reports broken hardware, or if two attempts failed there first and none
    anywhere else.
    """
    last = entries.get(attempt)
    if last is None or not last.node or last.node in avoided:
        return "", ""
    if last.hardware:
        return last.node, f"the log of an attempt on node {last.node} reports broken hardware"
    since = format_time(now - AVOIDED)
    culprits = [one.node for one in entries.values() if one.node and one.node not in avoided and one.ended >= since]
    if culprits.count(last.node) < _REPEATED or set(culprits) != {last.node}:
        return "", ""
    return last.node, f"node {last.node} failed first in two attempts"


def still_avoided(avoided: Mapping[str, str], now: datetime) -> list[str]:
    """The nodes that were avoided within the last day, by name."""
    since = format_time(now - AVOIDED)
    return sorted(node for node, at in avoided.items() if at >= since)


def why_not(jobset: JobSet, nodes: Sequence[Node], avoided: Sequence[str], node: str, started: int) -> str:
    """Why the job does not leave a node, in words; empty: it may.

    `started`: how many pods of the attempt had started.
    """
    ranks = [one for one in jobset.spec_or_empty.replicated_jobs or () if one.name not in INITIALIZERS]
    wanted = sum(map(_pods_of, ranks))
    if any(_asks_for_topology(one) for one in ranks):
        return "its queue chooses nodes by topology"
    if started * 2 < wanted:
        return f"only {started} of its {wanted} pods had started"
    for one in ranks:
        spec = msgspec.to_builtins(one.template.spec_or_empty.template.spec_or_empty)
        fitting = [found for found in nodes if _fits(found, spec)]
        left = [found for found in fitting if name_of(found) not in (*avoided, node)]
        if len(avoided) >= MOST_AVOIDED or len(avoided) * _SHARE >= len(fitting):
            return f"it avoids {len(avoided)} of {len(fitting)} matching nodes already"
        if len(left) < _pods_of(one):
            return f"{counted(len(left), 'matching node')} would be left for {counted(_pods_of(one), 'pod')}"
    return ""


def _pods_of(one: ReplicatedJob) -> int:
    parallelism = one.template.spec_or_empty.parallelism
    return (1 if one.replicas is None else one.replicas) * (1 if parallelism is None else parallelism)


def _asks_for_topology(one: ReplicatedJob) -> bool:
    metadata = one.template.spec_or_empty.template.metadata_or_empty
    return any(name.startswith(_TOPOLOGY[0]) and name.endswith(_TOPOLOGY[1]) for name in metadata.annotations or {})


def _fits(node: Node, spec: Document) -> bool:
    """Whether a pod may run there, by selector, affinity and state; taints and room are the scheduler's."""
    if not is_true(node.status_or_empty.conditions, "Ready") or node.spec_or_empty.unschedulable:
        return False
    return selects(spec, wire(node))
