# SPDX-License-Identifier: Apache-2.0
"""The local cluster for tests: no Go, no etcd. Begin with `pytest_plugin`, which has the fixtures.

`cluster.LocalCluster` is a cluster of each test's own, in a thread of the process. `control_plane.LocalControlPlane` is
the local API server behind the interface of the test kit's real control plane, for the fixture `control_plane`.
"""
