# SPDX-License-Identifier: Apache-2.0
"""The node of the local cluster: pods are processes on this machine.

    node = Node(manager.client, NodeSettings(name="laptop", folder=state), server=config.server)
    node.declare(manager)

It runs on the controller runtime and reaches the API server through the client alone, so it also works on a real API
server. Pods stay documents: fields that the models lack reach the process. An API server gets logs and exec from
`LocalNode` through the protocols of `interface`; a scheduler may ask `LocalNode.admit`.

How a pod becomes processes, in order: `pod.worker` (the pod), `volumes`, `pod.runs` (a container), `plan` (what it
runs), `pod.hosting` and `process.containers` (the process), `process.guard` and `process.launcher` (programs of their
own), `pod.status` (what is reported).
"""
