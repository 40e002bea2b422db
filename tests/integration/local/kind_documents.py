# SPDX-License-Identifier: Apache-2.0
"""Objects of the smaller kinds, good and bad, by what they are about."""

import json
from typing import Any

Document = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"


def _named(version: str, kind: str, name: str = "a", **fields: Any) -> Document:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _secret(kind: str, **texts: str) -> Document:
    return _named("v1", "Secret", type=kind, stringData=texts)


def _service(**spec: Any) -> Document:
    return _named("v1", "Service", spec=spec)


def _webhook(**fields: Any) -> Document:
    webhook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/a"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }
    return _named(_ADMISSION, "MutatingWebhookConfiguration", webhooks=[{**webhook, **fields}])


def _rule(**fields: Any) -> Document:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    return _webhook(rules=[{**rule, **fields}])


def _claim(**spec: Any) -> Document:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    return _named("v1", "PersistentVolumeClaim", spec={**claim, **spec})


def _volume(**spec: Any) -> Document:
    fields = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}
    return _named("v1", "PersistentVolume", spec={**fields, **spec})


def _event(**fields: Any) -> Document:
    return _named("v1", "Event", **fields)


def _new_event(**fields: Any) -> Document:
    good = {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/a",
        "reportingInstance": "b",
        "action": "Do",
        "reason": "Done",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    return _named("events.k8s.io/v1", "Event", **{**good, **fields})


def _binding(**fields: Any) -> Document:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    return _named(_RBAC, "RoleBinding", **{"roleRef": role, **fields})


def _limits(**item: Any) -> Document:
    return _named("v1", "LimitRange", spec={"limits": [{"type": "Container", **item}]})


_PORTS = [{"port": 80}]


def _pod(**spec: Any) -> Document:
    return _named("v1", "Pod", spec={"containers": [{"name": "c", "image": "i"}], **spec})


def _container(**fields: Any) -> Document:
    return _pod(containers=[{"name": "c", "image": "i", **fields}])


_DECODED: dict[str, Document] = {
    "zero values": _container(tty=False, workingDir="", command=[], env=[], resources={"limits": {}, "requests": None}),
    "zero values of pods": _pod(hostNetwork=False, nodeSelector={}, tolerations=[], volumes=None, nodeName=""),
    "pointers": _pod(securityContext={}, affinity={}, priorityClassName="", automountServiceAccountToken=False),
    "nulls": _container(args=["a", None], ports=[{"containerPort": 1, "name": None}], livenessProbe=None),
    "unknown": _container(bogus=1, env=[{"name": "a", "nope": {"x": 1}}]),
    "empty metadata": _named(
        "v1", "ConfigMap", metadata={"labels": {}, "annotations": None, "creationTimestamp": None}
    ),
    "numbers": _pod(activeDeadlineSeconds=5, terminationGracePeriodSeconds=0),
    "times": _named("coordination.k8s.io/v1", "Lease", spec={"renewTime": "2026-01-01T01:00:00.500000+01:00"}),
    "bad fraction of a second": _named("coordination.k8s.io/v1", "Lease", spec={"renewTime": "2026-01-01T01:00:00.5Z"}),
    "bad image": _container(image=5),
    "bad containers": _pod(containers={"a": 1}),
    "bad quantity": _container(resources={"limits": {"cpu": "x"}}),
    "bad quantity kind": _container(resources={"limits": {"cpu": []}}),
    "bad text": _pod(terminationGracePeriodSeconds="x"),
    "bad large number": _pod(priority=3_000_000_000),
    "bad fraction": _pod(priority=1.5),
    "bad label": _named("v1", "ConfigMap", metadata={"labels": {"a": 1}}),
    "bad labels": _named("v1", "ConfigMap", metadata={"labels": [1]}),
    "bad time": _named("coordination.k8s.io/v1", "Lease", spec={"renewTime": "x"}),
    "bad time kind": _named("coordination.k8s.io/v1", "Lease", spec={"renewTime": 5}),
    "bad truth": _pod(hostNetwork="yes"),
    "bad port": _container(livenessProbe={"httpGet": {"port": True}}),
    "bad spec": _named("v1", "Pod", spec=[1]),
    "bad list": _container(command="sh"),
    "bad name of a kind": _pod(dnsPolicy={}),
    "bad pointer": _container(securityContext=[]),
    "bad volume": _pod(volumes=[{"name": "v", "emptyDir": "x"}]),
    "bad data": _named("v1", "Secret", data={"a": "not base64!"}),
    "bad data kind": _named("v1", "Secret", data={"a": 5}),
    "bad job": _named("batch/v1", "Job", spec={"template": {"spec": {"containers": [{"name": 1}]}}}),
}

DOCUMENTS: dict[str, Document] = {
    **_DECODED,
    # ConfigMap, Secret, ServiceAccount, Namespace
    "config map": _named("v1", "ConfigMap", data={"a": "b"}, binaryData={"c": "AA=="}, immutable=True),
    "config map keys": _named("v1", "ConfigMap", data={"a b": "c"}),
    "config map dots": _named("v1", "ConfigMap", data={"..": "c"}),
    "config map both": _named("v1", "ConfigMap", data={"a": "b"}, binaryData={"a": "AA=="}),
    "config map finalizer": _named("v1", "ConfigMap", metadata={"finalizers": ["nothing"]}),
    "secret": _named("v1", "Secret", data={"a": "AA=="}, stringData={"b": "x"}),
    "secret keys": _named("v1", "Secret", stringData={"a b": "x"}),
    "secret of an account": _secret("kubernetes.io/service-account-token"),
    "secret docker": _secret("kubernetes.io/dockerconfigjson", a="b"),
    "secret docker text": _secret("kubernetes.io/dockerconfigjson", **{".dockerconfigjson": "xyz"}),
    "secret docker list": _secret("kubernetes.io/dockercfg", **{".dockercfg": "[]"}),
    "secret docker good": _secret("kubernetes.io/dockerconfigjson", **{".dockerconfigjson": "{}"}),
    "secret basic": _secret("kubernetes.io/basic-auth"),
    "secret ssh": _secret("kubernetes.io/ssh-auth"),
    "secret tls": _secret("kubernetes.io/tls"),
    "secret own type": _secret("example.com/own", a="b"),
    "account": _named("v1", "ServiceAccount", secrets=[{"name": "s", "kind": "Secret"}]),
    "namespace": _named("v1", "Namespace", "new"),
    "namespace finalizers": _named("v1", "Namespace", "new", spec={"finalizers": ["nothing"]}),
    "namespace name": _named("v1", "Namespace", "a.b"),
    # Service
    "service headless": _service(clusterIP="None", selector={"a": "b"}),
    "service headless alone": _service(clusterIP="None"),
    "service external": _service(type="ExternalName", externalName="example.com."),
    "service given": _service(ports=_PORTS, clusterIP="10.0.0.77", selector={"a": "b"}),
    "service affinity": _service(ports=_PORTS, clusterIP="10.0.0.77", sessionAffinity="ClientIP"),
    "service digits": _named("v1", "Service", "1a", spec={"clusterIP": "None", "selector": {"a": "b"}}),
    "service name": _named("v1", "Service", "a.b", spec={"clusterIP": "None"}),
    "service without ports": _service(clusterIP="10.0.0.77"),
    "service ports": _service(
        clusterIP="None", ports=[{"port": 0, "protocol": "X"}, {"port": 1, "targetPort": "A B", "name": "A"}]
    ),
    "service same ports": _service(
        clusterIP="None", ports=[{"port": 1, "name": "a"}, {"port": 1, "name": "b"}, {"port": 2, "name": "b"}]
    ),
    "service headless nodes": _service(type="NodePort", clusterIP="None", ports=_PORTS),
    "service external wrong": _service(type="ExternalName", clusterIP="None"),
    "service type": _service(type="X", clusterIP="None", selector={"a b": "c"}),
    "service policies": _service(
        clusterIP="None", sessionAffinity="X", externalTrafficPolicy="Local", internalTrafficPolicy="X"
    ),
    "service balancer fields": _service(
        clusterIP="None",
        loadBalancerSourceRanges=["10.0.0.0/8"],
        allocateLoadBalancerNodePorts=True,
        loadBalancerClass="a/b",
    ),
    "service node port": _service(clusterIP="None", ports=[{"port": 80, "nodePort": 30001}]),
    "service distribution": _service(clusterIP="None", trafficDistribution="X"),
    # Events
    "event": _event(
        involvedObject={"kind": "Pod", "namespace": "default"}, message="m", count=2, source={"component": "c"}
    ),
    "event elsewhere": _event(involvedObject={"namespace": "other"}),
    "event nowhere": _event(),
    "event new": _event(eventTime="2026-01-01T00:00:00.000000Z", involvedObject={"namespace": "default"}),
    "new event": _new_event(note="n"),
    "new event series": _new_event(series={"count": 1, "lastObservedTime": None}),
    "new event type": _new_event(type="X", reason="", action="x" * 129, note="x" * 1025),
    "new event no type": _new_event(type=None),
    "new event time": _new_event(eventTime=None, deprecatedCount=3, deprecatedSource={"component": "c"}),
    # Nodes, leases, classes
    "node": _named(
        "v1", "Node", status={"capacity": {"cpu": "1000m", "memory": "1024Mi"}}, spec={"podCIDR": "10.0.0.0/24"}
    ),
    "node empty": _named("v1", "Node"),
    "node taints": _named("v1", "Node", spec={"taints": [{"key": "a b", "effect": "X"}, {"key": "a", "effect": ""}]}),
    "node capacity": _named("v1", "Node", status={"capacity": {"cpu": -1}, "allocatable": {"pods": "0.5"}}),
    "node ranges": _named("v1", "Node", spec={"podCIDRs": ["x"]}),
    "lease": _named(
        "coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "a", "strategy": "OldestEmulationVersion"}
    ),
    "lease empty": _named("coordination.k8s.io/v1", "Lease"),
    "lease numbers": _named(
        "coordination.k8s.io/v1", "Lease", spec={"leaseDurationSeconds": 0, "leaseTransitions": -1}
    ),
    "lease finalizer": _named("coordination.k8s.io/v1", "Lease", metadata={"finalizers": ["nothing"]}),
    "priority": _named("scheduling.k8s.io/v1", "PriorityClass", value=5),
    "priority zero": _named("scheduling.k8s.io/v1", "PriorityClass"),
    "priority high": _named("scheduling.k8s.io/v1", "PriorityClass", value=1_000_000_001, preemptionPolicy="X"),
    "priority system": _named("scheduling.k8s.io/v1", "PriorityClass", "system-a", value=5),
    "priority known": _named("scheduling.k8s.io/v1", "PriorityClass", "system-node-critical", value=5),
    "runtime": _named("node.k8s.io/v1", "RuntimeClass", handler="h", overhead={"podFixed": {"cpu": "1000m"}}),
    "runtime empty": _named("node.k8s.io/v1", "RuntimeClass"),
    "runtime wrong": _named(
        "node.k8s.io/v1",
        "RuntimeClass",
        handler="A.",
        overhead={"podFixed": {"x": 1}},
        scheduling={"nodeSelector": {"a b": "c"}, "tolerations": [{"operator": "X"}]},
    ),
    "limits": _limits(max={"cpu": "2000m"}, min={"memory": "1Mi"}),
    "limits empty": _named("v1", "LimitRange"),
    "limits order": _limits(max={"cpu": 1}, min={"cpu": 2}),
    "limits type": _named(
        "v1", "LimitRange", spec={"limits": [{"type": "X"}, {"type": "Pod", "default": {"cpu": 1}}, {"type": "Pod"}]}
    ),
    "limits own type": _named("v1", "LimitRange", spec={"limits": [{"type": "example.com/own", "max": {"cpu": 1}}]}),
    "storage class": _named("storage.k8s.io/v1", "StorageClass", provisioner="example.com/p"),
    "storage class empty": _named("storage.k8s.io/v1", "StorageClass"),
    "storage class wrong": _named(
        "storage.k8s.io/v1", "StorageClass", provisioner="a b", reclaimPolicy="X", volumeBindingMode="Y"
    ),
    # Volumes
    "claim": _claim(),
    "claim empty": _named("v1", "PersistentVolumeClaim", spec={"storageClassName": ""}),
    "claim size": _claim(resources={"requests": {"storage": 0}}, storageClassName="A"),
    "volume": _volume(),
    "volume empty": _named("v1", "PersistentVolume"),
    "volume wrong": _volume(
        capacity={"storage": 0}, persistentVolumeReclaimPolicy="X", nfs={"server": "s", "path": "/p"}
    ),
    # Webhooks
    "webhook": _webhook(),
    "webhook name": _webhook(name="a.b"),
    "webhook bad name": _webhook(name="A.b.c"),
    "webhook no name": _webhook(name=""),
    "webhook policies": _webhook(failurePolicy="X", matchPolicy="Y", reinvocationPolicy="Z", timeoutSeconds=31),
    "webhook effects": _webhook(sideEffects="Some"),
    "webhook no effects": _webhook(sideEffects=None),
    "webhook versions": _webhook(admissionReviewVersions=["v2", "v2", "A"]),
    "webhook no versions": _webhook(admissionReviewVersions=[]),
    "webhook no client": _webhook(clientConfig={}),
    "webhook url": _webhook(clientConfig={"url": "http://u:p@/x?a=b#c"}),
    "webhook selectors": _webhook(namespaceSelector={"matchExpressions": [{"key": "a b", "operator": "X"}]}),
    "webhook conditions": _webhook(
        matchConditions=[{"name": "a b", "expression": ""}, {"name": "", "expression": "true"}]
    ),
    "webhook rule empty": _webhook(rules=[{}]),
    "webhook rule": _rule(),
    "webhook rule stars": _rule(operations=["*", "X"], apiGroups=["*", "a"], apiVersions=["*", ""], scope="X"),
    "webhook rule resources": _rule(resources=["*", "pods"]),
    "webhook rule doubled": _rule(resources=["*/*", "pods/status", ""]),
    "webhook rule covered": _rule(resources=["pods/*", "pods/status", "*/log", "jobs/log"]),
    "validating": {**_webhook(), "kind": "ValidatingWebhookConfiguration"},
    # RBAC
    "role": _named(_RBAC, "Role", rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
    "role empty": _named(_RBAC, "Role"),
    "role name": _named(_RBAC, "Role", "a/b"),
    "role rules": _named(_RBAC, "Role", rules=[{}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]),
    "cluster role": _named(_RBAC, "ClusterRole", rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"]}]),
    "cluster role both": _named(
        _RBAC, "ClusterRole", rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]}]
    ),
    "cluster role sum": _named(_RBAC, "ClusterRole", aggregationRule={"clusterRoleSelectors": []}),
    "binding": _binding(subjects=[{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]),
    "binding subjects": _binding(
        subjects=[{"kind": "X", "name": ""}, {"kind": "ServiceAccount", "name": "A", "apiGroup": "b"}]
    ),
    "binding reference": _binding(roleRef={"kind": "X", "name": "", "apiGroup": "y"}),
    "cluster binding": {**_binding(subjects=[{"kind": "ServiceAccount", "name": "s"}]), "kind": "ClusterRoleBinding"},
}


def documents(namespace: str) -> list[tuple[str, Document]]:
    """All of them."""
    # Events must be in the namespace of what they are about.
    text = json.dumps(DOCUMENTS).replace('"namespace": "default"', f'"namespace": "{namespace}"')
    return list(json.loads(text).items())
