# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of core/v1; import them from the package."""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class AWSElasticBlockStoreVolumeSource(Struct, kw_only=True):
    """AWSElasticBlockStoreVolumeSource of core/v1."""

    volume_id: str = field(name="volumeID")
    fs_type: str | None = field(name="fsType", default=None)
    partition: int | None = None
    read_only: bool | None = field(name="readOnly", default=None)


class AppArmorProfile(Struct, kw_only=True):
    """AppArmorProfile of core/v1."""

    type: str
    localhost_profile: str | None = field(name="localhostProfile", default=None)


class AttachedVolume(Struct, kw_only=True):
    """AttachedVolume of core/v1."""

    device_path: str = field(name="devicePath")
    name: str


class AzureDiskVolumeSource(Struct, kw_only=True):
    """AzureDiskVolumeSource of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "fs_type": "ext4",
        "read_only": False,
    }

    disk_name: str = field(name="diskName")
    disk_uri: str = field(name="diskURI")
    caching_mode: str | None = field(name="cachingMode", default=None)
    fs_type: str | None = field(name="fsType", default=None)
    kind: str | None = None
    read_only: bool | None = field(name="readOnly", default=None)


class AzureFileVolumeSource(Struct, kw_only=True):
    """AzureFileVolumeSource of core/v1."""

    secret_name: str = field(name="secretName")
    share_name: str = field(name="shareName")
    read_only: bool | None = field(name="readOnly", default=None)


class Capabilities(Struct, kw_only=True):
    """Capabilities of core/v1."""

    add: list[str] | None = None
    drop: list[str] | None = None


class ClientIPConfig(Struct, kw_only=True):
    """ClientIPConfig of core/v1."""

    timeout_seconds: int | None = field(name="timeoutSeconds", default=None)


class ConfigMapEnvSource(Struct, kw_only=True):
    """ConfigMapEnvSource of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    name: str | None = None
    optional: bool | None = None


class ConfigMapKeySelector(Struct, kw_only=True):
    """ConfigMapKeySelector of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    key: str
    name: str | None = None
    optional: bool | None = None


class ConfigMapNodeConfigSource(Struct, kw_only=True):
    """ConfigMapNodeConfigSource of core/v1."""

    kubelet_config_key: str = field(name="kubeletConfigKey")
    name: str
    namespace: str
    resource_version: str | None = field(name="resourceVersion", default=None)
    uid: str | None = None


class ContainerExtendedResourceRequest(Struct, kw_only=True):
    """ContainerExtendedResourceRequest of core/v1."""

    container_name: str = field(name="containerName")
    request_name: str = field(name="requestName")
    resource_name: str = field(name="resourceName")


class ContainerImage(Struct, kw_only=True):
    """ContainerImage of core/v1."""

    names: list[str] | None = None
    size_bytes: int | None = field(name="sizeBytes", default=None)


class ContainerPort(Struct, kw_only=True):
    """ContainerPort of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "protocol": "TCP",
    }

    container_port: int = field(name="containerPort")
    host_ip: str | None = field(name="hostIP", default=None)
    host_port: int | None = field(name="hostPort", default=None)
    name: str | None = None
    protocol: str | None = None


class ContainerResizePolicy(Struct, kw_only=True):
    """ContainerResizePolicy of core/v1."""

    resource_name: str = field(name="resourceName")
    restart_policy: str = field(name="restartPolicy")


class ContainerRestartRuleOnExitCodes(Struct, kw_only=True):
    """ContainerRestartRuleOnExitCodes of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "values": Merge("set"),
    }

    operator: str
    values: list[int] | None = None


class ContainerStateRunning(Struct, kw_only=True):
    """ContainerStateRunning of core/v1."""

    started_at: str | None = field(name="startedAt", default=None)


class ContainerStateTerminated(Struct, kw_only=True):
    """ContainerStateTerminated of core/v1."""

    exit_code: int = field(name="exitCode")
    container_id: str | None = field(name="containerID", default=None)
    finished_at: str | None = field(name="finishedAt", default=None)
    message: str | None = None
    reason: str | None = None
    signal: int | None = None
    started_at: str | None = field(name="startedAt", default=None)


class ContainerStateWaiting(Struct, kw_only=True):
    """ContainerStateWaiting of core/v1."""

    message: str | None = None
    reason: str | None = None


class DaemonEndpoint(Struct, kw_only=True):
    """DaemonEndpoint of core/v1."""

    port: int = field(name="Port")


class EmptyDirVolumeSource(Struct, kw_only=True):
    """EmptyDirVolumeSource of core/v1."""

    medium: str | None = None
    size_limit: int | float | str | None = field(name="sizeLimit", default=None)


class EventSource(Struct, kw_only=True):
    """EventSource of core/v1."""

    component: str | None = None
    host: str | None = None


class ExecAction(Struct, kw_only=True):
    """ExecAction of core/v1."""

    command: list[str] | None = None


class FCVolumeSource(Struct, kw_only=True):
    """FCVolumeSource of core/v1."""

    fs_type: str | None = field(name="fsType", default=None)
    lun: int | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    target_wwns: list[str] | None = field(name="targetWWNs", default=None)
    wwids: list[str] | None = None


class FileKeySelector(Struct, kw_only=True):
    """FileKeySelector of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "optional": False,
    }

    key: str
    path: str
    volume_name: str = field(name="volumeName")
    optional: bool | None = None


class FlockerVolumeSource(Struct, kw_only=True):
    """FlockerVolumeSource of core/v1."""

    dataset_name: str | None = field(name="datasetName", default=None)
    dataset_uuid: str | None = field(name="datasetUUID", default=None)


class GCEPersistentDiskVolumeSource(Struct, kw_only=True):
    """GCEPersistentDiskVolumeSource of core/v1."""

    pd_name: str = field(name="pdName")
    fs_type: str | None = field(name="fsType", default=None)
    partition: int | None = None
    read_only: bool | None = field(name="readOnly", default=None)


class GRPCAction(Struct, kw_only=True):
    """GRPCAction of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "service": "",
    }

    port: int
    service: str | None = None


class GitRepoVolumeSource(Struct, kw_only=True):
    """GitRepoVolumeSource of core/v1."""

    repository: str
    directory: str | None = None
    revision: str | None = None


class GlusterfsVolumeSource(Struct, kw_only=True):
    """GlusterfsVolumeSource of core/v1."""

    endpoints: str
    path: str
    read_only: bool | None = field(name="readOnly", default=None)


class HTTPHeader(Struct, kw_only=True):
    """HTTPHeader of core/v1."""

    name: str
    value: str


class HostAlias(Struct, kw_only=True):
    """HostAlias of core/v1."""

    ip: str
    hostnames: list[str] | None = None


class HostIP(Struct, kw_only=True):
    """HostIP of core/v1."""

    ip: str


class HostPathVolumeSource(Struct, kw_only=True):
    """HostPathVolumeSource of core/v1."""

    path: str
    type: str | None = None


class ImageVolumeSource(Struct, kw_only=True):
    """ImageVolumeSource of core/v1."""

    pull_policy: str | None = field(name="pullPolicy", default=None)
    reference: str | None = None


class ImageVolumeStatus(Struct, kw_only=True):
    """ImageVolumeStatus of core/v1."""

    image_ref: str = field(name="imageRef")


class KeyToPath(Struct, kw_only=True):
    """KeyToPath of core/v1."""

    key: str
    path: str
    mode: int | None = None


class LimitRangeItem(Struct, kw_only=True):
    """LimitRangeItem of core/v1."""

    type: str
    default: dict[str, int | float | str] | None = None
    default_request: dict[str, int | float | str] | None = field(name="defaultRequest", default=None)
    max: dict[str, int | float | str] | None = None
    max_limit_request_ratio: dict[str, int | float | str] | None = field(name="maxLimitRequestRatio", default=None)
    min: dict[str, int | float | str] | None = None


class LimitRangeSpec(Struct, kw_only=True):
    """LimitRangeSpec of core/v1."""

    limits: list[LimitRangeItem] | None = None


class LinuxContainerUser(Struct, kw_only=True):
    """LinuxContainerUser of core/v1."""

    gid: int
    uid: int
    supplemental_groups: list[int] | None = field(name="supplementalGroups", default=None)


class LocalObjectReference(Struct, kw_only=True):
    """LocalObjectReference of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    name: str | None = None


