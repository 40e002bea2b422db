# SPDX-License-Identifier: Apache-2.0
"""Kinds of long-running pods, which are stored and not run: defaults that hang on more than one field."""

import copy

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.built_in_strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.parts import ensure, ensure_filled, entries, part
from trainwright.controller.local.apiserver.kinds.rules import check
from trainwright.controller.local.apiserver.kinds.ruletests import register
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind
from trainwright.controller.local.types.go_json import normalize


class ReplicationControllerStrategy(BuiltInStrategy):
    """A ReplicationController selects the pods of its template."""

    def default(self, document: Document) -> None:
        normalize(document, self.kind.model)
        template = document["spec"].get("template")
        labels = part(part(template or {}, "metadata"), "labels")
        if labels:
            ensure_filled(document["spec"], "selector", dict(labels))
            ensure_filled(document["metadata"], "labels", dict(labels))
        super().default(document)


class DaemonSetStrategy(BuiltInStrategy):
    """DaemonSets have an annotation in place of a field of old versions."""

    def default(self, document: Document) -> None:
        super().default(document)
        ensure(document["metadata"], "annotations", {})
        document["metadata"]["annotations"].setdefault("deprecated.daemonset.template.generation", "1")


class StatefulSetStrategy(BuiltInStrategy):
    """StatefulSets. Their pods have the volumes of the claim templates, as the controller makes them."""

    def __init__(self, kind: RecordedKind) -> None:
        super().__init__(kind)
        self.templates = ("spec.template",)

    def default(self, document: Document) -> None:
        normalize(document, self.kind.model)
        # Only who says no type gets `rollingUpdate`. `maxUnavailable` is of a feature that is off by default.
        strategy = document["spec"]["updateStrategy"]
        if not strategy.get("type"):
            ensure(strategy, "rollingUpdate", {})
        if (rolling := strategy.get("rollingUpdate")) is not None:
            rolling.pop("maxUnavailable", None)
            ensure(rolling, "partition", 0)
        super().default(document)


@register("template with claims")
def _template_errors(spec: Document, field: str, _: Document) -> Errors:
    template = copy.deepcopy(part(spec, "template"))
    names = [part(claim, "metadata").get("name") or "" for claim in entries(spec, "volumeClaimTemplates")]
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    if claims:
        pod = part(template, "spec")
        pod["volumes"] = claims + [one for one in entries(pod, "volumes") if one.get("name") not in names]
    return check("PodTemplate", template, f"{field}.template")
