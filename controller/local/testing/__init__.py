# SPDX-License-Identifier: Apache-2.0
"""The local API server as a control plane for tests: no Go, no etcd, the interface of the test kit's real one.

`control_plane.LocalControlPlane` is the class, `pytest_plugin` puts it behind the fixture `control_plane`.
"""