class ModifyVolumeStatus(Struct, kw_only=True):
    """ModifyVolumeStatus of core/v1."""

    status: str
    target_volume_attributes_class_name: str | None = field(name="targetVolumeAttributesClassName", default=None)


class NFSVolumeSource(Struct, kw_only=True):
    """NFSVolumeSource of core/v1."""

    path: str
    server: str
    read_only: bool | None = field(name="readOnly", default=None)


class NamespaceCondition(Struct, kw_only=True):
    """NamespaceCondition of core/v1."""

    status: str
    type: str
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    message: str | None = None
    reason: str | None = None


class NamespaceSpec(Struct, kw_only=True):
    """NamespaceSpec of core/v1."""

    finalizers: list[str] | None = None


class NamespaceStatus(Struct, kw_only=True):
    """NamespaceStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    conditions: list[NamespaceCondition] | None = None
    phase: str | None = None


class NodeAddress(Struct, kw_only=True):
    """NodeAddress of core/v1."""

    address: str
    type: str


class NodeAllocatableResourceClaimStatus(Struct, kw_only=True):
    """NodeAllocatableResourceClaimStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "containers": Merge("set"),
    }

    resource_claim_name: str = field(name="resourceClaimName")
    resources: dict[str, int | float | str]
    containers: list[str] | None = None


class NodeCondition(Struct, kw_only=True):
    """NodeCondition of core/v1."""

    status: str
    type: str
    last_heartbeat_time: str | None = field(name="lastHeartbeatTime", default=None)
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    message: str | None = None
    reason: str | None = None


class NodeConfigSource(Struct, kw_only=True):
    """NodeConfigSource of core/v1."""

    config_map: ConfigMapNodeConfigSource | None = field(name="configMap", default=None)

    config_map_or_empty = OrEmpty(ConfigMapNodeConfigSource)


class NodeConfigStatus(Struct, kw_only=True):
    """NodeConfigStatus of core/v1."""

    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str | None = None
    last_known_good: NodeConfigSource | None = field(name="lastKnownGood", default=None)

    active_or_empty = OrEmpty(NodeConfigSource)
    assigned_or_empty = OrEmpty(NodeConfigSource)
    last_known_good_or_empty = OrEmpty(NodeConfigSource)


class NodeDaemonEndpoints(Struct, kw_only=True):
    """NodeDaemonEndpoints of core/v1."""

    kubelet_endpoint: DaemonEndpoint | None = field(name="kubeletEndpoint", default=None)

    kubelet_endpoint_or_empty = OrEmpty(DaemonEndpoint)


class NodeFeatures(Struct, kw_only=True):
    """NodeFeatures of core/v1."""

    supplemental_groups_policy: bool | None = field(name="supplementalGroupsPolicy", default=None)


class NodeRuntimeHandlerFeatures(Struct, kw_only=True):
    """NodeRuntimeHandlerFeatures of core/v1."""

    recursive_read_only_mounts: bool | None = field(name="recursiveReadOnlyMounts", default=None)
    user_namespaces: bool | None = field(name="userNamespaces", default=None)


class NodeSelectorRequirement(Struct, kw_only=True):
    """NodeSelectorRequirement of core/v1."""

    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(Struct, kw_only=True):
    """NodeSelectorTerm of core/v1."""

    match_expressions: list[NodeSelectorRequirement] | None = field(name="matchExpressions", default=None)
    match_fields: list[NodeSelectorRequirement] | None = field(name="matchFields", default=None)


class NodeSwapStatus(Struct, kw_only=True):
    """NodeSwapStatus of core/v1."""

    capacity: int | None = None


class NodeSystemInfo(Struct, kw_only=True):
    """NodeSystemInfo of core/v1."""

    architecture: str
    boot_id: str = field(name="bootID")
    container_runtime_version: str = field(name="containerRuntimeVersion")
    kernel_version: str = field(name="kernelVersion")
    kube_proxy_version: str = field(name="kubeProxyVersion")
    kubelet_version: str = field(name="kubeletVersion")
    machine_id: str = field(name="machineID")
    operating_system: str = field(name="operatingSystem")
    os_image: str = field(name="osImage")
    system_uuid: str = field(name="systemUUID")
    swap: NodeSwapStatus | None = None

    swap_or_empty = OrEmpty(NodeSwapStatus)


class ObjectFieldSelector(Struct, kw_only=True):
    """ObjectFieldSelector of core/v1."""

    field_path: str = field(name="fieldPath")
    api_version: str | None = field(name="apiVersion", default=None)


class ObjectReference(Struct, kw_only=True):
    """ObjectReference of core/v1."""

    api_version: str | None = field(name="apiVersion", default=None)
    field_path: str | None = field(name="fieldPath", default=None)
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = field(name="resourceVersion", default=None)
    uid: str | None = None


class PersistentVolumeClaimCondition(Struct, kw_only=True):
    """PersistentVolumeClaimCondition of core/v1."""

    status: str
    type: str
    last_probe_time: str | None = field(name="lastProbeTime", default=None)
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    message: str | None = None
    reason: str | None = None


class PersistentVolumeClaimStatus(Struct, kw_only=True):
    """PersistentVolumeClaimStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    access_modes: list[str] | None = field(name="accessModes", default=None)
    allocated_resource_statuses: dict[str, str] | None = field(name="allocatedResourceStatuses", default=None)
    allocated_resources: dict[str, int | float | str] | None = field(name="allocatedResources", default=None)
    capacity: dict[str, int | float | str] | None = None
    conditions: list[PersistentVolumeClaimCondition] | None = None
    current_volume_attributes_class_name: str | None = field(name="currentVolumeAttributesClassName", default=None)
    modify_volume_status: ModifyVolumeStatus | None = field(name="modifyVolumeStatus", default=None)
    phase: str | None = None

    modify_volume_status_or_empty = OrEmpty(ModifyVolumeStatus)


class PersistentVolumeClaimVolumeSource(Struct, kw_only=True):
    """PersistentVolumeClaimVolumeSource of core/v1."""

    claim_name: str = field(name="claimName")
    read_only: bool | None = field(name="readOnly", default=None)


class PhotonPersistentDiskVolumeSource(Struct, kw_only=True):
    """PhotonPersistentDiskVolumeSource of core/v1."""

    pd_id: str = field(name="pdID")
    fs_type: str | None = field(name="fsType", default=None)


class PodCertificateProjection(Struct, kw_only=True):
    """PodCertificateProjection of core/v1."""

    key_type: str = field(name="keyType")
    signer_name: str = field(name="signerName")
    certificate_chain_path: str | None = field(name="certificateChainPath", default=None)
    credential_bundle_path: str | None = field(name="credentialBundlePath", default=None)
    key_path: str | None = field(name="keyPath", default=None)
    max_expiration_seconds: int | None = field(name="maxExpirationSeconds", default=None)
    user_annotations: dict[str, str] | None = field(name="userAnnotations", default=None)


class PodCondition(Struct, kw_only=True):
    """PodCondition of core/v1."""

    status: str
    type: str
    last_probe_time: str | None = field(name="lastProbeTime", default=None)
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    message: str | None = None
    observed_generation: int | None = field(name="observedGeneration", default=None)
    reason: str | None = None


class PodDNSConfigOption(Struct, kw_only=True):
    """PodDNSConfigOption of core/v1."""

    name: str | None = None
    value: str | None = None


class PodExtendedResourceClaimStatus(Struct, kw_only=True):
    """PodExtendedResourceClaimStatus of core/v1."""

    request_mappings: list[ContainerExtendedResourceRequest] = field(name="requestMappings")
    resource_claim_name: str = field(name="resourceClaimName")


class PodIP(Struct, kw_only=True):
    """PodIP of core/v1."""

    ip: str


class PodOS(Struct, kw_only=True):
    """PodOS of core/v1."""

    name: str


class PodReadinessGate(Struct, kw_only=True):
    """PodReadinessGate of core/v1."""

    condition_type: str = field(name="conditionType")


class PodResourceClaim(Struct, kw_only=True):
    """PodResourceClaim of core/v1."""

    name: str
    resource_claim_name: str | None = field(name="resourceClaimName", default=None)
    resource_claim_template_name: str | None = field(name="resourceClaimTemplateName", default=None)


class PodResourceClaimStatus(Struct, kw_only=True):
    """PodResourceClaimStatus of core/v1."""

    name: str
    resource_claim_name: str | None = field(name="resourceClaimName", default=None)


class PodSchedulingGate(Struct, kw_only=True):
    """PodSchedulingGate of core/v1."""

    name: str


class PodSchedulingGroup(Struct, kw_only=True):
    """PodSchedulingGroup of core/v1."""

    pod_group_name: str | None = field(name="podGroupName", default=None)


class PortStatus(Struct, kw_only=True):
    """PortStatus of core/v1."""

    port: int
    protocol: str
    error: str | None = None


class PortworxVolumeSource(Struct, kw_only=True):
    """PortworxVolumeSource of core/v1."""

    volume_id: str = field(name="volumeID")
    fs_type: str | None = field(name="fsType", default=None)
    read_only: bool | None = field(name="readOnly", default=None)


class PreferredSchedulingTerm(Struct, kw_only=True):
    """PreferredSchedulingTerm of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "preference": Merge("atomic"),
    }

    preference: NodeSelectorTerm
    weight: int


