# SPDX-License-Identifier: Apache-2.0
"""The strategy of Pods."""

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.kinds.builtin import amounts
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.pods.defaults import default_pod
from trainwright.controller.local.apiserver.kinds.builtin.pods.specification import new_pod_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.statuses import pod_status_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.updates import pod_update_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.warnings import specification_warnings
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields, set_or_drop


class PodStrategy(BuiltInStrategy):
    """Pods: a graceful deletion, a status that begins as Pending, and a specification that hardly changes."""

    graceful = True
    reset_fields: ResetFields = {  # noqa: RUF012 - never changed
        "status": (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))
    }

    def fill_in(self, document: Document) -> None:
        default_pod(document)

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        spec = document["spec"]
        status: Document = {"phase": "Pending", "qosClass": amounts.quality_of_service(spec)}
        if spec.get("schedulingGates"):
            gated = {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": times.format_time(times.wall_clock()),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            status["conditions"] = [gated]
        document["status"] = status
        _merge_label_keys(document)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if subresource == "status":
            # A kubelet of old broke owner references here.
            set_or_drop(new["metadata"], "ownerReferences", old["metadata"].get("ownerReferences"))
            status = new["status"]
            set_or_drop(status, "qosClass", status.get("qosClass") or part(old, "status").get("qosClass"))
            _keep_observed_generations(status, part(old, "status"))

    def validate(self, document: Document) -> list[DocumentError]:
        return new_pod_errors(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource == "status":
            return pod_status_errors(new, old)
        return pod_update_errors(new, old)

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        # People hardly change pods, so nobody would see warnings of updates.
        if old is not None:
            return []
        problems = names.dns_label(new["metadata"].get("name") or "")
        text = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
        found = [f"metadata.name: {text}: [{' '.join(problems)}]"] if problems else []
        return found + specification_warnings(new["spec"], "spec")

    def grace_of(self, document: Document, asked: int | None) -> int | None:
        spec = part(document, "spec")
        grace = spec.get("terminationGracePeriodSeconds") if asked is None else asked
        # Without a node, or with its containers ended, no kubelet would confirm the end.
        if not grace or not spec.get("nodeName") or part(document, "status").get("phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if grace < 0 else int(grace)


def _keep_observed_generations(status: Document, old: Document) -> None:
    """A client that does not know observed generations does not clear them."""
    set_or_drop(status, "observedGeneration", status.get("observedGeneration") or old.get("observedGeneration"))
    known: dict[str, list[int | None]] = {}
    for condition in entries(old, "conditions"):
        known.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration"))
    for condition in entries(status, "conditions"):
        waiting = known.get(condition.get("type", ""))
        before = waiting.pop(0) if waiting else None
        set_or_drop(condition, "observedGeneration", condition.get("observedGeneration") or before)


def _merge_label_keys(pod: Document) -> None:
    """Add `matchLabelKeys` and `mismatchLabelKeys` to the selectors of their terms, with the values of this pod."""
    labels = part(pod["metadata"], "labels")
    for field in ("podAffinity", "podAntiAffinity"):
        affinity = part(part(pod["spec"], "affinity"), field)
        terms = list(entries(affinity, "requiredDuringSchedulingIgnoredDuringExecution"))
        weighted = entries(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [part(each, "podAffinityTerm") for each in weighted]
        for term in terms:
            _require_labels(term, "matchLabelKeys", "In", labels)
            _require_labels(term, "mismatchLabelKeys", "NotIn", labels)
    for constraint in entries(pod["spec"], "topologySpreadConstraints"):
        _require_labels(constraint, "matchLabelKeys", "In", labels)


def _require_labels(term: Document, field: str, operator: str, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in texts(term, field) if key in labels]
    if added:
        selector["matchExpressions"] = [*entries(selector, "matchExpressions"), *added]
