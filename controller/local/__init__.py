# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster in one process: an API server, its controllers and a node.

It knows no TrainJob, so that any operator can be tested on it.
"""