class QuobyteVolumeSource(Struct, kw_only=True):
    """QuobyteVolumeSource of core/v1."""

    registry: str
    volume: str
    group: str | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    tenant: str | None = None
    user: str | None = None


class RBDVolumeSource(Struct, kw_only=True):
    """RBDVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "keyring": "/etc/ceph/keyring",
        "pool": "rbd",
        "user": "admin",
    }

    image: str
    monitors: list[str]
    fs_type: str | None = field(name="fsType", default=None)
    keyring: str | None = None
    pool: str | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)
    user: str | None = None

    secret_ref_or_empty = OrEmpty(LocalObjectReference)


class ResourceClaim(Struct, kw_only=True):
    """ResourceClaim of core/v1."""

    name: str
    request: str | None = None


class ResourceFieldSelector(Struct, kw_only=True):
    """ResourceFieldSelector of core/v1."""

    resource: str
    container_name: str | None = field(name="containerName", default=None)
    divisor: int | float | str | None = None


class ResourceHealth(Struct, kw_only=True):
    """ResourceHealth of core/v1."""

    resource_id: str = field(name="resourceID")
    health: str | None = None
    message: str | None = None


class ResourceRequirements(Struct, kw_only=True):
    """ResourceRequirements of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "claims": Merge("map", keys=("name",)),
    }

    claims: list[ResourceClaim] | None = None
    limits: dict[str, int | float | str] | None = None
    requests: dict[str, int | float | str] | None = None


class ResourceStatus(Struct, kw_only=True):
    """ResourceStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "resources": Merge("map", keys=("resourceID",)),
    }

    name: str
    resources: list[ResourceHealth] | None = None


class SELinuxOptions(Struct, kw_only=True):
    """SELinuxOptions of core/v1."""

    level: str | None = None
    role: str | None = None
    type: str | None = None
    user: str | None = None


class ScaleIOVolumeSource(Struct, kw_only=True):
    """ScaleIOVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "fs_type": "xfs",
        "storage_mode": "ThinProvisioned",
    }

    gateway: str
    secret_ref: LocalObjectReference = field(name="secretRef")
    system: str
    fs_type: str | None = field(name="fsType", default=None)
    protection_domain: str | None = field(name="protectionDomain", default=None)
    read_only: bool | None = field(name="readOnly", default=None)
    ssl_enabled: bool | None = field(name="sslEnabled", default=None)
    storage_mode: str | None = field(name="storageMode", default=None)
    storage_pool: str | None = field(name="storagePool", default=None)
    volume_name: str | None = field(name="volumeName", default=None)


class SeccompProfile(Struct, kw_only=True):
    """SeccompProfile of core/v1."""

    type: str
    localhost_profile: str | None = field(name="localhostProfile", default=None)


class SecretEnvSource(Struct, kw_only=True):
    """SecretEnvSource of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    name: str | None = None
    optional: bool | None = None


class SecretKeySelector(Struct, kw_only=True):
    """SecretKeySelector of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    key: str
    name: str | None = None
    optional: bool | None = None


class SecretProjection(Struct, kw_only=True):
    """SecretProjection of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None


class SecretVolumeSource(Struct, kw_only=True):
    """SecretVolumeSource of core/v1."""

    default_mode: int | None = field(name="defaultMode", default=None)
    items: list[KeyToPath] | None = None
    optional: bool | None = None
    secret_name: str | None = field(name="secretName", default=None)


class ServiceAccountTokenProjection(Struct, kw_only=True):
    """ServiceAccountTokenProjection of core/v1."""

    path: str
    audience: str | None = None
    expiration_seconds: int | None = field(name="expirationSeconds", default=None)


class ServicePort(Struct, kw_only=True):
    """ServicePort of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "protocol": "TCP",
    }

    port: int
    app_protocol: str | None = field(name="appProtocol", default=None)
    name: str | None = None
    node_port: int | None = field(name="nodePort", default=None)
    protocol: str | None = None
    target_port: int | str | None = field(name="targetPort", default=None)


class SessionAffinityConfig(Struct, kw_only=True):
    """SessionAffinityConfig of core/v1."""

    client_ip: ClientIPConfig | None = field(name="clientIP", default=None)

    client_ip_or_empty = OrEmpty(ClientIPConfig)


class SleepAction(Struct, kw_only=True):
    """SleepAction of core/v1."""

    seconds: int


class StorageOSVolumeSource(Struct, kw_only=True):
    """StorageOSVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    fs_type: str | None = field(name="fsType", default=None)
    read_only: bool | None = field(name="readOnly", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)
    volume_name: str | None = field(name="volumeName", default=None)
    volume_namespace: str | None = field(name="volumeNamespace", default=None)

    secret_ref_or_empty = OrEmpty(LocalObjectReference)


class Sysctl(Struct, kw_only=True):
    """Sysctl of core/v1."""

    name: str
    value: str


class TCPSocketAction(Struct, kw_only=True):
    """TCPSocketAction of core/v1."""

    port: int | str
    host: str | None = None


class Taint(Struct, kw_only=True):
    """Taint of core/v1."""

    effect: str
    key: str
    time_added: str | None = field(name="timeAdded", default=None)
    value: str | None = None


class Toleration(Struct, kw_only=True):
    """Toleration of core/v1."""

    effect: str | None = None
    key: str | None = None
    operator: str | None = None
    toleration_seconds: int | None = field(name="tolerationSeconds", default=None)
    value: str | None = None


class TypedLocalObjectReference(Struct, kw_only=True):
    """TypedLocalObjectReference of core/v1."""

    kind: str
    name: str
    api_group: str | None = field(name="apiGroup", default=None)


class TypedObjectReference(Struct, kw_only=True):
    """TypedObjectReference of core/v1."""

    kind: str
    name: str
    api_group: str | None = field(name="apiGroup", default=None)
    namespace: str | None = None


class VolumeDevice(Struct, kw_only=True):
    """VolumeDevice of core/v1."""

    device_path: str = field(name="devicePath")
    name: str


class VolumeMount(Struct, kw_only=True):
    """VolumeMount of core/v1."""

    mount_path: str = field(name="mountPath")
    name: str
    mount_propagation: str | None = field(name="mountPropagation", default=None)
    read_only: bool | None = field(name="readOnly", default=None)
    recursive_read_only: str | None = field(name="recursiveReadOnly", default=None)
    sub_path: str | None = field(name="subPath", default=None)
    sub_path_expr: str | None = field(name="subPathExpr", default=None)


class VolumeResourceRequirements(Struct, kw_only=True):
    """VolumeResourceRequirements of core/v1."""

    limits: dict[str, int | float | str] | None = None
    requests: dict[str, int | float | str] | None = None


class VolumeStatus(Struct, kw_only=True):
    """VolumeStatus of core/v1."""

    image: ImageVolumeStatus | None = None

    image_or_empty = OrEmpty(ImageVolumeStatus)


class VsphereVirtualDiskVolumeSource(Struct, kw_only=True):
    """VsphereVirtualDiskVolumeSource of core/v1."""

    volume_path: str = field(name="volumePath")
    fs_type: str | None = field(name="fsType", default=None)
    storage_policy_id: str | None = field(name="storagePolicyID", default=None)
    storage_policy_name: str | None = field(name="storagePolicyName", default=None)


class WindowsSecurityContextOptions(Struct, kw_only=True):
    """WindowsSecurityContextOptions of core/v1."""

    gmsa_credential_spec: str | None = field(name="gmsaCredentialSpec", default=None)
    gmsa_credential_spec_name: str | None = field(name="gmsaCredentialSpecName", default=None)
    host_process: bool | None = field(name="hostProcess", default=None)
    run_as_user_name: str | None = field(name="runAsUserName", default=None)


class CSIVolumeSource(Struct, kw_only=True):
    """CSIVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "nodePublishSecretRef": Merge("atomic"),
    }

    driver: str
    fs_type: str | None = field(name="fsType", default=None)
    node_publish_secret_ref: LocalObjectReference | None = field(name="nodePublishSecretRef", default=None)
    read_only: bool | None = field(name="readOnly", default=None)
    volume_attributes: dict[str, str] | None = field(name="volumeAttributes", default=None)

    node_publish_secret_ref_or_empty = OrEmpty(LocalObjectReference)


