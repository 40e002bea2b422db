# SPDX-License-Identifier: Apache-2.0
"""Pod specifications, good and bad, by what they are about."""

from typing import Any

Document = dict[str, Any]


def spec(*containers: Document, **fields: Any) -> Document:
    """A specification; containers get a name and an image if they say none."""
    named = [{"name": f"c{index}", "image": "i:1", **one} for index, one in enumerate(containers or ({},))]
    return {"containers": named, **fields}


def _env(**source: Any) -> Document:
    return spec({"env": [{"name": "A", **source}]})


def _mounted(volume: Document, **mount: Any) -> Document:
    one = {"name": "v", "mountPath": "/v", **mount}
    return spec({"volumeMounts": [one]}, volumes=[{"name": "v", **volume}])


def _probe(**probe: Any) -> Document:
    return spec({"livenessProbe": probe})


def _resources(**resources: Any) -> Document:
    return spec({"resources": resources})


def _toleration(**toleration: Any) -> Document:
    return spec(tolerations=[toleration])


def _node_affinity(*requirements: Document, field: str = "matchExpressions") -> Document:
    terms = {"nodeSelectorTerms": [{field: list(requirements)}]}
    return spec(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def _anti_affinity(**term: Any) -> Document:
    terms = [{"topologyKey": "zone", **term}]
    return spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


_PORTS = [{"containerPort": 80, "name": "web"}, {"containerPort": 81, "protocol": "UDP"}]
_HTTP = {"httpGet": {"port": 80}}
_LIMITS = {"cpu": "1500m", "memory": "1024Mi", "ephemeral-storage": 1024}
_SIDECAR = {"name": "s", "image": "i:1", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": "web"}}}
_INIT = {"name": "i", "image": "i:1"}
_TOKEN = {"serviceAccountToken": {"path": "token"}}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

SPECS: dict[str, Document] = {
    # Good ones.
    "small": spec(),
    "latest": spec({"image": "i"}, {"image": "i:latest"}, {"image": "localhost:5000/i@sha256:" + "0" * 64}),
    "ports": spec({"ports": _PORTS}),
    "host network": spec({"ports": _PORTS}, hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"),
    "probes": spec(
        {"livenessProbe": _HTTP, "readinessProbe": {"exec": {"command": ["a"]}}, "startupProbe": {"grpc": {"port": 1}}}
    ),
    "hooks": spec({"lifecycle": {"postStart": _HTTP, "preStop": {"sleep": {"seconds": 3}}}}),
    "limits": _resources(limits=_LIMITS),
    "requests": _resources(requests={"cpu": 0.1, "memory": "1e3"}, limits={"cpu": 2, "example.com/gpu": 1}),
    "guaranteed": _resources(limits={"cpu": 1, "memory": "1Gi"}),
    "sidecar": spec({"ports": _PORTS}, initContainers=[_INIT, _SIDECAR]),
    "env": spec(
        {
            "env": [
                {"name": "A", "value": "$(B)"},
                {"name": "odd name!", "value": ""},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
                {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                {"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
                {"name": "F", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b", "optional": True}}},
            ],
            "envFrom": [{"prefix": "P_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}],
        }
    ),
    "volumes": spec(
        volumes=[
            {"name": "nothing"},
            {"name": "empty", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}},
            {"name": "secret", "secret": {"secretName": "s", "items": [{"key": "a", "path": "b", "mode": 256}]}},
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "host", "hostPath": {"path": "/tmp"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "down", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "many", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}},
            {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}},
            {"name": "image", "image": {"reference": "i"}},
            {"name": "nfs", "nfs": {"server": "s", "path": "/p"}},
        ]
    ),
    "token": spec(serviceAccountName="a", volumes=[{"name": "t", "projected": {"sources": [_TOKEN]}}]),
    "old account": spec(serviceAccount="a"),
    "tolerations": _toleration(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=5),
    "tolerates all": _toleration(operator="Exists"),
    "grace": spec(terminationGracePeriodSeconds=-5),
    "gates": spec(schedulingGates=[{"name": "example.com/a"}]),
    "affinity": _node_affinity({"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}),
    "label keys": _anti_affinity(labelSelector={"matchLabels": {"x": "y"}}, matchLabelKeys=["a"]),
    "spread": spec(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"x": "y"}},
                "matchLabelKeys": ["a"],
            }
        ]
    ),
    "aliases": spec(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a.b"]}], hostname="h", subdomain="s"),
    "security": spec({"securityContext": {"runAsUser": 0, "privileged": True}}, securityContext={"fsGroup": 5}),
    "restart rules": spec(
        {
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}],
        }
    ),
    # Good ones with warnings.
    "warn env": spec(
        {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}]}
    ),
    "warn volume": spec(volumes=[{"name": "a", "gitRepo": {"repository": "r"}}]),
    # Bad ones.
    "no containers": {"containers": []},
    "no name": {"containers": [{"image": "i"}]},
    "no image": {"containers": [{"name": "c"}]},
    "padded image": spec({"image": " i "}),
    "bad container name": spec({"name": "A_b"}, {"name": "a.b"}, {"name": "x" * 64}),
    "same names": spec({"name": "a"}, {"name": "a"}),
    "same init name": spec({"name": "a"}, initContainers=[{**_INIT, "name": "a"}]),
    "bad pull policy": spec({"imagePullPolicy": "Sometimes", "terminationMessagePolicy": "No"}),
    "bad restart policy": spec(restartPolicy="Sometimes", dnsPolicy="No"),
    "bad ports": spec(
        {
            "ports": [
                {"containerPort": 0},
                {"containerPort": 70000, "name": "Bad--"},
                {"containerPort": 1, "protocol": "X"},
            ]
        }
    ),
    "same ports": spec(
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a", "hostPort": 5}]},
        {"ports": [{"containerPort": 3, "hostPort": 5}]},
    ),
    "host network ports": spec({"ports": [{"containerPort": 1, "hostPort": 2}]}, hostNetwork=True),
    "env without name": spec({"env": [{"value": "a"}, {"name": "a=b"}]}),
    "env from nothing": _env(valueFrom={}),
    "env from two": _env(
        valueFrom={"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}}
    ),
    "env with value too": _env(value="a", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
    "env unknown field": _env(valueFrom={"fieldRef": {"fieldPath": "metadata.nope"}}),
    "env labels": _env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels"}}),
    "env subscript": _env(valueFrom={"fieldRef": {"fieldPath": "metadata.name['a']"}}),
    "env bad subscript": _env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a b']"}}),
    "env phase": _env(valueFrom={"fieldRef": {"fieldPath": "status.phase"}}),
    "env no path": _env(valueFrom={"fieldRef": {"fieldPath": ""}}),
    "env resource": _env(valueFrom={"resourceFieldRef": {"resource": "limits.disk"}}),
    "env no key": _env(valueFrom={"configMapKeyRef": {"name": "a"}}),
    "env bad key": _env(valueFrom={"secretKeyRef": {"name": "A_", "key": "a b"}}),
    "envFrom nothing": spec({"envFrom": [{}, {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]}),
    "envFrom bad name": spec({"envFrom": [{"configMapRef": {"name": "A"}}, {"secretRef": {}}]}),
    "mount unknown": spec({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
    "mount twice": spec(
        {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}, volumes=[{"name": "v"}]
    ),
    "mount nothing": spec({"volumeMounts": [{}]}, volumes=[{"name": "v"}]),
    "mount subpath": _mounted({}, subPath="../a", subPathExpr="/b"),
    "mount propagation": _mounted({}, mountPropagation="Bidirectional"),
    "volume names": spec(volumes=[{"name": "A"}, {"name": "a"}, {"name": "a"}, {}]),
    "volume of two kinds": spec(volumes=[{"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}}]),
    "volume modes": spec(
        volumes=[{"name": "a", "secret": {"defaultMode": 512, "items": [{"mode": 1000, "path": "../x"}]}}]
    ),
    "volume host path": spec(
        volumes=[{"name": "a", "hostPath": {"path": "/a/../b", "type": "X"}}, {"name": "b", "hostPath": {"path": ""}}]
    ),
    "volume empty names": spec(
        volumes=[{"name": "a", "configMap": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": ""}}]
    ),
    "volume paths": spec(
        volumes=[
            {
                "name": "a",
                "configMap": {"name": "c", "items": [{"key": "k", "path": "/x"}, {"key": "k", "path": "..x"}]},
            }
        ]
    ),
    "volume downward": spec(
        volumes=[
            {
                "name": "a",
                "downwardAPI": {"items": [{"path": "a"}, {"path": "b", "fieldRef": {"fieldPath": "status.podIP"}}]},
            }
        ]
    ),
    "volume token": spec(
        serviceAccountName="a",
        volumes=[
            {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 5}}]}}
        ],
    ),
    "volume nfs": spec(volumes=[{"name": "a", "nfs": {"server": "", "path": "p"}}]),
    "probe without handler": _probe(),
    "probe of two": _probe(exec={"command": []}, httpGet={"port": 0}),
    "probe numbers": _probe(tcpSocket={"port": "A B"}, initialDelaySeconds=-1, timeoutSeconds=-2, successThreshold=2),
    "probe grace": spec({"readinessProbe": {**_HTTP, "terminationGracePeriodSeconds": 0, "successThreshold": 3}}),
    "probe http": _probe(httpGet={"port": 80, "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": "c"}]}),
    "hook sleep": spec({"lifecycle": {"preStop": {"sleep": {"seconds": 50}}}}),
    "init with probe": spec(initContainers=[{**_INIT, "livenessProbe": _HTTP, "lifecycle": {"preStop": _HTTP}}]),
    "request over limit": _resources(requests={"cpu": 2}, limits={"cpu": 1}),
    "negative request": _resources(requests={"cpu": -1}),
    "unknown resource": _resources(requests={"disk": 1}),
    "odd resource": _resources(requests={"a b": 1}),
    "resource of another kind": _resources(requests={"storage": 1}),
    "gpu request alone": _resources(requests={"example.com/gpu": 1}),
    "gpu request differs": _resources(requests={"example.com/gpu": 1}, limits={"example.com/gpu": 2}),
    "part of a gpu": _resources(limits={"example.com/gpu": 1.5}),
    "node selector": spec(nodeSelector={"a b": "c d"}),
    "node affinity": _node_affinity({"key": "a b", "operator": "In"}),
    "node affinity values": _node_affinity({"key": "a", "operator": "Exists", "values": ["b"]}),
    "node affinity operator": _node_affinity(
        {"key": "a", "operator": "Gt", "values": []}, {"key": "b", "operator": "X"}
    ),
    "node affinity fields": _node_affinity({"key": "a", "operator": "In", "values": ["A", "b"]}, field="matchFields"),
    "node affinity empty": spec(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    ),
    "node preference": spec(
        affinity={
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]}
        }
    ),
    "pod affinity": _anti_affinity(
        topologyKey="", namespaces=["A"], labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}
    ),
    "pod affinity keys": _anti_affinity(matchLabelKeys=["a"]),
    "pod affinity weight": spec(
        affinity={
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 101, "podAffinityTerm": {"topologyKey": "a"}}
                ]
            }
        }
    ),
    "toleration key": _toleration(key="a b", value="c d"),
    "toleration without key": _toleration(operator="Equal", value="x"),
    "toleration value": _toleration(key="a", operator="Exists", value="x"),
    "toleration operator": _toleration(key="a", operator="X", effect="Y"),
    "toleration seconds": _toleration(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=5),
    "toleration number": _toleration(key="a", operator="Gt", value="5"),
    "deadline": spec(activeDeadlineSeconds=0),
    "host name": spec(hostname="A", subdomain="b.c"),
    "account name": spec(serviceAccountName="A"),
    "node name": spec(nodeName="A"),
    "aliases wrong": spec(hostAliases=[{"ip": "x", "hostnames": ["A"]}]),
    "dns": spec(dnsPolicy="None"),
    "dns servers": spec(dnsConfig={"nameservers": ["1.1.1.1", "2", "3.3.3.3", "4.4.4.4"], "options": [{}]}),
    "gates twice": spec(schedulingGates=[{"name": "a b"}, {"name": "c"}, {"name": "c"}]),
    "gated on a node": spec(schedulingGates=[{"name": "c"}], nodeName="n"),
    "readiness gates": spec(readinessGates=[{"conditionType": "a b"}]),
    "spread wrong": spec(
        topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X", "minDomains": 0}]
    ),
    "security ids": spec(
        {"securityContext": {"runAsUser": -1}}, securityContext={"fsGroup": -1, "supplementalGroups": [-2]}
    ),
    "security contradiction": spec({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
    "security profiles": spec(
        securityContext={
            "seccompProfile": {"type": "X"},
            "fsGroupChangePolicy": "X",
        }
    ),
    "shared processes": spec(shareProcessNamespace=True, hostPID=True),
    "preemption": spec(preemptionPolicy="X"),
    "priority": spec(priority=5),
    "priority class": spec(priorityClassName="nope"),
    "runtime class": spec(runtimeClassName="nope"),
    "ephemeral containers": spec(ephemeralContainers=[{"name": "e", "image": "i"}]),
    "operating system": spec(os={"name": "plan9"}),
    "bad finalizer": spec(),
    "volume sources": spec(
        volumes=[
            {"name": "a", "configMap": {"name": "c", "defaultMode": 512}},
            {"name": "b", "nfs": {"server": "s", "path": ""}},
            {"name": "c", "downwardAPI": {"defaultMode": 512}},
            {"name": "d", "projected": {"defaultMode": 512, "sources": [{"secret": {"items": [{"path": "../x"}]}}]}},
            {
                "name": "e",
                "projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"items": [{"key": "k"}]}}]},
            },
            {"name": "f", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "/p"}]}}]}},
            {"name": "g", "ephemeral": {}},
            {"name": "h", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "i", "image": {"pullPolicy": "X"}},
        ]
    ),
    "names of classes": spec(priorityClassName="A_b", runtimeClassName="A_b", os={}),
    "no name servers": spec(dnsPolicy="None", dnsConfig={}),
    "init container": spec(
        initContainers=[
            {
                **_INIT,
                "image": " i",
                "ports": [{"containerPort": 0}],
                "volumeMounts": [{"name": "x", "mountPath": "/x"}],
            }
        ]
    ),
    "handlers": spec(
        {
            "lifecycle": {"postStart": {}, "preStop": {"httpGet": {"port": 0}}},
            "startupProbe": {"grpc": {"port": 0}, "successThreshold": 2},
            "readinessProbe": {
                "exec": {"command": ["a"]},
                "terminationGracePeriodSeconds": 5,
                "periodSeconds": -1,
                "failureThreshold": -1,
                "successThreshold": -1,
            },
        }
    ),
    "details of a container": spec(
        {
            "restartPolicy": "X",
            "ports": [{"containerPort": 1, "hostPort": 70000}],
            "envFrom": [{"prefix": "a=b", "secretRef": {"name": "s"}}],
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "A_b", "key": "k"}}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "X"}],
        },
        volumes=[{"name": "v", "emptyDir": {}}],
    ),
    "values of a node": _node_affinity({"key": "a", "operator": "In", "values": ["b c"]}),
    "preferred nodes": spec(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "X"}]}},
                    {"weight": 1, "preference": {"matchFields": [{"key": "a", "operator": "X"}]}},
                ]
            }
        }
    ),
}
del SPECS["bad finalizer"]


def documents(namespace: str) -> list[tuple[str, Document]]:
    """Pods of all specifications."""
    metadata = {"name": "p", "labels": {"a": "1"}}
    return [
        (name, {"apiVersion": "v1", "kind": "Pod", "metadata": dict(metadata), "spec": one})
        for name, one in SPECS.items()
    ]
