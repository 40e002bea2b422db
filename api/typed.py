# SPDX-License-Identifier: Apache-2.0
"""Documents in the form that Go's typed clients write.

Kubeflow Trainer decodes templates into Go structs and writes those. Most optional fields of these cannot be set to
zero: `tty: false`, `maxRestarts: 0`, `value: ""` and `command: []` are left out. Two fields are always written. The
JobSets of existing jobs have this form; a job with `replicas: 0` runs once, for example. Fields that a model does not
know are kept.
"""

from collections.abc import Mapping
from typing import Any

from trainwright.api.base import Struct, copy_open
from trainwright.api.merge import Field, fields

_POINTERS = frozenset(
    """activeDeadlineSeconds allowPrivilegeEscalation automountServiceAccountToken backoffLimit backoffLimitPerIndex
    completionMode completions defaultMode enableDNSHostnames enableServiceLinks expirationSeconds fsGroup
    fsGroupChangePolicy gmsaCredentialSpec gmsaCredentialSpecName hostProcess hostUsers hostnameOverride initiatorName
    localhostProfile lun managedBy manualSelector maxExpirationSeconds maxFailedIndexes minDomains mode
    mountPropagation nodeAffinityPolicy nodeTaintsPolicy optional parallelism podGroupName podReplacementPolicy
    preemptionPolicy priority privileged procMount publishNotReadyAddresses readOnlyRootFilesystem recursiveReadOnly
    resourceClaimName resourceClaimTemplateName runAsGroup runAsNonRoot runAsUser runAsUserName runtimeClassName
    seLinuxChangePolicy service setHostnameAsFQDN shareProcessNamespace sizeLimit sources stopSignal storageClassName
    succeededCount succeededIndexes supplementalGroupsPolicy suspend terminationGracePeriodSeconds tolerationSeconds
    ttlSecondsAfterFinished volumeAttributesClassName volumeMode apiGroup""".split()  # noqa: SIM905 - as a list, seventy lines
)
"""Optional fields that are pointers in Go, in all structs: zero is a value of theirs. Source: k8s.io/api v0.36 and
sigs.k8s.io/jobset v0.12, below JobSetSpec."""
_POINTERS_OF: Mapping[str, frozenset[str]] = {
    "AzureDiskVolumeSource": frozenset({"cachingMode", "fsType", "kind", "readOnly"}),
    "CSIVolumeSource": frozenset({"fsType", "readOnly"}),
    "ClusterTrustBundleProjection": frozenset({"name", "signerName"}),
    "Container": frozenset({"restartPolicy"}),
    "HostPathVolumeSource": frozenset({"type"}),
    "PodDNSConfigOption": frozenset({"value"}),
    "PodFailurePolicyOnExitCodesRequirement": frozenset({"containerName"}),
    "TypedObjectReference": frozenset({"namespace"}),
}
"""Fields that are pointers in these structs only."""
_ALWAYS: Mapping[str, Mapping[str, str]] = {
    "ResourceFieldSelector": {"divisor": "0"},
    "PodFailurePolicyOnPodConditionsPattern": {"status": ""},
}
"""Optional fields that are written even when they are not set."""


def as_typed(model: type[Struct], document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the document of a struct, without the zero values that Go does not write."""
    known = fields(model)
    typed = {name: _value(known.get(name), value) for name, value in document.items()}
    written = {name: value for name, value in typed.items() if not _is_left_out(model, known.get(name), value)}
    return {**_ALWAYS.get(model.__name__, {}), **written}


def _value(field: Field | None, value: Any) -> Any:
    if field is None or field.struct is None:
        return copy_open(value)
    if isinstance(value, list):
        return [_item(field.struct, item) for item in value]
    return _item(field.struct, value)


def _item(model: type[Struct], value: Any) -> Any:
    return as_typed(model, value) if isinstance(value, dict) else copy_open(value)


def _is_left_out(model: type[Struct], field: Field | None, value: Any) -> bool:
    if field is None or field.required or field.shape in ("struct", "open"):
        return value is None
    if field.wire in _POINTERS or field.wire in _POINTERS_OF.get(model.__name__, ()):
        return value is None
    return not value
