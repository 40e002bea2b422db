# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of core/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar, Self

from msgspec import field

from trainwright.api.base import Merge, Object, Resource, Struct, empty
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

    disk_name: str = field(name="diskName")
    disk_uri: str = field(name="diskURI")
    caching_mode: str | None = field(name="cachingMode", default=None)
    fs_type: str | None = field(name="fsType", default=None)
    kind: str | None = None
    read_only: bool | None = field(name="readOnly", default=None)

    def set_defaults(self) -> None:
        if self.fs_type is None:
            self.fs_type = "ext4"
        if self.read_only is None:
            self.read_only = False


class AzureFileVolumeSource(Struct, kw_only=True):
    """AzureFileVolumeSource of core/v1."""

    secret_name: str = field(name="secretName")
    share_name: str = field(name="shareName")
    read_only: bool | None = field(name="readOnly", default=None)


class Capabilities(Struct, kw_only=True):
    """Capabilities of core/v1."""

    add: list[str] | None = None
    drop: list[str] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.add is not None:
            n.add = n.add.copy()
        if n.drop is not None:
            n.drop = n.drop.copy()
        return n


class ClientIPConfig(Struct, kw_only=True):
    """ClientIPConfig of core/v1."""

    timeout_seconds: int | None = field(name="timeoutSeconds", default=None)


class ConfigMapEnvSource(Struct, kw_only=True):
    """ConfigMapEnvSource of core/v1."""

    name: str | None = None
    optional: bool | None = None

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


class ConfigMapKeySelector(Struct, kw_only=True):
    """ConfigMapKeySelector of core/v1."""

    key: str
    name: str | None = None
    optional: bool | None = None

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.names is not None:
            n.names = n.names.copy()
        return n


class ContainerPort(Struct, kw_only=True):
    """ContainerPort of core/v1."""

    container_port: int = field(name="containerPort")
    host_ip: str | None = field(name="hostIP", default=None)
    host_port: int | None = field(name="hostPort", default=None)
    name: str | None = None
    protocol: str | None = None

    def set_defaults(self) -> None:
        if self.protocol is None:
            self.protocol = "TCP"


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.values is not None:
            n.values = n.values.copy()
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.command is not None:
            n.command = n.command.copy()
        return n


class FCVolumeSource(Struct, kw_only=True):
    """FCVolumeSource of core/v1."""

    fs_type: str | None = field(name="fsType", default=None)
    lun: int | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    target_wwns: list[str] | None = field(name="targetWWNs", default=None)
    wwids: list[str] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.target_wwns is not None:
            n.target_wwns = n.target_wwns.copy()
        if n.wwids is not None:
            n.wwids = n.wwids.copy()
        return n


class FileKeySelector(Struct, kw_only=True):
    """FileKeySelector of core/v1."""

    key: str
    path: str
    volume_name: str = field(name="volumeName")
    optional: bool | None = None

    def set_defaults(self) -> None:
        if self.optional is None:
            self.optional = False


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

    port: int
    service: str | None = None

    def set_defaults(self) -> None:
        if self.service is None:
            self.service = ""


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.hostnames is not None:
            n.hostnames = n.hostnames.copy()
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.default is not None:
            n.default = n.default.copy()
        if n.default_request is not None:
            n.default_request = n.default_request.copy()
        if n.max is not None:
            n.max = n.max.copy()
        if n.max_limit_request_ratio is not None:
            n.max_limit_request_ratio = n.max_limit_request_ratio.copy()
        if n.min is not None:
            n.min = n.min.copy()
        return n


class LimitRangeSpec(Struct, kw_only=True):
    """LimitRangeSpec of core/v1."""

    limits: list[LimitRangeItem] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.limits is not None:
            n.limits = [x.deepcopy() for x in n.limits]
        return n


class LinuxContainerUser(Struct, kw_only=True):
    """LinuxContainerUser of core/v1."""

    gid: int
    uid: int
    supplemental_groups: list[int] | None = field(name="supplementalGroups", default=None)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.supplemental_groups is not None:
            n.supplemental_groups = n.supplemental_groups.copy()
        return n


class LocalObjectReference(Struct, kw_only=True):
    """LocalObjectReference of core/v1."""

    name: str | None = None

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.finalizers is not None:
            n.finalizers = n.finalizers.copy()
        return n


class NamespaceStatus(Struct, kw_only=True):
    """NamespaceStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    conditions: list[NamespaceCondition] | None = None
    phase: str | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.conditions is not None:
            n.conditions = [x.deepcopy() for x in n.conditions]
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.resources = n.resources.copy()
        if n.containers is not None:
            n.containers = n.containers.copy()
        return n


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

    @property
    def config_map_or_empty(self) -> ConfigMapNodeConfigSource:
        return self.config_map or empty(ConfigMapNodeConfigSource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.config_map is not None:
            n.config_map = n.config_map.deepcopy()
        return n


class NodeConfigStatus(Struct, kw_only=True):
    """NodeConfigStatus of core/v1."""

    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str | None = None
    last_known_good: NodeConfigSource | None = field(name="lastKnownGood", default=None)

    @property
    def active_or_empty(self) -> NodeConfigSource:
        return self.active or empty(NodeConfigSource)

    @property
    def assigned_or_empty(self) -> NodeConfigSource:
        return self.assigned or empty(NodeConfigSource)

    @property
    def last_known_good_or_empty(self) -> NodeConfigSource:
        return self.last_known_good or empty(NodeConfigSource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.active is not None:
            n.active = n.active.deepcopy()
        if n.assigned is not None:
            n.assigned = n.assigned.deepcopy()
        if n.last_known_good is not None:
            n.last_known_good = n.last_known_good.deepcopy()
        return n


class NodeDaemonEndpoints(Struct, kw_only=True):
    """NodeDaemonEndpoints of core/v1."""

    kubelet_endpoint: DaemonEndpoint | None = field(name="kubeletEndpoint", default=None)

    @property
    def kubelet_endpoint_or_empty(self) -> DaemonEndpoint:
        return self.kubelet_endpoint or empty(DaemonEndpoint)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.kubelet_endpoint is not None:
            n.kubelet_endpoint = n.kubelet_endpoint.deepcopy()
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.values is not None:
            n.values = n.values.copy()
        return n


class NodeSelectorTerm(Struct, kw_only=True):
    """NodeSelectorTerm of core/v1."""

    match_expressions: list[NodeSelectorRequirement] | None = field(name="matchExpressions", default=None)
    match_fields: list[NodeSelectorRequirement] | None = field(name="matchFields", default=None)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.match_expressions is not None:
            n.match_expressions = [x.deepcopy() for x in n.match_expressions]
        if n.match_fields is not None:
            n.match_fields = [x.deepcopy() for x in n.match_fields]
        return n


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

    @property
    def swap_or_empty(self) -> NodeSwapStatus:
        return self.swap or empty(NodeSwapStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.swap is not None:
            n.swap = n.swap.deepcopy()
        return n


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

    @property
    def modify_volume_status_or_empty(self) -> ModifyVolumeStatus:
        return self.modify_volume_status or empty(ModifyVolumeStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.access_modes is not None:
            n.access_modes = n.access_modes.copy()
        if n.allocated_resource_statuses is not None:
            n.allocated_resource_statuses = n.allocated_resource_statuses.copy()
        if n.allocated_resources is not None:
            n.allocated_resources = n.allocated_resources.copy()
        if n.capacity is not None:
            n.capacity = n.capacity.copy()
        if n.conditions is not None:
            n.conditions = [x.deepcopy() for x in n.conditions]
        if n.modify_volume_status is not None:
            n.modify_volume_status = n.modify_volume_status.deepcopy()
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.user_annotations is not None:
            n.user_annotations = n.user_annotations.copy()
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.request_mappings = [x.deepcopy() for x in n.request_mappings]
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.preference = n.preference.deepcopy()
        return n


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

    image: str
    monitors: list[str]
    fs_type: str | None = field(name="fsType", default=None)
    keyring: str | None = None
    pool: str | None = None
    read_only: bool | None = field(name="readOnly", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)
    user: str | None = None

    @property
    def secret_ref_or_empty(self) -> LocalObjectReference:
        return self.secret_ref or empty(LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.monitors = n.monitors.copy()
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.keyring is None:
            self.keyring = "/etc/ceph/keyring"
        if self.pool is None:
            self.pool = "rbd"
        if self.user is None:
            self.user = "admin"
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.claims is not None:
            n.claims = [x.deepcopy() for x in n.claims]
        if n.limits is not None:
            n.limits = n.limits.copy()
        if n.requests is not None:
            n.requests = n.requests.copy()
        return n


class ResourceStatus(Struct, kw_only=True):
    """ResourceStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "resources": Merge("map", keys=("resourceID",)),
    }

    name: str
    resources: list[ResourceHealth] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.resources is not None:
            n.resources = [x.deepcopy() for x in n.resources]
        return n


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.fs_type is None:
            self.fs_type = "xfs"
        if self.storage_mode is None:
            self.storage_mode = "ThinProvisioned"
        self.secret_ref.set_defaults()