class CephFSVolumeSource(Struct, kw_only=True):
    """CephFSVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    monitors: list[str]
    path: str | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    secret_file: str | None = field(name="secretFile", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)
    user: str | None = None

    secret_ref_or_empty = OrEmpty(LocalObjectReference)


class CinderVolumeSource(Struct, kw_only=True):
    """CinderVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    volume_id: str = field(name="volumeID")
    fs_type: str | None = field(name="fsType", default=None)
    read_only: bool | None = field(name="readOnly", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)

    secret_ref_or_empty = OrEmpty(LocalObjectReference)


class ConfigMapProjection(Struct, kw_only=True):
    """ConfigMapProjection of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None


class ConfigMapVolumeSource(Struct, kw_only=True):
    """ConfigMapVolumeSource of core/v1."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "name": "",
    }

    default_mode: int | None = field(name="defaultMode", default=None)
    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None


class ContainerRestartRule(Struct, kw_only=True):
    """ContainerRestartRule of core/v1."""

    action: str
    exit_codes: ContainerRestartRuleOnExitCodes | None = field(name="exitCodes", default=None)

    exit_codes_or_empty = OrEmpty(ContainerRestartRuleOnExitCodes)


class ContainerState(Struct, kw_only=True):
    """ContainerState of core/v1."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None

    running_or_empty = OrEmpty(ContainerStateRunning)
    terminated_or_empty = OrEmpty(ContainerStateTerminated)
    waiting_or_empty = OrEmpty(ContainerStateWaiting)


class ContainerUser(Struct, kw_only=True):
    """ContainerUser of core/v1."""

    linux: LinuxContainerUser | None = None

    linux_or_empty = OrEmpty(LinuxContainerUser)


class DownwardAPIVolumeFile(Struct, kw_only=True):
    """DownwardAPIVolumeFile of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "fieldRef": Merge("atomic"),
        "resourceFieldRef": Merge("atomic"),
    }

    path: str
    field_ref: ObjectFieldSelector | None = field(name="fieldRef", default=None)
    mode: int | None = None
    resource_field_ref: ResourceFieldSelector | None = field(name="resourceFieldRef", default=None)

    field_ref_or_empty = OrEmpty(ObjectFieldSelector)
    resource_field_ref_or_empty = OrEmpty(ResourceFieldSelector)


class DownwardAPIVolumeSource(Struct, kw_only=True):
    """DownwardAPIVolumeSource of core/v1."""

    default_mode: int | None = field(name="defaultMode", default=None)
    items: list[DownwardAPIVolumeFile] | None = None


class EnvFromSource(Struct, kw_only=True):
    """EnvFromSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "configMapRef": Merge("atomic"),
        "secretRef": Merge("atomic"),
    }

    config_map_ref: ConfigMapEnvSource | None = field(name="configMapRef", default=None)
    prefix: str | None = None
    secret_ref: SecretEnvSource | None = field(name="secretRef", default=None)

    config_map_ref_or_empty = OrEmpty(ConfigMapEnvSource)
    secret_ref_or_empty = OrEmpty(SecretEnvSource)


class EnvVarSource(Struct, kw_only=True):
    """EnvVarSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "configMapKeyRef": Merge("atomic"),
        "fieldRef": Merge("atomic"),
        "fileKeyRef": Merge("atomic"),
        "resourceFieldRef": Merge("atomic"),
        "secretKeyRef": Merge("atomic"),
    }

    config_map_key_ref: ConfigMapKeySelector | None = field(name="configMapKeyRef", default=None)
    field_ref: ObjectFieldSelector | None = field(name="fieldRef", default=None)
    file_key_ref: FileKeySelector | None = field(name="fileKeyRef", default=None)
    resource_field_ref: ResourceFieldSelector | None = field(name="resourceFieldRef", default=None)
    secret_key_ref: SecretKeySelector | None = field(name="secretKeyRef", default=None)

    config_map_key_ref_or_empty = OrEmpty(ConfigMapKeySelector)
    field_ref_or_empty = OrEmpty(ObjectFieldSelector)
    file_key_ref_or_empty = OrEmpty(FileKeySelector)
    resource_field_ref_or_empty = OrEmpty(ResourceFieldSelector)
    secret_key_ref_or_empty = OrEmpty(SecretKeySelector)


class FlexVolumeSource(Struct, kw_only=True):
    """FlexVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    driver: str
    fs_type: str | None = field(name="fsType", default=None)
    options: dict[str, str] | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)

    secret_ref_or_empty = OrEmpty(LocalObjectReference)


class HTTPGetAction(Struct, kw_only=True):
    """HTTPGetAction of core/v1."""

    port: int | str
    host: str | None = None
    http_headers: list[HTTPHeader] | None = field(name="httpHeaders", default=None)
    path: str | None = None
    scheme: str | None = None


class ISCSIVolumeSource(Struct, kw_only=True):
    """ISCSIVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "iscsi_interface": "default",
    }

    iqn: str
    lun: int
    target_portal: str = field(name="targetPortal")
    chap_auth_discovery: bool | None = field(name="chapAuthDiscovery", default=None)
    chap_auth_session: bool | None = field(name="chapAuthSession", default=None)
    fs_type: str | None = field(name="fsType", default=None)
    initiator_name: str | None = field(name="initiatorName", default=None)
    iscsi_interface: str | None = field(name="iscsiInterface", default=None)
    portals: list[str] | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)

    secret_ref_or_empty = OrEmpty(LocalObjectReference)


class LifecycleHandler(Struct, kw_only=True):
    """LifecycleHandler of core/v1."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = field(name="httpGet", default=None)
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = field(name="tcpSocket", default=None)

    exec_or_empty = OrEmpty(ExecAction)
    http_get_or_empty = OrEmpty(HTTPGetAction)
    sleep_or_empty = OrEmpty(SleepAction)
    tcp_socket_or_empty = OrEmpty(TCPSocketAction)


class LoadBalancerIngress(Struct, kw_only=True):
    """LoadBalancerIngress of core/v1."""

    hostname: str | None = None
    ip: str | None = None
    ip_mode: str | None = field(name="ipMode", default=None)
    ports: list[PortStatus] | None = None


class LoadBalancerStatus(Struct, kw_only=True):
    """LoadBalancerStatus of core/v1."""

    ingress: list[LoadBalancerIngress] | None = None


class NodeRuntimeHandler(Struct, kw_only=True):
    """NodeRuntimeHandler of core/v1."""

    features: NodeRuntimeHandlerFeatures | None = None
    name: str | None = None

    features_or_empty = OrEmpty(NodeRuntimeHandlerFeatures)


class NodeSelector(Struct, kw_only=True):
    """NodeSelector of core/v1."""

    node_selector_terms: list[NodeSelectorTerm] = field(name="nodeSelectorTerms")


class NodeSpec(Struct, kw_only=True):
    """NodeSpec of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "podCIDRs": Merge("set", patch=("merge",)),
    }

    config_source: NodeConfigSource | None = field(name="configSource", default=None)
    external_id: str | None = field(name="externalID", default=None)
    pod_cidr: str | None = field(name="podCIDR", default=None)
    pod_cidrs: list[str] | None = field(name="podCIDRs", default=None)
    provider_id: str | None = field(name="providerID", default=None)
    taints: list[Taint] | None = None
    unschedulable: bool | None = None

    config_source_or_empty = OrEmpty(NodeConfigSource)


