# SPDX-License-Identifier: Apache-2.0
"""The built-in resources that the local cluster serves, with verbs and names as kube-apiserver lists them."""

from trainwright.controller.local.apiserver.discovery.resources import READ_AND_WRITE, DiscoveryResource, Subresource

_STATUS = Subresource("status")
_CREATE = ("create",)
_NO_COLLECTION = tuple(verb for verb in READ_AND_WRITE if verb != "deletecollection")


def _core(
    kind: str,
    plural: str,
    short_name: str = "",
    *subresources: Subresource,
    namespaced: bool = True,
    verbs: tuple[str, ...] = READ_AND_WRITE,
    categories: tuple[str, ...] = (),
) -> DiscoveryResource:
    return _resource(
        "",
        kind,
        plural,
        *subresources,
        namespaced=namespaced,
        verbs=verbs,
        categories=categories,
        short_names=(short_name,) if short_name else (),
    )


def _resource(
    group: str,
    kind: str,
    plural: str,
    *subresources: Subresource,
    namespaced: bool = True,
    verbs: tuple[str, ...] = READ_AND_WRITE,
    categories: tuple[str, ...] = (),
    short_names: tuple[str, ...] = (),
    stored_as: str = "",
) -> DiscoveryResource:
    return DiscoveryResource(
        group,
        "v1",
        kind,
        plural,
        kind.lower(),
        namespaced,
        verbs=verbs,
        short_names=short_names,
        categories=categories,
        subresources=subresources,
        stored_as=stored_as,
    )


def _admission(kind: str, plural: str, *subresources: Subresource) -> DiscoveryResource:
    group = "admissionregistration.k8s.io"
    return _resource(group, kind, plural, *subresources, namespaced=False, categories=_EXTENSIONS)


_POD = (
    Subresource("attach", ("create", "get"), "PodAttachOptions"),
    Subresource("binding", _CREATE, "Binding"),
    Subresource("eviction", _CREATE, "Eviction", "policy", "v1"),
    Subresource("exec", ("create", "get"), "PodExecOptions"),
    Subresource("log", ("get",)),
    _STATUS,
)
_TOKEN = Subresource("token", _CREATE, "TokenRequest", "authentication.k8s.io", "v1")
_EXTENSIONS = ("api-extensions",)
_EXTENSION = "apiextensions.k8s.io"
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_DEVICES = "resource.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

BUILT_IN: tuple[DiscoveryResource, ...] = (
    _core("Binding", "bindings", verbs=_CREATE),
    _core("ConfigMap", "configmaps", "cm"),
    _core("Event", "events", "ev"),
    _core("LimitRange", "limitranges", "limits"),
    _core(
        "Namespace",
        "namespaces",
        "ns",
        Subresource("finalize", ("update",)),
        _STATUS,
        namespaced=False,
        verbs=_NO_COLLECTION,
    ),
    _core("Node", "nodes", "no", _STATUS, namespaced=False),
    _core("PersistentVolume", "persistentvolumes", "pv", _STATUS, namespaced=False),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", _STATUS),
    _core("Pod", "pods", "po", *_POD, categories=("all",)),
    _core("ReplicationController", "replicationcontrollers", "rc", _STATUS, categories=("all",)),
    _core("Secret", "secrets"),
    _core("Service", "services", "svc", _STATUS, categories=("all",)),
    _core("ServiceAccount", "serviceaccounts", "sa", _TOKEN),
    _resource("apps", "ReplicaSet", "replicasets", _STATUS, short_names=("rs",), categories=("all",)),
    _resource("apps", "StatefulSet", "statefulsets", _STATUS, short_names=("sts",), categories=("all",)),
    _resource("batch", "Job", "jobs", _STATUS, categories=("all",)),
    _resource("coordination.k8s.io", "Lease", "leases"),
    _resource("events.k8s.io", "Event", "events", short_names=("ev",), stored_as="v1"),
    _resource("scheduling.k8s.io", "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",)),
    _resource("node.k8s.io", "RuntimeClass", "runtimeclasses", namespaced=False),
    _resource("policy", "PodDisruptionBudget", "poddisruptionbudgets", _STATUS, short_names=("pdb",)),
    _resource(_DEVICES, "DeviceClass", "deviceclasses", namespaced=False),
    _resource(_DEVICES, "ResourceClaim", "resourceclaims", _STATUS),
    _resource(_DEVICES, "ResourceClaimTemplate", "resourceclaimtemplates"),
    _resource(_DEVICES, "ResourceSlice", "resourceslices", namespaced=False),
    _resource("storage.k8s.io", "CSIDriver", "csidrivers", namespaced=False),
    _resource("storage.k8s.io", "CSINode", "csinodes", namespaced=False),
    _resource("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities"),
    _resource("storage.k8s.io", "VolumeAttachment", "volumeattachments", _STATUS, namespaced=False),
    _resource("storage.k8s.io", "StorageClass", "storageclasses", namespaced=False, short_names=("sc",)),
    _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies", _STATUS),
    _admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    _resource(
        _EXTENSION,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        _STATUS,
        namespaced=False,
        categories=_EXTENSIONS,
        short_names=("crd", "crds"),
        # What kube-apiserver's hash says; ours are stored as v1.
        stored_as=f"{_EXTENSION}/v1beta1",
    ),
    *(_resource(_RBAC, kind, f"{kind.lower()}s", namespaced=False) for kind in ("ClusterRole", "ClusterRoleBinding")),
    *(_resource(_RBAC, kind, f"{kind.lower()}s") for kind in ("Role", "RoleBinding")),
    *(
        _resource(_AUTHENTICATION, kind, f"{kind.lower()}s", namespaced=False, verbs=_CREATE)
        for kind in ("SelfSubjectReview", "TokenReview")
    ),
    _resource(_AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=_CREATE),
    _resource(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False, verbs=_CREATE),
    _resource(_AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False, verbs=_CREATE),
    _resource(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", namespaced=False, verbs=_CREATE),
)
