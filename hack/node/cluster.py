# SPDX-License-Identifier: Apache-2.0
"""A cluster with one real node: the test kit's control plane and interface, with kubelet, kube-proxy and DNS.

The control plane runs in the node's network, where it reaches pods and Services. The API server has the same address
inside and outside: https://127.0.0.1:PORT, which is forwarded.
"""

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hack.node import debian, images
from hack.node.spaces import KEEPER, ROOT, Spaces, cache, must_be_possible, output_of
from trainwright.controller.runtime.testing import programs
from trainwright.controller.runtime.testing.build import Binaries
from trainwright.controller.runtime.testing.component import Components, answers, has_condition
from trainwright.controller.runtime.testing.control_plane import ControlPlane, _Running
from trainwright.controller.runtime.testing.users import write_kubeconfig

PROGRAMS = ("kubelet", "kube-proxy", "coredns")
NODE = "node-1"
ADDRESS = "10.200.0.1"
PODS = "10.244.0.0/24"
_FORWARD = "forward"
_INSIDE = ("containerd", *PROGRAMS)


class _NodeComponents(Components):
    """Runs programs in the node's network, those of the node in all of its namespaces, and asks there if they serve."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.spaces: Spaces | None = None
        self.flags: dict[str, Sequence[str]] = {}
        """By program, flags that replace those of the same name."""

    def launch(
        self, name: str, command: Sequence[str], ready: Callable[[], bool], *, ports: Sequence[int] = ()
    ) -> None:
        if self.spaces is None or name in (KEEPER, _FORWARD):
            super().launch(name, command, ready, ports=ports)
            return
        inside = ["nsenter", f"--net=/proc/{self.spaces.pid}/ns/net", "--"]
        prefix = self.spaces.command() if name in _INSIDE else inside
        flags = self.flags.get(name, ())
        replaced = {flag.partition("=")[0] for flag in flags}
        kept = [word for word in command if word.partition("=")[0] not in replaced]
        # A program that is started again has its prefix already.
        begun = kept[: len(prefix)] == prefix
        # Ports of the node are not this machine's.
        super().launch(
            name, [*([] if begun else prefix), *kept, *flags], functools.partial(self.spaces.in_network, ready)
        )


class NodeCluster(ControlPlane):
    """A control plane with controllers, scheduler, JobSet, and a node that runs containers; a context manager."""

    def __init__(
        self, *, jobset: bool = True, crds: Sequence[Path] = (), audit: bool = False, port: int | None = None
    ) -> None:
        """Configure it; `start` starts it. See `ControlPlane` for the arguments."""
        super().__init__(controller_manager=True, scheduler=True, jobset=jobset, crds=crds, audit=audit, port=port)
        self._wanted |= dict.fromkeys(PROGRAMS, True)
        self.spaces: Spaces
        """The node's namespaces, from the start on."""

    def provide(self) -> Binaries:
        """Find the programs, the node's root and the images; make what is missing, which takes minutes.

        Raises ControlPlaneError: no node can run here, or something cannot be made.
        """
        must_be_possible()
        # In one build, which compiles what the programs share once.
        found = super().provide()
        debian.node()
        images.store()
        return found

    def load(self, archive: Path) -> None:
        """Take the images of an archive."""
        seen = self.folder / archive.name
        try:
            seen.hardlink_to(archive)
        except OSError:  # in another file system
            shutil.copyfile(archive, seen)
        images.load(self.spaces, seen)
        seen.unlink()

    def deploy(self, image: str = images.MANAGER) -> str:
        """Load the manager's image and run `make deploy IMG=…`, as an admin does; returns what it printed.

        Raises NodeError: the image cannot be built, or the deployment fails.
        """
        self.load(images.ours())
        command = ["make", "--no-print-directory", "deploy", f"IMG={image}", f"KUBECTL={self.kubectl_path}"]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "KUBECONFIG": str(self.folder / "admin.kubeconfig"), "PATH": path}
        return output_of(command, "make deploy", cwd=ROOT, env=environment)

    def _parent_folder(self) -> Path:
        # In the file system of the store, which is linked to.
        folder = cache() / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _components(self, folder: Path) -> Components:
        return _NodeComponents(folder)

    def _start_api(self, folder: Path, binaries: Binaries, components: Components) -> _Running:
        assert isinstance(components, _NodeComponents)
        folder.chmod(0o755)  # pods have users of their own
        (folder / "containerd").mkdir()
        images.copy_of_store(folder / "containerd")
        # kubectl and the interpreter of this project need not be inside.
        binds = sorted({path.parent for path in binaries.paths.values()})
        self.spaces = Spaces(components, folder, debian.node(), own_network=True, binds=binds)
        components.spaces = self.spaces
        return super()._start_api(folder, binaries, components)

    def _launch_api(
        self, files: programs.Files, binaries: Binaries, components: Components, token: str, audit_log: Path | None
    ) -> str:
        assert isinstance(components, _NodeComponents)
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        files.authority.server("kube-apiserver", hosts=("127.0.0.1", ADDRESS, "10.0.0.1", *names))
        certificate, key = files.authority.client("kube-apiserver-kubelet-client", ["system:masters"])
        components.flags = {
            "kube-apiserver": (
                "--bind-address=0.0.0.0",
                f"--advertise-address={ADDRESS}",
                "--endpoint-reconciler-type=lease",
                "--authorization-mode=RBAC,Node",
                "--enable-admission-plugins=OwnerReferencesPermissionEnforcement,NodeRestriction",
                "--disable-admission-plugins=",
                f"--kubelet-certificate-authority={files.authority.certificate}",
                f"--kubelet-client-certificate={certificate}",
                f"--kubelet-client-key={key}",
                "--kubelet-preferred-address-types=InternalIP",
            ),
            "kube-controller-manager": (
                "--controllers=*,-nodeipam,-cloud-node-lifecycle",
                # A silent kubelet is noticed soon, and its pods are evicted soon.
                "--node-monitor-grace-period=20s",
                "--node-monitor-period=2s",
            ),
        }
        url = super()._launch_api(files, binaries, components, token, audit_log)
        port = int(url.rpartition(":")[2])
        program = str(Path(__file__).with_name("forward.py"))
        forward = [sys.executable, "-I", "-S", program, str(port), str(self.spaces.pid)]
        ready = functools.partial(answers, f"{url}/readyz", authority=files.authority.pem, token=token)
        components.launch(_FORWARD, forward, ready, ports=(port,))
        return url

    def _start_rest(self, state: _Running) -> None:
        self._launch_containerd(state)
        node = f"system:node:{NODE}"
        users = {node: ["system:nodes"], "system:kube-proxy": [], "coredns": ["system:masters"]}
        for name, groups in users.items():
            certificate, key = state.files.authority.client(name, groups)
            write_kubeconfig(
                state.files.folder / f"{name}.kubeconfig",
                server=state.url,
                authority=state.files.authority.pem,
                user=name,
                credential={"client-certificate": str(certificate), "client-key": str(key)},
            )
        state.components.wait("containerd")
        self._launch_kubelet(state)
        self._launch_network(state)
        super()._start_rest(state)

    def _launch_containerd(self, state: _Running) -> None:
        folder = state.files.folder
        (folder / "cni").mkdir()
        (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_network()))
        (folder / "containerd.toml").write_text(
            f"""version = 2
root = "{folder}/containerd"
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""
        )
        ready = functools.partial(images.answers, self.spaces)
        state.components.launch("containerd", ["containerd", f"--config={folder}/containerd.toml"], ready)

    def _launch_kubelet(self, state: _Running) -> None:
        files, folder = state.files, state.files.folder
        certificate, key = files.authority.server("kubelet", hosts=(ADDRESS, NODE))
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            # Less than 0 needs CAP_SYS_RESOURCE, which containers and some virtual machines lack.
            "oomScoreAdj": 0,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "address": ADDRESS,
            "authentication": {"x509": {"clientCAFile": str(files.authority.certificate)}},
            "tlsCertFile": str(certificate),
            "tlsPrivateKeyFile": str(key),
            "clusterDNS": [ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": "/etc/resolv.conf",
            "failSwapOn": False,
            "evictionHard": {
                "memory.available": "100Mi",
                **dict.fromkeys(("nodefs.available", "nodefs.inodesFree", "imagefs.available"), "1%"),
            },
            # Nothing can be pulled again.
            "imageGCHighThresholdPercent": 100,
            "maxPods": 60,
            "nodeStatusUpdateFrequency": "4s",
        }
        (folder / "kubelet.json").write_text(json.dumps(configuration))
        state.components.launch(
            "kubelet",
            [
                str(state.binaries["kubelet"]),
                f"--config={folder}/kubelet.json",
                f"--kubeconfig={folder}/system:node:{NODE}.kubeconfig",
                "--root-dir=/var/lib/kubelet",  # a short name of the folder of that name: see first.sh
                "--cert-dir=/var/lib/kubelet/pki",
                f"--hostname-override={NODE}",
                f"--node-ip={ADDRESS}",
            ],
            self._is_ready,
        )

    def _is_ready(self) -> bool:
        node = self.stored.get("node", NODE)
        return node is not None and has_condition(node, "Ready")

    def _launch_network(self, state: _Running) -> None:
        folder = state.files.folder
        configuration = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clusterCIDR": PODS,
            "bindAddress": ADDRESS,
            "oomScoreAdj": 0,
            # Limits of the whole machine stay.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "clientConnection": {"kubeconfig": f"{folder}/system:kube-proxy.kubeconfig"},
        }
        (folder / "kube-proxy.json").write_text(json.dumps(configuration))
        proxy = [str(state.binaries["kube-proxy"]), f"--config={folder}/kube-proxy.json", f"--hostname-override={NODE}"]
        state.components.launch("kube-proxy", proxy, functools.partial(answers, f"http://{ADDRESS}:10256/healthz"))
        (folder / "Corefile").write_text(
            f""".:53 {{
    bind {ADDRESS}
    errors
    ready {ADDRESS}:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {folder}/coredns.kubeconfig
        ttl 5
    }}
    cache 5
}}
"""
        )
        dns = [str(state.binaries["coredns"]), f"-conf={folder}/Corefile"]
        state.components.launch("coredns", dns, functools.partial(answers, f"http://{ADDRESS}:8181/ready"))


def _network() -> dict[str, Any]:
    routes = {"ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
    addresses = {"type": "host-local", "dataDir": "/run/cni-addresses", **routes}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipMasq": False}
    plugins = [bridge | {"ipam": addresses}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}