class NodeStatus(Struct, kw_only=True):
    """NodeStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "addresses": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    addresses: list[NodeAddress] | None = None
    allocatable: dict[str, int | float | str] | None = None
    capacity: dict[str, int | float | str] | None = None
    conditions: list[NodeCondition] | None = None
    config: NodeConfigStatus | None = None
    daemon_endpoints: NodeDaemonEndpoints | None = field(name="daemonEndpoints", default=None)
    declared_features: list[str] | None = field(name="declaredFeatures", default=None)
    features: NodeFeatures | None = None
    images: list[ContainerImage] | None = None
    node_info: NodeSystemInfo | None = field(name="nodeInfo", default=None)
    phase: str | None = None
    runtime_handlers: list[NodeRuntimeHandler] | None = field(name="runtimeHandlers", default=None)
    volumes_attached: list[AttachedVolume] | None = field(name="volumesAttached", default=None)
    volumes_in_use: list[str] | None = field(name="volumesInUse", default=None)

    config_or_empty = OrEmpty(NodeConfigStatus)
    daemon_endpoints_or_empty = OrEmpty(NodeDaemonEndpoints)
    features_or_empty = OrEmpty(NodeFeatures)
    node_info_or_empty = OrEmpty(NodeSystemInfo)


class PodDNSConfig(Struct, kw_only=True):
    """PodDNSConfig of core/v1."""

    nameservers: list[str] | None = None
    options: list[PodDNSConfigOption] | None = None
    searches: list[str] | None = None


class PodSecurityContext(Struct, kw_only=True):
    """PodSecurityContext of core/v1."""

    app_armor_profile: AppArmorProfile | None = field(name="appArmorProfile", default=None)
    fs_group: int | None = field(name="fsGroup", default=None)
    fs_group_change_policy: str | None = field(name="fsGroupChangePolicy", default=None)
    run_as_group: int | None = field(name="runAsGroup", default=None)
    run_as_non_root: bool | None = field(name="runAsNonRoot", default=None)
    run_as_user: int | None = field(name="runAsUser", default=None)
    se_linux_change_policy: str | None = field(name="seLinuxChangePolicy", default=None)
    se_linux_options: SELinuxOptions | None = field(name="seLinuxOptions", default=None)
    seccomp_profile: SeccompProfile | None = field(name="seccompProfile", default=None)
    supplemental_groups: list[int] | None = field(name="supplementalGroups", default=None)
    supplemental_groups_policy: str | None = field(name="supplementalGroupsPolicy", default=None)
    sysctls: list[Sysctl] | None = None
    windows_options: WindowsSecurityContextOptions | None = field(name="windowsOptions", default=None)

    app_armor_profile_or_empty = OrEmpty(AppArmorProfile)
    se_linux_options_or_empty = OrEmpty(SELinuxOptions)
    seccomp_profile_or_empty = OrEmpty(SeccompProfile)
    windows_options_or_empty = OrEmpty(WindowsSecurityContextOptions)


class Probe(Struct, kw_only=True):
    """Probe of core/v1."""

    exec: ExecAction | None = None
    failure_threshold: int | None = field(name="failureThreshold", default=None)
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = field(name="httpGet", default=None)
    initial_delay_seconds: int | None = field(name="initialDelaySeconds", default=None)
    period_seconds: int | None = field(name="periodSeconds", default=None)
    success_threshold: int | None = field(name="successThreshold", default=None)
    tcp_socket: TCPSocketAction | None = field(name="tcpSocket", default=None)
    termination_grace_period_seconds: int | None = field(name="terminationGracePeriodSeconds", default=None)
    timeout_seconds: int | None = field(name="timeoutSeconds", default=None)

    exec_or_empty = OrEmpty(ExecAction)
    grpc_or_empty = OrEmpty(GRPCAction)
    http_get_or_empty = OrEmpty(HTTPGetAction)
    tcp_socket_or_empty = OrEmpty(TCPSocketAction)


class SecurityContext(Struct, kw_only=True):
    """SecurityContext of core/v1."""

    allow_privilege_escalation: bool | None = field(name="allowPrivilegeEscalation", default=None)
    app_armor_profile: AppArmorProfile | None = field(name="appArmorProfile", default=None)
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str | None = field(name="procMount", default=None)
    read_only_root_filesystem: bool | None = field(name="readOnlyRootFilesystem", default=None)
    run_as_group: int | None = field(name="runAsGroup", default=None)
    run_as_non_root: bool | None = field(name="runAsNonRoot", default=None)
    run_as_user: int | None = field(name="runAsUser", default=None)
    se_linux_options: SELinuxOptions | None = field(name="seLinuxOptions", default=None)
    seccomp_profile: SeccompProfile | None = field(name="seccompProfile", default=None)
    windows_options: WindowsSecurityContextOptions | None = field(name="windowsOptions", default=None)

    app_armor_profile_or_empty = OrEmpty(AppArmorProfile)
    capabilities_or_empty = OrEmpty(Capabilities)
    se_linux_options_or_empty = OrEmpty(SELinuxOptions)
    seccomp_profile_or_empty = OrEmpty(SeccompProfile)
    windows_options_or_empty = OrEmpty(WindowsSecurityContextOptions)


class ServiceSpec(Struct, kw_only=True):
    """ServiceSpec of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "ports": Merge("map", keys=("port", "protocol"), patch=("merge",), patch_key="port"),
        "selector": Merge("atomic"),
    }

    allocate_load_balancer_node_ports: bool | None = field(name="allocateLoadBalancerNodePorts", default=None)
    cluster_ip: str | None = field(name="clusterIP", default=None)
    cluster_ips: list[str] | None = field(name="clusterIPs", default=None)
    external_ips: list[str] | None = field(name="externalIPs", default=None)
    external_name: str | None = field(name="externalName", default=None)
    external_traffic_policy: str | None = field(name="externalTrafficPolicy", default=None)
    health_check_node_port: int | None = field(name="healthCheckNodePort", default=None)
    internal_traffic_policy: str | None = field(name="internalTrafficPolicy", default=None)
    ip_families: list[str] | None = field(name="ipFamilies", default=None)
    ip_family_policy: str | None = field(name="ipFamilyPolicy", default=None)
    load_balancer_class: str | None = field(name="loadBalancerClass", default=None)
    load_balancer_ip: str | None = field(name="loadBalancerIP", default=None)
    load_balancer_source_ranges: list[str] | None = field(name="loadBalancerSourceRanges", default=None)
    ports: list[ServicePort] | None = None
    publish_not_ready_addresses: bool | None = field(name="publishNotReadyAddresses", default=None)
    selector: dict[str, str] | None = None
    session_affinity: str | None = field(name="sessionAffinity", default=None)
    session_affinity_config: SessionAffinityConfig | None = field(name="sessionAffinityConfig", default=None)
    traffic_distribution: str | None = field(name="trafficDistribution", default=None)
    type: str | None = None

    session_affinity_config_or_empty = OrEmpty(SessionAffinityConfig)


