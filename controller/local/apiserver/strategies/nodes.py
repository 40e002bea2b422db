# SPDX-License-Identifier: Apache-2.0
"""Nodes, RuntimeClasses and Leases."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies import amounts
from trainwright.controller.local.apiserver.strategies.parts import ensure, part, texts
from trainwright.controller.local.apiserver.strategies.strategy import Strategy, WithSpec

_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
"""What Go writes of a node also when it is empty."""


class NodeStrategy(WithSpec):
    """Nodes. A creation may say the status."""

    has_generation = False

    def default(self, document: Document) -> None:
        ensure(document, "spec", {})
        ensure(document, "status", {})
        spec, status = document["spec"], document["status"]
        single, plural = spec.get("podCIDR"), texts(spec, "podCIDRs")
        if single and (not plural or plural[0] != single):
            spec["podCIDRs"] = [single]
        elif plural:
            spec["podCIDR"] = plural[0]
        ensure(status, "daemonEndpoints", {})
        ensure(status["daemonEndpoints"], "kubeletEndpoint", {"Port": 0})
        ensure(status, "nodeInfo", {})
        for field in _NODE_INFO:
            ensure(status["nodeInfo"], field, "")
        if status.get("capacity") and status.get("allocatable") is None:
            status["allocatable"] = dict(status["capacity"])
        amounts.round_up(status, "capacity")
        amounts.round_up(status, "allocatable")

    def prepare_create(self, document: Document) -> None:
        document["spec"].pop("configSource", None)
        document["status"].pop("config", None)

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if "configSource" not in part(old, "spec"):
            part(new, "spec").pop("configSource", None)

    def selectable(self, document: Document) -> dict[str, str]:
        unschedulable = part(document, "spec").get("unschedulable")
        return {**super().selectable(document), "spec.unschedulable": "true" if unschedulable else "false"}

    def warnings(self, new: Document, old: Document | None) -> list[str]:  # noqa: ARG002
        spec = part(new, "spec")
        found: list[str] = []
        if spec.get("configSource") is not None:
            found.append("spec.configSource: the feature is removed")
        if spec.get("externalID"):
            found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        return found


class RuntimeClassStrategy(Strategy):
    """RuntimeClasses."""

    create_on_update = True
    unconditional_update = False

    def default(self, document: Document) -> None:
        amounts.round_up(part(document, "overhead"), "podFixed")


class LeaseStrategy(Strategy):
    """Leases."""

    create_on_update = True
    unconditional_update = False

    def default(self, document: Document) -> None:
        ensure(document, "spec", {})

    def prepare_create(self, document: Document) -> None:
        # Coordinated leader election is off by default.
        for field in ("strategy", "preferredHolder"):
            document["spec"].pop(field, None)

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:  # noqa: ARG002
        for field in ("strategy", "preferredHolder"):
            if part(old, "spec").get(field) is None:
                new["spec"].pop(field, None)
