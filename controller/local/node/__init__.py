# SPDX-License-Identifier: Apache-2.0
"""The node of the local cluster: pods are processes on this machine. Begin with `LocalNode` in `node`.

    node = LocalNode(manager.client, NodeSettings(name="laptop", folder=state), server=config.server)
    node.declare(manager)

It runs on the controller runtime and reaches the API server through the client alone, so it also works on a real API
server; that gets logs and exec through the protocols of `podaccess`. How a pod becomes processes, in order: `pod`,
`volumes`, `container` (its runs), `plan` (what it runs), `hosting` (where), `process.supervision` with the programs
`guard`, `spawner` and `launcher`, and `status` (what is reported).
"""