class ServiceStatus(Struct, kw_only=True):
    """ServiceStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    conditions: list[meta_v1.Condition] | None = None
    load_balancer: LoadBalancerStatus | None = field(name="loadBalancer", default=None)

    load_balancer_or_empty = OrEmpty(LoadBalancerStatus)


class VolumeMountStatus(Struct, kw_only=True):
    """VolumeMountStatus of core/v1."""

    mount_path: str = field(name="mountPath")
    name: str
    read_only: bool | None = field(name="readOnly", default=None)
    recursive_read_only: str | None = field(name="recursiveReadOnly", default=None)
    volume_status: VolumeStatus | None = field(name="volumeStatus", default=None)

    volume_status_or_empty = OrEmpty(VolumeStatus)


class ClusterTrustBundleProjection(Struct, kw_only=True):
    """ClusterTrustBundleProjection of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "labelSelector": Merge("atomic"),
    }

    path: str
    label_selector: meta_v1.LabelSelector | None = field(name="labelSelector", default=None)
    name: str | None = None
    optional: bool | None = None
    signer_name: str | None = field(name="signerName", default=None)

    label_selector_or_empty = OrEmpty(meta_v1.LabelSelector)


class ConfigMap(Object, kw_only=True):
    """ConfigMap of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="ConfigMap",
        plural="configmaps",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    binary_data: dict[str, str] | None = field(name="binaryData", default=None)
    data: dict[str, str] | None = None
    immutable: bool | None = None
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)


class ContainerStatus(Struct, kw_only=True):
    """ContainerStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "allocatedResourcesStatus": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "volumeMounts": Merge("map", keys=("mountPath",), patch=("merge",), patch_key="mountPath"),
    }

    image: str
    image_id: str = field(name="imageID")
    name: str
    ready: bool
    restart_count: int = field(name="restartCount")
    allocated_resources: dict[str, int | float | str] | None = field(name="allocatedResources", default=None)
    allocated_resources_status: list[ResourceStatus] | None = field(name="allocatedResourcesStatus", default=None)
    container_id: str | None = field(name="containerID", default=None)
    last_state: ContainerState | None = field(name="lastState", default=None)
    resources: ResourceRequirements | None = None
    started: bool | None = None
    state: ContainerState | None = None
    stop_signal: str | None = field(name="stopSignal", default=None)
    user: ContainerUser | None = None
    volume_mounts: list[VolumeMountStatus] | None = field(name="volumeMounts", default=None)

    last_state_or_empty = OrEmpty(ContainerState)
    resources_or_empty = OrEmpty(ResourceRequirements)
    state_or_empty = OrEmpty(ContainerState)
    user_or_empty = OrEmpty(ContainerUser)


class DownwardAPIProjection(Struct, kw_only=True):
    """DownwardAPIProjection of core/v1."""

    items: list[DownwardAPIVolumeFile] | None = None


class EnvVar(Struct, kw_only=True):
    """EnvVar of core/v1."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = field(name="valueFrom", default=None)

    value_from_or_empty = OrEmpty(EnvVarSource)


class Lifecycle(Struct, kw_only=True):
    """Lifecycle of core/v1."""

    post_start: LifecycleHandler | None = field(name="postStart", default=None)
    pre_stop: LifecycleHandler | None = field(name="preStop", default=None)
    stop_signal: str | None = field(name="stopSignal", default=None)

    post_start_or_empty = OrEmpty(LifecycleHandler)
    pre_stop_or_empty = OrEmpty(LifecycleHandler)


class LimitRange(Object, kw_only=True):
    """LimitRange of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="LimitRange",
        plural="limitranges",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: LimitRangeSpec | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(LimitRangeSpec)


class Namespace(Object, kw_only=True):
    """Namespace of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="Namespace",
        plural="namespaces",
        namespaced=False,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: NamespaceSpec | None = None
    status: NamespaceStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(NamespaceSpec)
    status_or_empty = OrEmpty(NamespaceStatus)


class Node(Object, kw_only=True):
    """Node of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="Node",
        plural="nodes",
        namespaced=False,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(NodeSpec)
    status_or_empty = OrEmpty(NodeStatus)


class NodeAffinity(Struct, kw_only=True):
    """NodeAffinity of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "requiredDuringSchedulingIgnoredDuringExecution": Merge("atomic"),
    }

    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)
    required_during_scheduling_ignored_during_execution: NodeSelector | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)

    required_during_scheduling_ignored_during_execution_or_empty = OrEmpty(NodeSelector)


class PersistentVolumeClaimSpec(Struct, kw_only=True):
    """PersistentVolumeClaimSpec of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "dataSource": Merge("atomic"),
        "selector": Merge("atomic"),
    }

    access_modes: list[str] | None = field(name="accessModes", default=None)
    data_source: TypedLocalObjectReference | None = field(name="dataSource", default=None)
    data_source_ref: TypedObjectReference | None = field(name="dataSourceRef", default=None)
    resources: VolumeResourceRequirements | None = None
    selector: meta_v1.LabelSelector | None = None
    storage_class_name: str | None = field(name="storageClassName", default=None)
    volume_attributes_class_name: str | None = field(name="volumeAttributesClassName", default=None)
    volume_mode: str | None = field(name="volumeMode", default=None)
    volume_name: str | None = field(name="volumeName", default=None)

    data_source_or_empty = OrEmpty(TypedLocalObjectReference)
    data_source_ref_or_empty = OrEmpty(TypedObjectReference)
    resources_or_empty = OrEmpty(VolumeResourceRequirements)
    selector_or_empty = OrEmpty(meta_v1.LabelSelector)


class PersistentVolumeClaimTemplate(Struct, kw_only=True):
    """PersistentVolumeClaimTemplate of core/v1."""

    spec: PersistentVolumeClaimSpec
    metadata: meta_v1.ObjectMeta | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)


class PodAffinityTerm(Struct, kw_only=True):
    """PodAffinityTerm of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "labelSelector": Merge("atomic"),
        "namespaceSelector": Merge("atomic"),
    }

    topology_key: str = field(name="topologyKey")
    label_selector: meta_v1.LabelSelector | None = field(name="labelSelector", default=None)
    match_label_keys: list[str] | None = field(name="matchLabelKeys", default=None)
    mismatch_label_keys: list[str] | None = field(name="mismatchLabelKeys", default=None)
    namespace_selector: meta_v1.LabelSelector | None = field(name="namespaceSelector", default=None)
    namespaces: list[str] | None = None

    label_selector_or_empty = OrEmpty(meta_v1.LabelSelector)
    namespace_selector_or_empty = OrEmpty(meta_v1.LabelSelector)


class PodStatus(Struct, kw_only=True):
    """PodStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
        "hostIPs": Merge("atomic", patch=("merge",), patch_key="ip"),
        "podIPs": Merge("map", keys=("ip",), patch=("merge",), patch_key="ip"),
        "resourceClaimStatuses": Merge("map", keys=("name",), patch=("merge", "retainKeys"), patch_key="name"),
    }

    allocated_resources: dict[str, int | float | str] | None = field(name="allocatedResources", default=None)
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = field(name="containerStatuses", default=None)
    ephemeral_container_statuses: list[ContainerStatus] | None = field(name="ephemeralContainerStatuses", default=None)
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = field(name="extendedResourceClaimStatus", default=None)
    host_ip: str | None = field(name="hostIP", default=None)
    host_ips: list[HostIP] | None = field(name="hostIPs", default=None)
    init_container_statuses: list[ContainerStatus] | None = field(name="initContainerStatuses", default=None)
    message: str | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] | None = field(name="nodeAllocatableResourceClaimStatuses", default=None)
    nominated_node_name: str | None = field(name="nominatedNodeName", default=None)
    observed_generation: int | None = field(name="observedGeneration", default=None)
    phase: str | None = None
    pod_ip: str | None = field(name="podIP", default=None)
    pod_ips: list[PodIP] | None = field(name="podIPs", default=None)
    qos_class: str | None = field(name="qosClass", default=None)
    reason: str | None = None
    resize: str | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = field(name="resourceClaimStatuses", default=None)
    resources: ResourceRequirements | None = None
    start_time: str | None = field(name="startTime", default=None)

    extended_resource_claim_status_or_empty = OrEmpty(PodExtendedResourceClaimStatus)
    resources_or_empty = OrEmpty(ResourceRequirements)


class Secret(Object, kw_only=True):
    """Secret of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="Secret",
        plural="secrets",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    data: dict[str, str] | None = None
    immutable: bool | None = None
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    string_data: dict[str, str] | None = field(name="stringData", default=None)
    type: str | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)


class Service(Object, kw_only=True):
    """Service of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="Service",
        plural="services",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: ServiceSpec | None = None
    status: ServiceStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(ServiceSpec)
    status_or_empty = OrEmpty(ServiceStatus)


