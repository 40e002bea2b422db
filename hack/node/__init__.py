# SPDX-License-Identifier: Apache-2.0
"""A real node on this machine: kubelet, containerd and runc in namespaces of their own, without a container engine.

`make run CLUSTER=node` and `make test CLUSTER=node` start one. Everything comes from Go modules and Debian packages and
lies in the cache: a root folder with containerd and podman (`debian.py`), images (`images.py`), and the programs of the
control plane with kubelet, kube-proxy and CoreDNS beside them. A node is a set of namespaces (`spaces.py`) with a
cluster in it (`cluster.py`). It needs root on Linux. It changes no interface, rule or setting of the machine.
"""
