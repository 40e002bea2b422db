# SPDX-License-Identifier: Apache-2.0
"""Jobs: their selector, their defaults, and what no rule of `rules/jobs.json` says of their template."""

from trainwright.api import names
from trainwright.api.conditions import is_true
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import Errors, immutable_errors, same
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE, ensure, entries, part
from trainwright.controller.local.apiserver.kinds.podspecs import fixed_part, pod_spec_warnings, selects
from trainwright.controller.local.apiserver.kinds.rules import register
from trainwright.controller.local.apiserver.kinds.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind
from trainwright.controller.local.types.errors import DocumentError, invalid, required

_JOB_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_BACKOFF_LIMIT = 6
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


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

    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        ensure(spec, "parallelism", 1)
        ensure(spec, "backoffLimit", _BACKOFF_LIMIT)
        metadata = document["metadata"]
        labels = spec["template"]["metadata"].get("labels")
        if labels and not metadata.get("labels"):
            # One object in two places, as in Go: generated labels come to both.
            metadata["labels"] = labels
        ensure(spec, "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
        ensure(spec, "manualSelector", False)
        for rule in entries(part(spec, "podFailurePolicy"), "rules"):
            for pattern in entries(rule, "onPodConditions"):
                if not pattern.get("status"):
                    pattern["status"] = "True"

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        metadata, template = document["metadata"], document["spec"]["template"]["metadata"]
        has_own_labels = metadata.get("labels") and metadata["labels"] is not template.get("labels")
        if not document["spec"].get("manualSelector"):
            _make_selector(document)
        if template.get("labels") and not has_own_labels:
            metadata["labels"] = dict(template["labels"])

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = super().validate_update(new, old, subresource)
        return found if subresource else found + _template_errors(new, old)

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        if old is not None:
            return []
        problems = names.dns_label(new["metadata"].get("name") or "")
        text = "this is used in Pod names and hostnames, which can result in surprising behavior"
        told = [f"metadata.name: {text}; a DNS label is recommended: [{' '.join(problems)}]"] if problems else []
        return [*told, *pod_spec_warnings(new["spec"]["template"]["spec"], "spec.template.spec")]


def _make_selector(job: Document) -> None:
    """Select the pods by the uid of the Job. Labels that the template has already are checked by validation."""
    spec, template = job["spec"], job["spec"]["template"]["metadata"]
    generated = _generated_labels(job)
    template["labels"] = generated | part(template, "labels")
    ensure(spec, "selector", {})
    ensure(spec["selector"], "matchLabels", {})
    spec["selector"]["matchLabels"].setdefault(_UID_LABELS[1], generated[_UID_LABELS[1]])


def _generated_labels(job: Document) -> dict[str, str]:
    metadata = part(job, "metadata")
    return dict.fromkeys(_UID_LABELS, metadata.get("uid") or "") | dict.fromkeys(
        _JOB_NAME_LABELS, metadata.get("name") or ""
    )


# -------------------------------------------------------------- checks that rules call


@register("generated selector")
def _generated_selector_errors(job: Document, _: str, __: Document) -> Errors:
    """Unless a Job has a selector of its own, its template has the labels that the server makes."""
    spec = part(job, "spec")
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = part(part(part(spec, "template"), "metadata"), "labels")
    found: Errors = []
    generated = _generated_labels(job)
    for key, value in generated.items():
        field = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            found.append(required(field, f"must be '{value}'"))
        elif labels[key] != value:
            found.append(invalid(field, labels[key], f"must be '{value}'"))
    if selects(spec["selector"], generated) is False:
        found.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return found


@register("host names")
def _host_name_errors(job: Document, _: str, __: Document) -> Errors:
    """The pods of an Indexed Job have its name and their index as their host's name."""
    spec, name = part(job, "spec"), part(job, "metadata").get("name") or ""
    host = f"{name}-{(spec.get('completions') or 1) - 1}"
    if spec.get("completionMode") != "Indexed" or not names.dns_label(host):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}")]


@register("ordered")
def _order_errors(values: list[int], field: str, _: Document) -> Errors:
    return [] if values == sorted(values) else [invalid(field, values, "must be ordered")]


# -------------------------------------------------------------- updates


def may_change_template(job: Document) -> bool:
    """Whether scheduling directives and resources of the template may change: nothing runs by it."""
    spec, status = part(job, "spec"), part(job, "status")
    idle = status.get("startTime") is None or is_true(status.get("conditions"), "Suspended")
    return bool(spec.get("suspend")) and idle and not status.get("active")


def _template_errors(job: Document, old: Document) -> Errors:
    """The template is immutable, except for suspended Jobs (KEP-2926, KEP-5440)."""
    template, before = part(part(job, "spec"), "template"), part(part(old, "spec"), "template")
    if not may_change_template(old):
        return immutable_errors(template, before, "spec.template")
    now, then = (fixed_part(part(one, "spec"), _SCHEDULING, "resources") for one in (template, before))
    return [] if same(now, then) else [invalid("spec.template.spec", part(template, "spec"), IMMUTABLE)]