class ServiceAccount(Object, kw_only=True):
    """ServiceAccount of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="ServiceAccount",
        plural="serviceaccounts",
        namespaced=True,
    )

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secrets": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    api_version: str | None = field(name="apiVersion", default=None)
    automount_service_account_token: bool | None = field(name="automountServiceAccountToken", default=None)
    image_pull_secrets: list[LocalObjectReference] | None = field(name="imagePullSecrets", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    secrets: list[ObjectReference] | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)


class TopologySpreadConstraint(Struct, kw_only=True):
    """TopologySpreadConstraint of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "labelSelector": Merge("atomic"),
    }

    max_skew: int = field(name="maxSkew")
    topology_key: str = field(name="topologyKey")
    when_unsatisfiable: str = field(name="whenUnsatisfiable")
    label_selector: meta_v1.LabelSelector | None = field(name="labelSelector", default=None)
    match_label_keys: list[str] | None = field(name="matchLabelKeys", default=None)
    min_domains: int | None = field(name="minDomains", default=None)
    node_affinity_policy: str | None = field(name="nodeAffinityPolicy", default=None)
    node_taints_policy: str | None = field(name="nodeTaintsPolicy", default=None)

    label_selector_or_empty = OrEmpty(meta_v1.LabelSelector)


class VolumeProjection(Struct, kw_only=True):
    """VolumeProjection of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "configMap": Merge("atomic"),
        "secret": Merge("atomic"),
    }

    cluster_trust_bundle: ClusterTrustBundleProjection | None = field(name="clusterTrustBundle", default=None)
    config_map: ConfigMapProjection | None = field(name="configMap", default=None)
    downward_api: DownwardAPIProjection | None = field(name="downwardAPI", default=None)
    pod_certificate: PodCertificateProjection | None = field(name="podCertificate", default=None)
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = field(name="serviceAccountToken", default=None)

    cluster_trust_bundle_or_empty = OrEmpty(ClusterTrustBundleProjection)
    config_map_or_empty = OrEmpty(ConfigMapProjection)
    downward_api_or_empty = OrEmpty(DownwardAPIProjection)
    pod_certificate_or_empty = OrEmpty(PodCertificateProjection)
    secret_or_empty = OrEmpty(SecretProjection)
    service_account_token_or_empty = OrEmpty(ServiceAccountTokenProjection)


class WeightedPodAffinityTerm(Struct, kw_only=True):
    """WeightedPodAffinityTerm of core/v1."""

    pod_affinity_term: PodAffinityTerm = field(name="podAffinityTerm")
    weight: int


class Container(Struct, kw_only=True):
    """Container of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "ports": Merge("map", keys=("containerPort", "protocol"), patch=("merge",), patch_key="containerPort"),
        "volumeDevices": Merge("map", keys=("devicePath",), patch=("merge",), patch_key="devicePath"),
        "volumeMounts": Merge("map", keys=("mountPath",), patch=("merge",), patch_key="mountPath"),
    }

    name: str
    args: list[str] | None = None
    command: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = field(name="envFrom", default=None)
    image: str | None = None
    image_pull_policy: str | None = field(name="imagePullPolicy", default=None)
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = field(name="livenessProbe", default=None)
    ports: list[ContainerPort] | None = None
    readiness_probe: Probe | None = field(name="readinessProbe", default=None)
    resize_policy: list[ContainerResizePolicy] | None = field(name="resizePolicy", default=None)
    resources: ResourceRequirements | None = None
    restart_policy: str | None = field(name="restartPolicy", default=None)
    restart_policy_rules: list[ContainerRestartRule] | None = field(name="restartPolicyRules", default=None)
    security_context: SecurityContext | None = field(name="securityContext", default=None)
    startup_probe: Probe | None = field(name="startupProbe", default=None)
    stdin: bool | None = None
    stdin_once: bool | None = field(name="stdinOnce", default=None)
    termination_message_path: str | None = field(name="terminationMessagePath", default=None)
    termination_message_policy: str | None = field(name="terminationMessagePolicy", default=None)
    tty: bool | None = None
    volume_devices: list[VolumeDevice] | None = field(name="volumeDevices", default=None)
    volume_mounts: list[VolumeMount] | None = field(name="volumeMounts", default=None)
    working_dir: str | None = field(name="workingDir", default=None)

    lifecycle_or_empty = OrEmpty(Lifecycle)
    liveness_probe_or_empty = OrEmpty(Probe)
    readiness_probe_or_empty = OrEmpty(Probe)
    resources_or_empty = OrEmpty(ResourceRequirements)
    security_context_or_empty = OrEmpty(SecurityContext)
    startup_probe_or_empty = OrEmpty(Probe)


class EphemeralContainer(Struct, kw_only=True):
    """EphemeralContainer of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "env": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "ports": Merge("map", keys=("containerPort", "protocol"), patch=("merge",), patch_key="containerPort"),
        "volumeDevices": Merge("map", keys=("devicePath",), patch=("merge",), patch_key="devicePath"),
        "volumeMounts": Merge("map", keys=("mountPath",), patch=("merge",), patch_key="mountPath"),
    }

    name: str
    args: list[str] | None = None
    command: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = field(name="envFrom", default=None)
    image: str | None = None
    image_pull_policy: str | None = field(name="imagePullPolicy", default=None)
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = field(name="livenessProbe", default=None)
    ports: list[ContainerPort] | None = None
    readiness_probe: Probe | None = field(name="readinessProbe", default=None)
    resize_policy: list[ContainerResizePolicy] | None = field(name="resizePolicy", default=None)
    resources: ResourceRequirements | None = None
    restart_policy: str | None = field(name="restartPolicy", default=None)
    restart_policy_rules: list[ContainerRestartRule] | None = field(name="restartPolicyRules", default=None)
    security_context: SecurityContext | None = field(name="securityContext", default=None)
    startup_probe: Probe | None = field(name="startupProbe", default=None)
    stdin: bool | None = None
    stdin_once: bool | None = field(name="stdinOnce", default=None)
    target_container_name: str | None = field(name="targetContainerName", default=None)
    termination_message_path: str | None = field(name="terminationMessagePath", default=None)
    termination_message_policy: str | None = field(name="terminationMessagePolicy", default=None)
    tty: bool | None = None
    volume_devices: list[VolumeDevice] | None = field(name="volumeDevices", default=None)
    volume_mounts: list[VolumeMount] | None = field(name="volumeMounts", default=None)
    working_dir: str | None = field(name="workingDir", default=None)

    lifecycle_or_empty = OrEmpty(Lifecycle)
    liveness_probe_or_empty = OrEmpty(Probe)
    readiness_probe_or_empty = OrEmpty(Probe)
    resources_or_empty = OrEmpty(ResourceRequirements)
    security_context_or_empty = OrEmpty(SecurityContext)
    startup_probe_or_empty = OrEmpty(Probe)


class EphemeralVolumeSource(Struct, kw_only=True):
    """EphemeralVolumeSource of core/v1."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = field(name="volumeClaimTemplate", default=None)

    volume_claim_template_or_empty = OrEmpty(PersistentVolumeClaimTemplate)