class SeccompProfile(Struct, kw_only=True):
    """SeccompProfile of core/v1."""

    type: str
    localhost_profile: str | None = field(name="localhostProfile", default=None)


class SecretEnvSource(Struct, kw_only=True):
    """SecretEnvSource of core/v1."""

    name: str | None = None
    optional: bool | None = None

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


class SecretKeySelector(Struct, kw_only=True):
    """SecretKeySelector of core/v1."""

    key: str
    name: str | None = None
    optional: bool | None = None

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


class SecretProjection(Struct, kw_only=True):
    """SecretProjection of core/v1."""

    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.items is not None:
            n.items = [x.deepcopy() for x in n.items]
        return n

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


class SecretVolumeSource(Struct, kw_only=True):
    """SecretVolumeSource of core/v1."""

    default_mode: int | None = field(name="defaultMode", default=None)
    items: list[KeyToPath] | None = None
    optional: bool | None = None
    secret_name: str | None = field(name="secretName", default=None)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.items is not None:
            n.items = [x.deepcopy() for x in n.items]
        return n


class ServiceAccountTokenProjection(Struct, kw_only=True):
    """ServiceAccountTokenProjection of core/v1."""

    path: str
    audience: str | None = None
    expiration_seconds: int | None = field(name="expirationSeconds", default=None)


class ServicePort(Struct, kw_only=True):
    """ServicePort of core/v1."""

    port: int
    app_protocol: str | None = field(name="appProtocol", default=None)
    name: str | None = None
    node_port: int | None = field(name="nodePort", default=None)
    protocol: str | None = None
    target_port: int | str | None = field(name="targetPort", default=None)

    def set_defaults(self) -> None:
        if self.protocol is None:
            self.protocol = "TCP"


