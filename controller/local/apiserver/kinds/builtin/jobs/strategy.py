# SPDX-License-Identifier: Apache-2.0
"""The strategy of Jobs."""

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.kinds.builtin.jobs.statuses import job_status_errors
from trainwright.controller.local.apiserver.kinds.builtin.jobs.updates import job_update_errors
from trainwright.controller.local.apiserver.kinds.builtin.jobs.validation import JOB_NAME_LABELS, UID_LABELS, job_errors
from trainwright.controller.local.apiserver.kinds.builtin.parts import ensure, entries, part
from trainwright.controller.local.apiserver.kinds.builtin.pods.defaults import default_template
from trainwright.controller.local.apiserver.kinds.builtin.pods.warnings import specification_warnings
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind

_BACKOFF_LIMIT = 6
_LARGEST = 2**31 - 1
_MANY_COMPLETIONS = 100_000
_MANY_AT_ONCE = 10_000


class JobStrategy(BuiltInStrategy):
    """Jobs: a selector made from the uid, an immutable template, dependents that stay by default."""

    deletion_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
        "or set propagationPolicy=Orphan to suppress this warning"
    )

    def __init__(self, kind: RecordedKind) -> None:
        super().__init__(kind)
        # The names of its pods made another rule of the recorder's answers, and its finalizer another answer.
        self.name_rule, self.returns_deleted = names.dns_subdomain, False

    def fill_in(self, document: Document) -> None:
        spec = document["spec"]
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        ensure(spec, "parallelism", 1)
        ensure(spec, "backoffLimit", _LARGEST if spec.get("backoffLimitPerIndex") is not None else _BACKOFF_LIMIT)
        default_template(spec["template"])
        metadata = document["metadata"]
        labels = spec["template"]["metadata"].get("labels")
        if labels and not metadata.get("labels"):
            # One object in two places, as in Go: the generated labels come to both.
            metadata["labels"] = labels
        ensure(spec, "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
        ensure(spec, "manualSelector", False)
        for rule in entries(part(spec, "podFailurePolicy"), "rules"):
            for pattern in entries(rule, "onPodConditions"):
                if not pattern.get("status"):
                    pattern["status"] = "True"

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        document["status"] = {}
        if not document["spec"].get("manualSelector"):
            _make_selector(document)
        metadata, labels = document["metadata"], document["spec"]["template"]["metadata"].get("labels")
        if labels and (not metadata.get("labels") or metadata["labels"] is labels):
            metadata["labels"] = dict(labels)

    def validate(self, document: Document) -> list[DocumentError]:
        return job_errors(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        return job_status_errors(new, old) if subresource == "status" else job_update_errors(new, old)

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        found: list[str] = []
        problems = names.dns_label(new["metadata"].get("name") or "") if old is None else []
        if problems:
            text = "this is used in Pod names and hostnames, which can result in surprising behavior"
            found.append(f"metadata.name: {text}; a DNS label is recommended: [{' '.join(problems)}]")
        spec = new["spec"]
        many = (spec.get("completions") or 0) > _MANY_COMPLETIONS and (spec.get("parallelism") or 0) > _MANY_AT_ONCE
        if spec.get("completionMode") == "Indexed" and many:
            found.append(
                "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
                "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
            )
        return found + specification_warnings(spec["template"]["spec"], "spec.template.spec")


def _make_selector(job: Document) -> None:
    """Select the pods by the uid of the Job. Labels that the template has already are checked by validation."""
    spec, metadata = job["spec"], job["metadata"]
    template = spec["template"]["metadata"]
    if template.get("labels") is None:
        template["labels"] = {}
    for key in JOB_NAME_LABELS:
        template["labels"].setdefault(key, metadata.get("name") or "")
    for key in UID_LABELS:
        template["labels"].setdefault(key, metadata.get("uid") or "")
    ensure(spec, "selector", {})
    ensure(spec["selector"], "matchLabels", {})
    spec["selector"]["matchLabels"].setdefault(UID_LABELS[1], metadata.get("uid") or "")