class PersistentVolumeClaim(Object, kw_only=True):
    """PersistentVolumeClaim of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None
    status: PersistentVolumeClaimStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(PersistentVolumeClaimSpec)
    status_or_empty = OrEmpty(PersistentVolumeClaimStatus)


class PodAffinity(Struct, kw_only=True):
    """PodAffinity of core/v1."""

    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class PodAntiAffinity(Struct, kw_only=True):
    """PodAntiAffinity of core/v1."""

    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class ProjectedVolumeSource(Struct, kw_only=True):
    """ProjectedVolumeSource of core/v1."""

    default_mode: int | None = field(name="defaultMode", default=None)
    sources: list[VolumeProjection] | None = None


class Volume(Struct, kw_only=True):
    """Volume of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "configMap": Merge("atomic"),
    }

    name: str
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = field(name="awsElasticBlockStore", default=None)
    azure_disk: AzureDiskVolumeSource | None = field(name="azureDisk", default=None)
    azure_file: AzureFileVolumeSource | None = field(name="azureFile", default=None)
    cephfs: CephFSVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = field(name="configMap", default=None)
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = field(name="downwardAPI", default=None)
    empty_dir: EmptyDirVolumeSource | None = field(name="emptyDir", default=None)
    ephemeral: EphemeralVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = field(name="flexVolume", default=None)
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = field(name="gcePersistentDisk", default=None)
    git_repo: GitRepoVolumeSource | None = field(name="gitRepo", default=None)
    glusterfs: GlusterfsVolumeSource | None = None
    host_path: HostPathVolumeSource | None = field(name="hostPath", default=None)
    image: ImageVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = field(name="persistentVolumeClaim", default=None)
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = field(name="photonPersistentDisk", default=None)
    portworx_volume: PortworxVolumeSource | None = field(name="portworxVolume", default=None)
    projected: ProjectedVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = field(name="scaleIO", default=None)
    secret: SecretVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = field(name="vsphereVolume", default=None)

    aws_elastic_block_store_or_empty = OrEmpty(AWSElasticBlockStoreVolumeSource)
    azure_disk_or_empty = OrEmpty(AzureDiskVolumeSource)
    azure_file_or_empty = OrEmpty(AzureFileVolumeSource)
    cephfs_or_empty = OrEmpty(CephFSVolumeSource)
    cinder_or_empty = OrEmpty(CinderVolumeSource)
    config_map_or_empty = OrEmpty(ConfigMapVolumeSource)
    csi_or_empty = OrEmpty(CSIVolumeSource)
    downward_api_or_empty = OrEmpty(DownwardAPIVolumeSource)
    empty_dir_or_empty = OrEmpty(EmptyDirVolumeSource)
    ephemeral_or_empty = OrEmpty(EphemeralVolumeSource)
    fc_or_empty = OrEmpty(FCVolumeSource)
    flex_volume_or_empty = OrEmpty(FlexVolumeSource)
    flocker_or_empty = OrEmpty(FlockerVolumeSource)
    gce_persistent_disk_or_empty = OrEmpty(GCEPersistentDiskVolumeSource)
    git_repo_or_empty = OrEmpty(GitRepoVolumeSource)
    glusterfs_or_empty = OrEmpty(GlusterfsVolumeSource)
    host_path_or_empty = OrEmpty(HostPathVolumeSource)
    image_or_empty = OrEmpty(ImageVolumeSource)
    iscsi_or_empty = OrEmpty(ISCSIVolumeSource)
    nfs_or_empty = OrEmpty(NFSVolumeSource)
    persistent_volume_claim_or_empty = OrEmpty(PersistentVolumeClaimVolumeSource)
    photon_persistent_disk_or_empty = OrEmpty(PhotonPersistentDiskVolumeSource)
    portworx_volume_or_empty = OrEmpty(PortworxVolumeSource)
    projected_or_empty = OrEmpty(ProjectedVolumeSource)
    quobyte_or_empty = OrEmpty(QuobyteVolumeSource)
    rbd_or_empty = OrEmpty(RBDVolumeSource)
    scale_io_or_empty = OrEmpty(ScaleIOVolumeSource)
    secret_or_empty = OrEmpty(SecretVolumeSource)
    storageos_or_empty = OrEmpty(StorageOSVolumeSource)
    vsphere_volume_or_empty = OrEmpty(VsphereVirtualDiskVolumeSource)


class Affinity(Struct, kw_only=True):
    """Affinity of core/v1."""

    node_affinity: NodeAffinity | None = field(name="nodeAffinity", default=None)
    pod_affinity: PodAffinity | None = field(name="podAffinity", default=None)
    pod_anti_affinity: PodAntiAffinity | None = field(name="podAntiAffinity", default=None)

    node_affinity_or_empty = OrEmpty(NodeAffinity)
    pod_affinity_or_empty = OrEmpty(PodAffinity)
    pod_anti_affinity_or_empty = OrEmpty(PodAntiAffinity)


class PodSpec(Struct, kw_only=True):
    """PodSpec of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "containers": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "ephemeralContainers": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "hostAliases": Merge("map", keys=("ip",), patch=("merge",), patch_key="ip"),
        "imagePullSecrets": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "initContainers": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "nodeSelector": Merge("atomic"),
        "resourceClaims": Merge("map", keys=("name",), patch=("merge", "retainKeys"), patch_key="name"),
        "schedulingGates": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
        "topologySpreadConstraints": Merge("map", keys=("topologyKey", "whenUnsatisfiable"), patch=("merge",), patch_key="topologyKey"),
        "volumes": Merge("map", keys=("name",), patch=("merge", "retainKeys"), patch_key="name"),
    }

    containers: list[Container]
    active_deadline_seconds: int | None = field(name="activeDeadlineSeconds", default=None)
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = field(name="automountServiceAccountToken", default=None)
    dns_config: PodDNSConfig | None = field(name="dnsConfig", default=None)
    dns_policy: str | None = field(name="dnsPolicy", default=None)
    enable_service_links: bool | None = field(name="enableServiceLinks", default=None)
    ephemeral_containers: list[EphemeralContainer] | None = field(name="ephemeralContainers", default=None)
    host_aliases: list[HostAlias] | None = field(name="hostAliases", default=None)
    host_ipc: bool | None = field(name="hostIPC", default=None)
    host_network: bool | None = field(name="hostNetwork", default=None)
    host_pid: bool | None = field(name="hostPID", default=None)
    host_users: bool | None = field(name="hostUsers", default=None)
    hostname: str | None = None
    hostname_override: str | None = field(name="hostnameOverride", default=None)
    image_pull_secrets: list[LocalObjectReference] | None = field(name="imagePullSecrets", default=None)
    init_containers: list[Container] | None = field(name="initContainers", default=None)
    node_name: str | None = field(name="nodeName", default=None)
    node_selector: dict[str, str] | None = field(name="nodeSelector", default=None)
    os: PodOS | None = None
    overhead: dict[str, int | float | str] | None = None
    preemption_policy: str | None = field(name="preemptionPolicy", default=None)
    priority: int | None = None
    priority_class_name: str | None = field(name="priorityClassName", default=None)
    readiness_gates: list[PodReadinessGate] | None = field(name="readinessGates", default=None)
    resource_claims: list[PodResourceClaim] | None = field(name="resourceClaims", default=None)
    resources: ResourceRequirements | None = None
    restart_policy: str | None = field(name="restartPolicy", default=None)
    runtime_class_name: str | None = field(name="runtimeClassName", default=None)
    scheduler_name: str | None = field(name="schedulerName", default=None)
    scheduling_gates: list[PodSchedulingGate] | None = field(name="schedulingGates", default=None)
    scheduling_group: PodSchedulingGroup | None = field(name="schedulingGroup", default=None)
    security_context: PodSecurityContext | None = field(name="securityContext", default=None)
    service_account: str | None = field(name="serviceAccount", default=None)
    service_account_name: str | None = field(name="serviceAccountName", default=None)
    set_hostname_as_fqdn: bool | None = field(name="setHostnameAsFQDN", default=None)
    share_process_namespace: bool | None = field(name="shareProcessNamespace", default=None)
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = field(name="terminationGracePeriodSeconds", default=None)
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = field(name="topologySpreadConstraints", default=None)
    volumes: list[Volume] | None = None

    affinity_or_empty = OrEmpty(Affinity)
    dns_config_or_empty = OrEmpty(PodDNSConfig)
    os_or_empty = OrEmpty(PodOS)
    resources_or_empty = OrEmpty(ResourceRequirements)
    scheduling_group_or_empty = OrEmpty(PodSchedulingGroup)
    security_context_or_empty = OrEmpty(PodSecurityContext)


class PodTemplateSpec(Struct, kw_only=True):
    """PodTemplateSpec of core/v1."""

    metadata: meta_v1.ObjectMeta | None = None
    spec: PodSpec | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(PodSpec)


class Pod(Object, kw_only=True):
    """Pod of core/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(PodSpec)
    status_or_empty = OrEmpty(PodStatus)
