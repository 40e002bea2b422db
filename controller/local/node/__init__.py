# SPDX-License-Identifier: Apache-2.0
"""The node of the local cluster: pods are processes on this machine.

It runs on the controller runtime and reaches the API server through the client alone, so it also works on a real API
server. Pods stay documents: fields that the models lack reach the process.

`Node` is the entry (`node`), with `NodeSettings`. `interface` has what an API server asks of a node: logs and exec.
"""
