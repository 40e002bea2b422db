# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumes, PersistentVolumeClaims and StorageClasses."""

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin import amounts
from trainwright.controller.local.apiserver.kinds.builtin.claims import (
    VOLUME_MODES,
    access_mode_errors,
    claim_spec_errors,
    claim_update_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    choice_errors,
    immutable_errors,
    name_errors,
    qualified_errors,
    same,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import ensure_filled, part
from trainwright.controller.local.apiserver.kinds.builtin.pods.defaults import round_up_resources
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, not_supported, required

SOURCES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
"""Where a volume's data can be."""
_SNAPSHOTS = "snapshot.storage.k8s.io"


class PersistentVolumeStrategy(BuiltInStrategy):
    """PersistentVolumes. The status says when the phase changed."""

    def fill_in(self, document: Document) -> None:
        ensure_filled(document["status"], "phase", "Pending")
        amounts.round_up(document["spec"], "capacity")

    def faults(self, document: Document) -> Errors:
        return _volume_errors(part(document, "spec"))

    def changes(self, new: Document, old: Document) -> Errors:
        spec, before = part(new, "spec"), part(old, "spec")
        found = immutable_errors(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
        if not same(_source(spec), _source(before)):
            found.append(forbidden("spec.persistentvolumesource", "is immutable after creation"))
        return found

    def prepare_for_create(self, document: Document) -> None:
        document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": times.format_time(times.wall_clock())}

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if subresource != "status":
            return
        status, before = new["status"], part(old, "status")
        said, known = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") == before.get("phase"):
            if said is None and known is not None:
                status["lastPhaseTransitionTime"] = known
        elif said is None or said == known:
            status["lastPhaseTransitionTime"] = times.format_time(times.wall_clock())


def _source(spec: Document) -> Document:
    return {key: value for key, value in spec.items() if key in SOURCES}


def _volume_errors(spec: Document) -> Errors:
    found = access_mode_errors(spec, "spec.accessModes")
    capacity = amounts.read(spec.get("capacity"))
    if not capacity:
        found.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        found.append(not_supported("spec.capacity", spec.get("capacity"), ("storage",)))
    for name, amount in capacity.items():
        if amount.nanos <= 0:
            found.append(invalid(f"spec.capacity[{name}]", amount.canonical(), "must be greater than zero"))
    policies = ("Delete", "Recycle", "Retain")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in policies:
        found.append(not_supported("spec.persistentVolumeReclaimPolicy", policy or "", policies))
    given = [name for name in SOURCES if spec.get(name) is not None]
    found += [forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in given[1:]]
    if not given:
        found.append(required("spec", "must specify a volume type"))
    return found + _mode_errors(spec)


def _mode_errors(spec: Document) -> Errors:
    found: Errors = []
    if spec.get("storageClassName"):
        found += name_errors(spec["storageClassName"], "spec.storageClassName", names.dns_subdomain)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        found.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    return found


class PersistentVolumeClaimStrategy(BuiltInStrategy):
    """PersistentVolumeClaims."""

    def fill_in(self, document: Document) -> None:
        round_up_resources(document["spec"]["resources"])
        for field in ("capacity", "allocatedResources"):
            amounts.round_up(document["status"], field)

    def prepare_for_create(self, document: Document) -> None:
        # The phase that the default set is lost here; it comes back when the stored object is read.
        document["status"] = {"phase": "Pending"}
        _normalise_sources(document["spec"], None)

    def faults(self, document: Document) -> Errors:
        return claim_spec_errors(part(document, "spec"), "spec")

    def changes(self, new: Document, old: Document) -> Errors:
        return claim_update_errors(new, old)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if not subresource:
            _normalise_sources(new["spec"], part(old, "spec"))


def _normalise_sources(spec: Document, before: Document | None) -> None:
    """Keep `dataSource` and `dataSourceRef` alike. An old source that is neither claim nor snapshot is dropped."""
    in_use = before is not None and (before.get("dataSource") or before.get("dataSourceRef"))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if not in_use and reference is None and source is not None:
        group = source.get("apiGroup") or ""
        if (group, source.get("kind")) not in (("", "PersistentVolumeClaim"), (_SNAPSHOTS, "VolumeSnapshot")):
            del spec["dataSource"]
            source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = _reference(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = _reference(reference)


def _reference(source: Document) -> Document:
    return {field: source.get(field) for field in ("apiGroup", "kind", "name")}


class StorageClassStrategy(BuiltInStrategy):
    """StorageClasses."""

    def faults(self, document: Document) -> Errors:
        provisioner = document.get("provisioner") or ""
        found = qualified_errors(provisioner.lower(), "provisioner") if provisioner else [required("provisioner")]
        policy, mode = document.get("reclaimPolicy"), document.get("volumeBindingMode")
        if policy and policy not in ("Delete", "Retain"):
            found.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
        return found + choice_errors(mode, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))

    def changes(self, new: Document, old: Document) -> Errors:
        fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return [error for field in fields for error in immutable_errors(new.get(field), old.get(field), field)]
