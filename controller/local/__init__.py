# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster in one process: the API server `apiserver`, its controllers `controllers` and the node `node`.

Begin with `cluster`, which puts them together; `testing` has clusters and fixtures for tests. It knows no TrainJob, so
that any operator can be tested on it.
"""