class SessionAffinityConfig(Struct, kw_only=True):
    """SessionAffinityConfig of core/v1."""

    client_ip: ClientIPConfig | None = field(name="clientIP", default=None)

    @property
    def client_ip_or_empty(self) -> ClientIPConfig:
        return self.client_ip or empty(ClientIPConfig)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.client_ip is not None:
            n.client_ip = n.client_ip.deepcopy()
        return n


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

    @property
    def secret_ref_or_empty(self) -> LocalObjectReference:
        return self.secret_ref or empty(LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


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

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.limits is not None:
            n.limits = n.limits.copy()
        if n.requests is not None:
            n.requests = n.requests.copy()
        return n


class VolumeStatus(Struct, kw_only=True):
    """VolumeStatus of core/v1."""

    image: ImageVolumeStatus | None = None

    @property
    def image_or_empty(self) -> ImageVolumeStatus:
        return self.image or empty(ImageVolumeStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.image is not None:
            n.image = n.image.deepcopy()
        return n


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

    @property
    def node_publish_secret_ref_or_empty(self) -> LocalObjectReference:
        return self.node_publish_secret_ref or empty(LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.node_publish_secret_ref is not None:
            n.node_publish_secret_ref = n.node_publish_secret_ref.deepcopy()
        if n.volume_attributes is not None:
            n.volume_attributes = n.volume_attributes.copy()
        return n

    def set_defaults(self) -> None:
        if self.node_publish_secret_ref is not None:
            self.node_publish_secret_ref.set_defaults()


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

    @property
    def secret_ref_or_empty(self) -> LocalObjectReference:
        return self.secret_ref or empty(LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.monitors = n.monitors.copy()
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


class CinderVolumeSource(Struct, kw_only=True):
    """CinderVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
    }

    volume_id: str = field(name="volumeID")
    fs_type: str | None = field(name="fsType", default=None)
    read_only: bool | None = field(name="readOnly", default=None)
    secret_ref: LocalObjectReference | None = field(name="secretRef", default=None)

    @property
    def secret_ref_or_empty(self) -> LocalObjectReference:
        return self.secret_ref or empty(LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


class ConfigMapProjection(Struct, kw_only=True):
    """ConfigMapProjection of core/v1."""

    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.items is not None:
            n.items = [x.deepcopy() for x in n.items]
        return n

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


class ConfigMapVolumeSource(Struct, kw_only=True):
    """ConfigMapVolumeSource of core/v1."""

    default_mode: int | None = field(name="defaultMode", default=None)
    items: list[KeyToPath] | None = None
    name: str | None = None
    optional: bool | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.items is not None:
            n.items = [x.deepcopy() for x in n.items]
        return n

    def set_defaults(self) -> None:
        if self.name is None:
            self.name = ""


class ContainerRestartRule(Struct, kw_only=True):
    """ContainerRestartRule of core/v1."""

    action: str
    exit_codes: ContainerRestartRuleOnExitCodes | None = field(name="exitCodes", default=None)

    @property
    def exit_codes_or_empty(self) -> ContainerRestartRuleOnExitCodes:
        return self.exit_codes or empty(ContainerRestartRuleOnExitCodes)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.exit_codes is not None:
            n.exit_codes = n.exit_codes.deepcopy()
        return n


class ContainerState(Struct, kw_only=True):
    """ContainerState of core/v1."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None

    @property
    def running_or_empty(self) -> ContainerStateRunning:
        return self.running or empty(ContainerStateRunning)

    @property
    def terminated_or_empty(self) -> ContainerStateTerminated:
        return self.terminated or empty(ContainerStateTerminated)

    @property
    def waiting_or_empty(self) -> ContainerStateWaiting:
        return self.waiting or empty(ContainerStateWaiting)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.running is not None:
            n.running = n.running.deepcopy()
        if n.terminated is not None:
            n.terminated = n.terminated.deepcopy()
        if n.waiting is not None:
            n.waiting = n.waiting.deepcopy()
        return n


class ContainerUser(Struct, kw_only=True):
    """ContainerUser of core/v1."""

    linux: LinuxContainerUser | None = None

    @property
    def linux_or_empty(self) -> LinuxContainerUser:
        return self.linux or empty(LinuxContainerUser)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.linux is not None:
            n.linux = n.linux.deepcopy()
        return n


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

    @property
    def field_ref_or_empty(self) -> ObjectFieldSelector:
        return self.field_ref or empty(ObjectFieldSelector)

    @property
    def resource_field_ref_or_empty(self) -> ResourceFieldSelector:
        return self.resource_field_ref or empty(ResourceFieldSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.field_ref is not None:
            n.field_ref = n.field_ref.deepcopy()
        if n.resource_field_ref is not None:
            n.resource_field_ref = n.resource_field_ref.deepcopy()
        return n


class DownwardAPIVolumeSource(Struct, kw_only=True):
    """DownwardAPIVolumeSource of core/v1."""

    default_mode: int | None = field(name="defaultMode", default=None)
    items: list[DownwardAPIVolumeFile] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.items is not None:
            n.items = [x.deepcopy() for x in n.items]
        return n


class EnvFromSource(Struct, kw_only=True):
    """EnvFromSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "configMapRef": Merge("atomic"),
        "secretRef": Merge("atomic"),
    }

    config_map_ref: ConfigMapEnvSource | None = field(name="configMapRef", default=None)
    prefix: str | None = None
    secret_ref: SecretEnvSource | None = field(name="secretRef", default=None)

    @property
    def config_map_ref_or_empty(self) -> ConfigMapEnvSource:
        return self.config_map_ref or empty(ConfigMapEnvSource)

    @property
    def secret_ref_or_empty(self) -> SecretEnvSource:
        return self.secret_ref or empty(SecretEnvSource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.config_map_ref is not None:
            n.config_map_ref = n.config_map_ref.deepcopy()
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.config_map_ref is not None:
            self.config_map_ref.set_defaults()
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


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

    @property
    def config_map_key_ref_or_empty(self) -> ConfigMapKeySelector:
        return self.config_map_key_ref or empty(ConfigMapKeySelector)

    @property
    def field_ref_or_empty(self) -> ObjectFieldSelector:
        return self.field_ref or empty(ObjectFieldSelector)

    @property
    def file_key_ref_or_empty(self) -> FileKeySelector:
        return self.file_key_ref or empty(FileKeySelector)

    @property
    def resource_field_ref_or_empty(self) -> ResourceFieldSelector:
        return self.resource_field_ref or empty(ResourceFieldSelector)

    @property
    def secret_key_ref_or_empty(self) -> SecretKeySelector:
        return self.secret_key_ref or empty(SecretKeySelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.config_map_key_ref is not None:
            n.config_map_key_ref = n.config_map_key_ref.deepcopy()
        if n.field_ref is not None:
            n.field_ref = n.field_ref.deepcopy()
        if n.file_key_ref is not None:
            n.file_key_ref = n.file_key_ref.deepcopy()
        if n.resource_field_ref is not None:
            n.resource_field_ref = n.resource_field_ref.deepcopy()
        if n.secret_key_ref is not None:
            n.secret_key_ref = n.secret_key_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.config_map_key_ref is not None:
            self.config_map_key_ref.set_defaults()
        if self.file_key_ref is not None:
            self.file_key_ref.set_defaults()
        if self.secret_key_ref is not None:
            self.secret_key_ref.set_defaults()


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

    @property
    def secret_ref_or_empty(self) -> LocalObjectReference:
        return self.secret_ref or empty(LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.options is not None:
            n.options = n.options.copy()
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


class HTTPGetAction(Struct, kw_only=True):
    """HTTPGetAction of core/v1."""

    port: int | str
    host: str | None = None
    http_headers: list[HTTPHeader] | None = field(name="httpHeaders", default=None)
    path: str | None = None
    scheme: str | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.http_headers is not None:
            n.http_headers = [x.deepcopy() for x in n.http_headers]
        return n


class ISCSIVolumeSource(Struct, kw_only=True):
    """ISCSIVolumeSource of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "secretRef": Merge("atomic"),
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

    @property
    def secret_ref_or_empty(self) -> LocalObjectReference:
        return self.secret_ref or empty(LocalObjectReference)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.portals is not None:
            n.portals = n.portals.copy()
        if n.secret_ref is not None:
            n.secret_ref = n.secret_ref.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.iscsi_interface is None:
            self.iscsi_interface = "default"
        if self.secret_ref is not None:
            self.secret_ref.set_defaults()


class LifecycleHandler(Struct, kw_only=True):
    """LifecycleHandler of core/v1."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = field(name="httpGet", default=None)
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = field(name="tcpSocket", default=None)

    @property
    def exec_or_empty(self) -> ExecAction:
        return self.exec or empty(ExecAction)

    @property
    def http_get_or_empty(self) -> HTTPGetAction:
        return self.http_get or empty(HTTPGetAction)

    @property
    def sleep_or_empty(self) -> SleepAction:
        return self.sleep or empty(SleepAction)

    @property
    def tcp_socket_or_empty(self) -> TCPSocketAction:
        return self.tcp_socket or empty(TCPSocketAction)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.exec is not None:
            n.exec = n.exec.deepcopy()
        if n.http_get is not None:
            n.http_get = n.http_get.deepcopy()
        if n.sleep is not None:
            n.sleep = n.sleep.deepcopy()
        if n.tcp_socket is not None:
            n.tcp_socket = n.tcp_socket.deepcopy()
        return n


class LoadBalancerIngress(Struct, kw_only=True):
    """LoadBalancerIngress of core/v1."""

    hostname: str | None = None
    ip: str | None = None
    ip_mode: str | None = field(name="ipMode", default=None)
    ports: list[PortStatus] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.ports is not None:
            n.ports = [x.deepcopy() for x in n.ports]
        return n


class LoadBalancerStatus(Struct, kw_only=True):
    """LoadBalancerStatus of core/v1."""

    ingress: list[LoadBalancerIngress] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.ingress is not None:
            n.ingress = [x.deepcopy() for x in n.ingress]
        return n


class NodeRuntimeHandler(Struct, kw_only=True):
    """NodeRuntimeHandler of core/v1."""

    features: NodeRuntimeHandlerFeatures | None = None
    name: str | None = None

    @property
    def features_or_empty(self) -> NodeRuntimeHandlerFeatures:
        return self.features or empty(NodeRuntimeHandlerFeatures)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.features is not None:
            n.features = n.features.deepcopy()
        return n


class NodeSelector(Struct, kw_only=True):
    """NodeSelector of core/v1."""

    node_selector_terms: list[NodeSelectorTerm] = field(name="nodeSelectorTerms")

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.node_selector_terms = [x.deepcopy() for x in n.node_selector_terms]
        return n


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

    @property
    def config_source_or_empty(self) -> NodeConfigSource:
        return self.config_source or empty(NodeConfigSource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.config_source is not None:
            n.config_source = n.config_source.deepcopy()
        if n.pod_cidrs is not None:
            n.pod_cidrs = n.pod_cidrs.copy()
        if n.taints is not None:
            n.taints = [x.deepcopy() for x in n.taints]
        return n


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

    @property
    def config_or_empty(self) -> NodeConfigStatus:
        return self.config or empty(NodeConfigStatus)

    @property
    def daemon_endpoints_or_empty(self) -> NodeDaemonEndpoints:
        return self.daemon_endpoints or empty(NodeDaemonEndpoints)

    @property
    def features_or_empty(self) -> NodeFeatures:
        return self.features or empty(NodeFeatures)

    @property
    def node_info_or_empty(self) -> NodeSystemInfo:
        return self.node_info or empty(NodeSystemInfo)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.addresses is not None:
            n.addresses = [x.deepcopy() for x in n.addresses]
        if n.allocatable is not None:
            n.allocatable = n.allocatable.copy()
        if n.capacity is not None:
            n.capacity = n.capacity.copy()
        if n.conditions is not None:
            n.conditions = [x.deepcopy() for x in n.conditions]
        if n.config is not None:
            n.config = n.config.deepcopy()
        if n.daemon_endpoints is not None:
            n.daemon_endpoints = n.daemon_endpoints.deepcopy()
        if n.declared_features is not None:
            n.declared_features = n.declared_features.copy()
        if n.features is not None:
            n.features = n.features.deepcopy()
        if n.images is not None:
            n.images = [x.deepcopy() for x in n.images]
        if n.node_info is not None:
            n.node_info = n.node_info.deepcopy()
        if n.runtime_handlers is not None:
            n.runtime_handlers = [x.deepcopy() for x in n.runtime_handlers]
        if n.volumes_attached is not None:
            n.volumes_attached = [x.deepcopy() for x in n.volumes_attached]
        if n.volumes_in_use is not None:
            n.volumes_in_use = n.volumes_in_use.copy()
        return n


class PodDNSConfig(Struct, kw_only=True):
    """PodDNSConfig of core/v1."""

    nameservers: list[str] | None = None
    options: list[PodDNSConfigOption] | None = None
    searches: list[str] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.nameservers is not None:
            n.nameservers = n.nameservers.copy()
        if n.options is not None:
            n.options = [x.deepcopy() for x in n.options]
        if n.searches is not None:
            n.searches = n.searches.copy()
        return n


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

    @property
    def app_armor_profile_or_empty(self) -> AppArmorProfile:
        return self.app_armor_profile or empty(AppArmorProfile)

    @property
    def se_linux_options_or_empty(self) -> SELinuxOptions:
        return self.se_linux_options or empty(SELinuxOptions)

    @property
    def seccomp_profile_or_empty(self) -> SeccompProfile:
        return self.seccomp_profile or empty(SeccompProfile)

    @property
    def windows_options_or_empty(self) -> WindowsSecurityContextOptions:
        return self.windows_options or empty(WindowsSecurityContextOptions)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.app_armor_profile is not None:
            n.app_armor_profile = n.app_armor_profile.deepcopy()
        if n.se_linux_options is not None:
            n.se_linux_options = n.se_linux_options.deepcopy()
        if n.seccomp_profile is not None:
            n.seccomp_profile = n.seccomp_profile.deepcopy()
        if n.supplemental_groups is not None:
            n.supplemental_groups = n.supplemental_groups.copy()
        if n.sysctls is not None:
            n.sysctls = [x.deepcopy() for x in n.sysctls]
        if n.windows_options is not None:
            n.windows_options = n.windows_options.deepcopy()
        return n


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

    @property
    def exec_or_empty(self) -> ExecAction:
        return self.exec or empty(ExecAction)

    @property
    def grpc_or_empty(self) -> GRPCAction:
        return self.grpc or empty(GRPCAction)

    @property
    def http_get_or_empty(self) -> HTTPGetAction:
        return self.http_get or empty(HTTPGetAction)

    @property
    def tcp_socket_or_empty(self) -> TCPSocketAction:
        return self.tcp_socket or empty(TCPSocketAction)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.exec is not None:
            n.exec = n.exec.deepcopy()
        if n.grpc is not None:
            n.grpc = n.grpc.deepcopy()
        if n.http_get is not None:
            n.http_get = n.http_get.deepcopy()
        if n.tcp_socket is not None:
            n.tcp_socket = n.tcp_socket.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.grpc is not None:
            self.grpc.set_defaults()


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

    @property
    def app_armor_profile_or_empty(self) -> AppArmorProfile:
        return self.app_armor_profile or empty(AppArmorProfile)

    @property
    def capabilities_or_empty(self) -> Capabilities:
        return self.capabilities or empty(Capabilities)

    @property
    def se_linux_options_or_empty(self) -> SELinuxOptions:
        return self.se_linux_options or empty(SELinuxOptions)

    @property
    def seccomp_profile_or_empty(self) -> SeccompProfile:
        return self.seccomp_profile or empty(SeccompProfile)

    @property
    def windows_options_or_empty(self) -> WindowsSecurityContextOptions:
        return self.windows_options or empty(WindowsSecurityContextOptions)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.app_armor_profile is not None:
            n.app_armor_profile = n.app_armor_profile.deepcopy()
        if n.capabilities is not None:
            n.capabilities = n.capabilities.deepcopy()
        if n.se_linux_options is not None:
            n.se_linux_options = n.se_linux_options.deepcopy()
        if n.seccomp_profile is not None:
            n.seccomp_profile = n.seccomp_profile.deepcopy()
        if n.windows_options is not None:
            n.windows_options = n.windows_options.deepcopy()
        return n


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

    @property
    def session_affinity_config_or_empty(self) -> SessionAffinityConfig:
        return self.session_affinity_config or empty(SessionAffinityConfig)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.cluster_ips is not None:
            n.cluster_ips = n.cluster_ips.copy()
        if n.external_ips is not None:
            n.external_ips = n.external_ips.copy()
        if n.ip_families is not None:
            n.ip_families = n.ip_families.copy()
        if n.load_balancer_source_ranges is not None:
            n.load_balancer_source_ranges = n.load_balancer_source_ranges.copy()
        if n.ports is not None:
            n.ports = [x.deepcopy() for x in n.ports]
        if n.selector is not None:
            n.selector = n.selector.copy()
        if n.session_affinity_config is not None:
            n.session_affinity_config = n.session_affinity_config.deepcopy()
        return n

    def set_defaults(self) -> None:
        for each_ports in self.ports or ():
            each_ports.set_defaults()


class ServiceStatus(Struct, kw_only=True):
    """ServiceStatus of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    conditions: list[meta_v1.Condition] | None = None
    load_balancer: LoadBalancerStatus | None = field(name="loadBalancer", default=None)

    @property
    def load_balancer_or_empty(self) -> LoadBalancerStatus:
        return self.load_balancer or empty(LoadBalancerStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.conditions is not None:
            n.conditions = [x.deepcopy() for x in n.conditions]
        if n.load_balancer is not None:
            n.load_balancer = n.load_balancer.deepcopy()
        return n


class VolumeMountStatus(Struct, kw_only=True):
    """VolumeMountStatus of core/v1."""

    mount_path: str = field(name="mountPath")
    name: str
    read_only: bool | None = field(name="readOnly", default=None)
    recursive_read_only: str | None = field(name="recursiveReadOnly", default=None)
    volume_status: VolumeStatus | None = field(name="volumeStatus", default=None)

    @property
    def volume_status_or_empty(self) -> VolumeStatus:
        return self.volume_status or empty(VolumeStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.volume_status is not None:
            n.volume_status = n.volume_status.deepcopy()
        return n


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

    @property
    def label_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.label_selector or empty(meta_v1.LabelSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.label_selector is not None:
            n.label_selector = n.label_selector.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.binary_data is not None:
            n.binary_data = n.binary_data.copy()
        if n.data is not None:
            n.data = n.data.copy()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        return n


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

    @property
    def last_state_or_empty(self) -> ContainerState:
        return self.last_state or empty(ContainerState)

    @property
    def resources_or_empty(self) -> ResourceRequirements:
        return self.resources or empty(ResourceRequirements)

    @property
    def state_or_empty(self) -> ContainerState:
        return self.state or empty(ContainerState)

    @property
    def user_or_empty(self) -> ContainerUser:
        return self.user or empty(ContainerUser)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.allocated_resources is not None:
            n.allocated_resources = n.allocated_resources.copy()
        if n.allocated_resources_status is not None:
            n.allocated_resources_status = [x.deepcopy() for x in n.allocated_resources_status]
        if n.last_state is not None:
            n.last_state = n.last_state.deepcopy()
        if n.resources is not None:
            n.resources = n.resources.deepcopy()
        if n.state is not None:
            n.state = n.state.deepcopy()
        if n.user is not None:
            n.user = n.user.deepcopy()
        if n.volume_mounts is not None:
            n.volume_mounts = [x.deepcopy() for x in n.volume_mounts]
        return n


class DownwardAPIProjection(Struct, kw_only=True):
    """DownwardAPIProjection of core/v1."""

    items: list[DownwardAPIVolumeFile] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.items is not None:
            n.items = [x.deepcopy() for x in n.items]
        return n


class EnvVar(Struct, kw_only=True):
    """EnvVar of core/v1."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = field(name="valueFrom", default=None)

    @property
    def value_from_or_empty(self) -> EnvVarSource:
        return self.value_from or empty(EnvVarSource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.value_from is not None:
            n.value_from = n.value_from.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.value_from is not None:
            self.value_from.set_defaults()


class Lifecycle(Struct, kw_only=True):
    """Lifecycle of core/v1."""

    post_start: LifecycleHandler | None = field(name="postStart", default=None)
    pre_stop: LifecycleHandler | None = field(name="preStop", default=None)
    stop_signal: str | None = field(name="stopSignal", default=None)

    @property
    def post_start_or_empty(self) -> LifecycleHandler:
        return self.post_start or empty(LifecycleHandler)

    @property
    def pre_stop_or_empty(self) -> LifecycleHandler:
        return self.pre_stop or empty(LifecycleHandler)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.post_start is not None:
            n.post_start = n.post_start.deepcopy()
        if n.pre_stop is not None:
            n.pre_stop = n.pre_stop.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> LimitRangeSpec:
        return self.spec or empty(LimitRangeSpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> NamespaceSpec:
        return self.spec or empty(NamespaceSpec)

    @property
    def status_or_empty(self) -> NamespaceStatus:
        return self.status or empty(NamespaceStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> NodeSpec:
        return self.spec or empty(NodeSpec)

    @property
    def status_or_empty(self) -> NodeStatus:
        return self.status or empty(NodeStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n


class NodeAffinity(Struct, kw_only=True):
    """NodeAffinity of core/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "requiredDuringSchedulingIgnoredDuringExecution": Merge("atomic"),
    }

    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)
    required_during_scheduling_ignored_during_execution: NodeSelector | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)

    @property
    def required_during_scheduling_ignored_during_execution_or_empty(self) -> NodeSelector:
        return self.required_during_scheduling_ignored_during_execution or empty(NodeSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.preferred_during_scheduling_ignored_during_execution is not None:
            n.preferred_during_scheduling_ignored_during_execution = [x.deepcopy() for x in n.preferred_during_scheduling_ignored_during_execution]
        if n.required_during_scheduling_ignored_during_execution is not None:
            n.required_during_scheduling_ignored_during_execution = n.required_during_scheduling_ignored_during_execution.deepcopy()
        return n


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

    @property
    def data_source_or_empty(self) -> TypedLocalObjectReference:
        return self.data_source or empty(TypedLocalObjectReference)

    @property
    def data_source_ref_or_empty(self) -> TypedObjectReference:
        return self.data_source_ref or empty(TypedObjectReference)

    @property
    def resources_or_empty(self) -> VolumeResourceRequirements:
        return self.resources or empty(VolumeResourceRequirements)

    @property
    def selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.selector or empty(meta_v1.LabelSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.access_modes is not None:
            n.access_modes = n.access_modes.copy()
        if n.data_source is not None:
            n.data_source = n.data_source.deepcopy()
        if n.data_source_ref is not None:
            n.data_source_ref = n.data_source_ref.deepcopy()
        if n.resources is not None:
            n.resources = n.resources.deepcopy()
        if n.selector is not None:
            n.selector = n.selector.deepcopy()
        return n


class PersistentVolumeClaimTemplate(Struct, kw_only=True):
    """PersistentVolumeClaimTemplate of core/v1."""

    spec: PersistentVolumeClaimSpec
    metadata: meta_v1.ObjectMeta | None = None

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.spec = n.spec.deepcopy()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        return n


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

    @property
    def label_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.label_selector or empty(meta_v1.LabelSelector)

    @property
    def namespace_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.namespace_selector or empty(meta_v1.LabelSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.label_selector is not None:
            n.label_selector = n.label_selector.deepcopy()
        if n.match_label_keys is not None:
            n.match_label_keys = n.match_label_keys.copy()
        if n.mismatch_label_keys is not None:
            n.mismatch_label_keys = n.mismatch_label_keys.copy()
        if n.namespace_selector is not None:
            n.namespace_selector = n.namespace_selector.deepcopy()
        if n.namespaces is not None:
            n.namespaces = n.namespaces.copy()
        return n


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

    @property
    def extended_resource_claim_status_or_empty(self) -> PodExtendedResourceClaimStatus:
        return self.extended_resource_claim_status or empty(PodExtendedResourceClaimStatus)

    @property
    def resources_or_empty(self) -> ResourceRequirements:
        return self.resources or empty(ResourceRequirements)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.allocated_resources is not None:
            n.allocated_resources = n.allocated_resources.copy()
        if n.conditions is not None:
            n.conditions = [x.deepcopy() for x in n.conditions]
        if n.container_statuses is not None:
            n.container_statuses = [x.deepcopy() for x in n.container_statuses]
        if n.ephemeral_container_statuses is not None:
            n.ephemeral_container_statuses = [x.deepcopy() for x in n.ephemeral_container_statuses]
        if n.extended_resource_claim_status is not None:
            n.extended_resource_claim_status = n.extended_resource_claim_status.deepcopy()
        if n.host_ips is not None:
            n.host_ips = [x.deepcopy() for x in n.host_ips]
        if n.init_container_statuses is not None:
            n.init_container_statuses = [x.deepcopy() for x in n.init_container_statuses]
        if n.node_allocatable_resource_claim_statuses is not None:
            n.node_allocatable_resource_claim_statuses = [x.deepcopy() for x in n.node_allocatable_resource_claim_statuses]
        if n.pod_ips is not None:
            n.pod_ips = [x.deepcopy() for x in n.pod_ips]
        if n.resource_claim_statuses is not None:
            n.resource_claim_statuses = [x.deepcopy() for x in n.resource_claim_statuses]
        if n.resources is not None:
            n.resources = n.resources.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.data is not None:
            n.data = n.data.copy()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.string_data is not None:
            n.string_data = n.string_data.copy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> ServiceSpec:
        return self.spec or empty(ServiceSpec)

    @property
    def status_or_empty(self) -> ServiceStatus:
        return self.status or empty(ServiceStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.image_pull_secrets is not None:
            n.image_pull_secrets = [x.deepcopy() for x in n.image_pull_secrets]
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.secrets is not None:
            n.secrets = [x.deepcopy() for x in n.secrets]
        return n

    def set_defaults(self) -> None:
        for each_image_pull_secrets in self.image_pull_secrets or ():
            each_image_pull_secrets.set_defaults()


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

    @property
    def label_selector_or_empty(self) -> meta_v1.LabelSelector:
        return self.label_selector or empty(meta_v1.LabelSelector)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.label_selector is not None:
            n.label_selector = n.label_selector.deepcopy()
        if n.match_label_keys is not None:
            n.match_label_keys = n.match_label_keys.copy()
        return n


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

    @property
    def cluster_trust_bundle_or_empty(self) -> ClusterTrustBundleProjection:
        return self.cluster_trust_bundle or empty(ClusterTrustBundleProjection)

    @property
    def config_map_or_empty(self) -> ConfigMapProjection:
        return self.config_map or empty(ConfigMapProjection)

    @property
    def downward_api_or_empty(self) -> DownwardAPIProjection:
        return self.downward_api or empty(DownwardAPIProjection)

    @property
    def pod_certificate_or_empty(self) -> PodCertificateProjection:
        return self.pod_certificate or empty(PodCertificateProjection)

    @property
    def secret_or_empty(self) -> SecretProjection:
        return self.secret or empty(SecretProjection)

    @property
    def service_account_token_or_empty(self) -> ServiceAccountTokenProjection:
        return self.service_account_token or empty(ServiceAccountTokenProjection)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.cluster_trust_bundle is not None:
            n.cluster_trust_bundle = n.cluster_trust_bundle.deepcopy()
        if n.config_map is not None:
            n.config_map = n.config_map.deepcopy()
        if n.downward_api is not None:
            n.downward_api = n.downward_api.deepcopy()
        if n.pod_certificate is not None:
            n.pod_certificate = n.pod_certificate.deepcopy()
        if n.secret is not None:
            n.secret = n.secret.deepcopy()
        if n.service_account_token is not None:
            n.service_account_token = n.service_account_token.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.config_map is not None:
            self.config_map.set_defaults()
        if self.secret is not None:
            self.secret.set_defaults()


class WeightedPodAffinityTerm(Struct, kw_only=True):
    """WeightedPodAffinityTerm of core/v1."""

    pod_affinity_term: PodAffinityTerm = field(name="podAffinityTerm")
    weight: int

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.pod_affinity_term = n.pod_affinity_term.deepcopy()
        return n


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

    @property
    def lifecycle_or_empty(self) -> Lifecycle:
        return self.lifecycle or empty(Lifecycle)

    @property
    def liveness_probe_or_empty(self) -> Probe:
        return self.liveness_probe or empty(Probe)

    @property
    def readiness_probe_or_empty(self) -> Probe:
        return self.readiness_probe or empty(Probe)

    @property
    def resources_or_empty(self) -> ResourceRequirements:
        return self.resources or empty(ResourceRequirements)

    @property
    def security_context_or_empty(self) -> SecurityContext:
        return self.security_context or empty(SecurityContext)

    @property
    def startup_probe_or_empty(self) -> Probe:
        return self.startup_probe or empty(Probe)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.args is not None:
            n.args = n.args.copy()
        if n.command is not None:
            n.command = n.command.copy()
        if n.env is not None:
            n.env = [x.deepcopy() for x in n.env]
        if n.env_from is not None:
            n.env_from = [x.deepcopy() for x in n.env_from]
        if n.lifecycle is not None:
            n.lifecycle = n.lifecycle.deepcopy()
        if n.liveness_probe is not None:
            n.liveness_probe = n.liveness_probe.deepcopy()
        if n.ports is not None:
            n.ports = [x.deepcopy() for x in n.ports]
        if n.readiness_probe is not None:
            n.readiness_probe = n.readiness_probe.deepcopy()
        if n.resize_policy is not None:
            n.resize_policy = [x.deepcopy() for x in n.resize_policy]
        if n.resources is not None:
            n.resources = n.resources.deepcopy()
        if n.restart_policy_rules is not None:
            n.restart_policy_rules = [x.deepcopy() for x in n.restart_policy_rules]
        if n.security_context is not None:
            n.security_context = n.security_context.deepcopy()
        if n.startup_probe is not None:
            n.startup_probe = n.startup_probe.deepcopy()
        if n.volume_devices is not None:
            n.volume_devices = [x.deepcopy() for x in n.volume_devices]
        if n.volume_mounts is not None:
            n.volume_mounts = [x.deepcopy() for x in n.volume_mounts]
        return n

    def set_defaults(self) -> None:
        for each_env in self.env or ():
            each_env.set_defaults()
        for each_env_from in self.env_from or ():
            each_env_from.set_defaults()
        if self.liveness_probe is not None:
            self.liveness_probe.set_defaults()
        for each_ports in self.ports or ():
            each_ports.set_defaults()
        if self.readiness_probe is not None:
            self.readiness_probe.set_defaults()
        if self.startup_probe is not None:
            self.startup_probe.set_defaults()


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

    @property
    def lifecycle_or_empty(self) -> Lifecycle:
        return self.lifecycle or empty(Lifecycle)

    @property
    def liveness_probe_or_empty(self) -> Probe:
        return self.liveness_probe or empty(Probe)

    @property
    def readiness_probe_or_empty(self) -> Probe:
        return self.readiness_probe or empty(Probe)

    @property
    def resources_or_empty(self) -> ResourceRequirements:
        return self.resources or empty(ResourceRequirements)

    @property
    def security_context_or_empty(self) -> SecurityContext:
        return self.security_context or empty(SecurityContext)

    @property
    def startup_probe_or_empty(self) -> Probe:
        return self.startup_probe or empty(Probe)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.args is not None:
            n.args = n.args.copy()
        if n.command is not None:
            n.command = n.command.copy()
        if n.env is not None:
            n.env = [x.deepcopy() for x in n.env]
        if n.env_from is not None:
            n.env_from = [x.deepcopy() for x in n.env_from]
        if n.lifecycle is not None:
            n.lifecycle = n.lifecycle.deepcopy()
        if n.liveness_probe is not None:
            n.liveness_probe = n.liveness_probe.deepcopy()
        if n.ports is not None:
            n.ports = [x.deepcopy() for x in n.ports]
        if n.readiness_probe is not None:
            n.readiness_probe = n.readiness_probe.deepcopy()
        if n.resize_policy is not None:
            n.resize_policy = [x.deepcopy() for x in n.resize_policy]
        if n.resources is not None:
            n.resources = n.resources.deepcopy()
        if n.restart_policy_rules is not None:
            n.restart_policy_rules = [x.deepcopy() for x in n.restart_policy_rules]
        if n.security_context is not None:
            n.security_context = n.security_context.deepcopy()
        if n.startup_probe is not None:
            n.startup_probe = n.startup_probe.deepcopy()
        if n.volume_devices is not None:
            n.volume_devices = [x.deepcopy() for x in n.volume_devices]
        if n.volume_mounts is not None:
            n.volume_mounts = [x.deepcopy() for x in n.volume_mounts]
        return n

    def set_defaults(self) -> None:
        for each_env in self.env or ():
            each_env.set_defaults()
        for each_env_from in self.env_from or ():
            each_env_from.set_defaults()
        if self.liveness_probe is not None:
            self.liveness_probe.set_defaults()
        for each_ports in self.ports or ():
            each_ports.set_defaults()
        if self.readiness_probe is not None:
            self.readiness_probe.set_defaults()
        if self.startup_probe is not None:
            self.startup_probe.set_defaults()


class EphemeralVolumeSource(Struct, kw_only=True):
    """EphemeralVolumeSource of core/v1."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = field(name="volumeClaimTemplate", default=None)

    @property
    def volume_claim_template_or_empty(self) -> PersistentVolumeClaimTemplate:
        return self.volume_claim_template or empty(PersistentVolumeClaimTemplate)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.volume_claim_template is not None:
            n.volume_claim_template = n.volume_claim_template.deepcopy()
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> PersistentVolumeClaimSpec:
        return self.spec or empty(PersistentVolumeClaimSpec)

    @property
    def status_or_empty(self) -> PersistentVolumeClaimStatus:
        return self.status or empty(PersistentVolumeClaimStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n


class PodAffinity(Struct, kw_only=True):
    """PodAffinity of core/v1."""

    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.preferred_during_scheduling_ignored_during_execution is not None:
            n.preferred_during_scheduling_ignored_during_execution = [x.deepcopy() for x in n.preferred_during_scheduling_ignored_during_execution]
        if n.required_during_scheduling_ignored_during_execution is not None:
            n.required_during_scheduling_ignored_during_execution = [x.deepcopy() for x in n.required_during_scheduling_ignored_during_execution]
        return n


class PodAntiAffinity(Struct, kw_only=True):
    """PodAntiAffinity of core/v1."""

    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = field(name="preferredDuringSchedulingIgnoredDuringExecution", default=None)
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.preferred_during_scheduling_ignored_during_execution is not None:
            n.preferred_during_scheduling_ignored_during_execution = [x.deepcopy() for x in n.preferred_during_scheduling_ignored_during_execution]
        if n.required_during_scheduling_ignored_during_execution is not None:
            n.required_during_scheduling_ignored_during_execution = [x.deepcopy() for x in n.required_during_scheduling_ignored_during_execution]
        return n


class ProjectedVolumeSource(Struct, kw_only=True):
    """ProjectedVolumeSource of core/v1."""

    default_mode: int | None = field(name="defaultMode", default=None)
    sources: list[VolumeProjection] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.sources is not None:
            n.sources = [x.deepcopy() for x in n.sources]
        return n

    def set_defaults(self) -> None:
        for each_sources in self.sources or ():
            each_sources.set_defaults()


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

    @property
    def aws_elastic_block_store_or_empty(self) -> AWSElasticBlockStoreVolumeSource:
        return self.aws_elastic_block_store or empty(AWSElasticBlockStoreVolumeSource)

    @property
    def azure_disk_or_empty(self) -> AzureDiskVolumeSource:
        return self.azure_disk or empty(AzureDiskVolumeSource)

    @property
    def azure_file_or_empty(self) -> AzureFileVolumeSource:
        return self.azure_file or empty(AzureFileVolumeSource)

    @property
    def cephfs_or_empty(self) -> CephFSVolumeSource:
        return self.cephfs or empty(CephFSVolumeSource)

    @property
    def cinder_or_empty(self) -> CinderVolumeSource:
        return self.cinder or empty(CinderVolumeSource)

    @property
    def config_map_or_empty(self) -> ConfigMapVolumeSource:
        return self.config_map or empty(ConfigMapVolumeSource)

    @property
    def csi_or_empty(self) -> CSIVolumeSource:
        return self.csi or empty(CSIVolumeSource)

    @property
    def downward_api_or_empty(self) -> DownwardAPIVolumeSource:
        return self.downward_api or empty(DownwardAPIVolumeSource)

    @property
    def empty_dir_or_empty(self) -> EmptyDirVolumeSource:
        return self.empty_dir or empty(EmptyDirVolumeSource)

    @property
    def ephemeral_or_empty(self) -> EphemeralVolumeSource:
        return self.ephemeral or empty(EphemeralVolumeSource)

    @property
    def fc_or_empty(self) -> FCVolumeSource:
        return self.fc or empty(FCVolumeSource)

    @property
    def flex_volume_or_empty(self) -> FlexVolumeSource:
        return self.flex_volume or empty(FlexVolumeSource)

    @property
    def flocker_or_empty(self) -> FlockerVolumeSource:
        return self.flocker or empty(FlockerVolumeSource)

    @property
    def gce_persistent_disk_or_empty(self) -> GCEPersistentDiskVolumeSource:
        return self.gce_persistent_disk or empty(GCEPersistentDiskVolumeSource)

    @property
    def git_repo_or_empty(self) -> GitRepoVolumeSource:
        return self.git_repo or empty(GitRepoVolumeSource)

    @property
    def glusterfs_or_empty(self) -> GlusterfsVolumeSource:
        return self.glusterfs or empty(GlusterfsVolumeSource)

    @property
    def host_path_or_empty(self) -> HostPathVolumeSource:
        return self.host_path or empty(HostPathVolumeSource)

    @property
    def image_or_empty(self) -> ImageVolumeSource:
        return self.image or empty(ImageVolumeSource)

    @property
    def iscsi_or_empty(self) -> ISCSIVolumeSource:
        return self.iscsi or empty(ISCSIVolumeSource)

    @property
    def nfs_or_empty(self) -> NFSVolumeSource:
        return self.nfs or empty(NFSVolumeSource)

    @property
    def persistent_volume_claim_or_empty(self) -> PersistentVolumeClaimVolumeSource:
        return self.persistent_volume_claim or empty(PersistentVolumeClaimVolumeSource)

    @property
    def photon_persistent_disk_or_empty(self) -> PhotonPersistentDiskVolumeSource:
        return self.photon_persistent_disk or empty(PhotonPersistentDiskVolumeSource)

    @property
    def portworx_volume_or_empty(self) -> PortworxVolumeSource:
        return self.portworx_volume or empty(PortworxVolumeSource)

    @property
    def projected_or_empty(self) -> ProjectedVolumeSource:
        return self.projected or empty(ProjectedVolumeSource)

    @property
    def quobyte_or_empty(self) -> QuobyteVolumeSource:
        return self.quobyte or empty(QuobyteVolumeSource)

    @property
    def rbd_or_empty(self) -> RBDVolumeSource:
        return self.rbd or empty(RBDVolumeSource)

    @property
    def scale_io_or_empty(self) -> ScaleIOVolumeSource:
        return self.scale_io or empty(ScaleIOVolumeSource)

    @property
    def secret_or_empty(self) -> SecretVolumeSource:
        return self.secret or empty(SecretVolumeSource)

    @property
    def storageos_or_empty(self) -> StorageOSVolumeSource:
        return self.storageos or empty(StorageOSVolumeSource)

    @property
    def vsphere_volume_or_empty(self) -> VsphereVirtualDiskVolumeSource:
        return self.vsphere_volume or empty(VsphereVirtualDiskVolumeSource)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.aws_elastic_block_store is not None:
            n.aws_elastic_block_store = n.aws_elastic_block_store.deepcopy()
        if n.azure_disk is not None:
            n.azure_disk = n.azure_disk.deepcopy()
        if n.azure_file is not None:
            n.azure_file = n.azure_file.deepcopy()
        if n.cephfs is not None:
            n.cephfs = n.cephfs.deepcopy()
        if n.cinder is not None:
            n.cinder = n.cinder.deepcopy()
        if n.config_map is not None:
            n.config_map = n.config_map.deepcopy()
        if n.csi is not None:
            n.csi = n.csi.deepcopy()
        if n.downward_api is not None:
            n.downward_api = n.downward_api.deepcopy()
        if n.empty_dir is not None:
            n.empty_dir = n.empty_dir.deepcopy()
        if n.ephemeral is not None:
            n.ephemeral = n.ephemeral.deepcopy()
        if n.fc is not None:
            n.fc = n.fc.deepcopy()
        if n.flex_volume is not None:
            n.flex_volume = n.flex_volume.deepcopy()
        if n.flocker is not None:
            n.flocker = n.flocker.deepcopy()
        if n.gce_persistent_disk is not None:
            n.gce_persistent_disk = n.gce_persistent_disk.deepcopy()
        if n.git_repo is not None:
            n.git_repo = n.git_repo.deepcopy()
        if n.glusterfs is not None:
            n.glusterfs = n.glusterfs.deepcopy()
        if n.host_path is not None:
            n.host_path = n.host_path.deepcopy()
        if n.image is not None:
            n.image = n.image.deepcopy()
        if n.iscsi is not None:
            n.iscsi = n.iscsi.deepcopy()
        if n.nfs is not None:
            n.nfs = n.nfs.deepcopy()
        if n.persistent_volume_claim is not None:
            n.persistent_volume_claim = n.persistent_volume_claim.deepcopy()
        if n.photon_persistent_disk is not None:
            n.photon_persistent_disk = n.photon_persistent_disk.deepcopy()
        if n.portworx_volume is not None:
            n.portworx_volume = n.portworx_volume.deepcopy()
        if n.projected is not None:
            n.projected = n.projected.deepcopy()
        if n.quobyte is not None:
            n.quobyte = n.quobyte.deepcopy()
        if n.rbd is not None:
            n.rbd = n.rbd.deepcopy()
        if n.scale_io is not None:
            n.scale_io = n.scale_io.deepcopy()
        if n.secret is not None:
            n.secret = n.secret.deepcopy()
        if n.storageos is not None:
            n.storageos = n.storageos.deepcopy()
        if n.vsphere_volume is not None:
            n.vsphere_volume = n.vsphere_volume.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.azure_disk is not None:
            self.azure_disk.set_defaults()
        if self.cephfs is not None:
            self.cephfs.set_defaults()
        if self.cinder is not None:
            self.cinder.set_defaults()
        if self.config_map is not None:
            self.config_map.set_defaults()
        if self.csi is not None:
            self.csi.set_defaults()
        if self.flex_volume is not None:
            self.flex_volume.set_defaults()
        if self.iscsi is not None:
            self.iscsi.set_defaults()
        if self.projected is not None:
            self.projected.set_defaults()
        if self.rbd is not None:
            self.rbd.set_defaults()
        if self.scale_io is not None:
            self.scale_io.set_defaults()
        if self.storageos is not None:
            self.storageos.set_defaults()


class Affinity(Struct, kw_only=True):
    """Affinity of core/v1."""

    node_affinity: NodeAffinity | None = field(name="nodeAffinity", default=None)
    pod_affinity: PodAffinity | None = field(name="podAffinity", default=None)
    pod_anti_affinity: PodAntiAffinity | None = field(name="podAntiAffinity", default=None)

    @property
    def node_affinity_or_empty(self) -> NodeAffinity:
        return self.node_affinity or empty(NodeAffinity)

    @property
    def pod_affinity_or_empty(self) -> PodAffinity:
        return self.pod_affinity or empty(PodAffinity)

    @property
    def pod_anti_affinity_or_empty(self) -> PodAntiAffinity:
        return self.pod_anti_affinity or empty(PodAntiAffinity)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.node_affinity is not None:
            n.node_affinity = n.node_affinity.deepcopy()
        if n.pod_affinity is not None:
            n.pod_affinity = n.pod_affinity.deepcopy()
        if n.pod_anti_affinity is not None:
            n.pod_anti_affinity = n.pod_anti_affinity.deepcopy()
        return n


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

    @property
    def affinity_or_empty(self) -> Affinity:
        return self.affinity or empty(Affinity)

    @property
    def dns_config_or_empty(self) -> PodDNSConfig:
        return self.dns_config or empty(PodDNSConfig)

    @property
    def os_or_empty(self) -> PodOS:
        return self.os or empty(PodOS)

    @property
    def resources_or_empty(self) -> ResourceRequirements:
        return self.resources or empty(ResourceRequirements)

    @property
    def scheduling_group_or_empty(self) -> PodSchedulingGroup:
        return self.scheduling_group or empty(PodSchedulingGroup)

    @property
    def security_context_or_empty(self) -> PodSecurityContext:
        return self.security_context or empty(PodSecurityContext)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        n.containers = [x.deepcopy() for x in n.containers]
        if n.affinity is not None:
            n.affinity = n.affinity.deepcopy()
        if n.dns_config is not None:
            n.dns_config = n.dns_config.deepcopy()
        if n.ephemeral_containers is not None:
            n.ephemeral_containers = [x.deepcopy() for x in n.ephemeral_containers]
        if n.host_aliases is not None:
            n.host_aliases = [x.deepcopy() for x in n.host_aliases]
        if n.image_pull_secrets is not None:
            n.image_pull_secrets = [x.deepcopy() for x in n.image_pull_secrets]
        if n.init_containers is not None:
            n.init_containers = [x.deepcopy() for x in n.init_containers]
        if n.node_selector is not None:
            n.node_selector = n.node_selector.copy()
        if n.os is not None:
            n.os = n.os.deepcopy()
        if n.overhead is not None:
            n.overhead = n.overhead.copy()
        if n.readiness_gates is not None:
            n.readiness_gates = [x.deepcopy() for x in n.readiness_gates]
        if n.resource_claims is not None:
            n.resource_claims = [x.deepcopy() for x in n.resource_claims]
        if n.resources is not None:
            n.resources = n.resources.deepcopy()
        if n.scheduling_gates is not None:
            n.scheduling_gates = [x.deepcopy() for x in n.scheduling_gates]
        if n.scheduling_group is not None:
            n.scheduling_group = n.scheduling_group.deepcopy()
        if n.security_context is not None:
            n.security_context = n.security_context.deepcopy()
        if n.tolerations is not None:
            n.tolerations = [x.deepcopy() for x in n.tolerations]
        if n.topology_spread_constraints is not None:
            n.topology_spread_constraints = [x.deepcopy() for x in n.topology_spread_constraints]
        if n.volumes is not None:
            n.volumes = [x.deepcopy() for x in n.volumes]
        return n

    def set_defaults(self) -> None:
        for each_containers in self.containers:
            each_containers.set_defaults()
        for each_ephemeral_containers in self.ephemeral_containers or ():
            each_ephemeral_containers.set_defaults()
        for each_image_pull_secrets in self.image_pull_secrets or ():
            each_image_pull_secrets.set_defaults()
        for each_init_containers in self.init_containers or ():
            each_init_containers.set_defaults()
        for each_volumes in self.volumes or ():
            each_volumes.set_defaults()


class PodTemplateSpec(Struct, kw_only=True):
    """PodTemplateSpec of core/v1."""

    metadata: meta_v1.ObjectMeta | None = None
    spec: PodSpec | None = None

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> PodSpec:
        return self.spec or empty(PodSpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> PodSpec:
        return self.spec or empty(PodSpec)

    @property
    def status_or_empty(self) -> PodStatus:
        return self.status or empty(PodStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()
