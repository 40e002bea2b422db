# SPDX-License-Identifier: Apache-2.0
"""The way of a request in and of its answer out: user, order of requests, pages without objects, log, transports.

`serving` (HTTPS) and `transport` (in the process) bring requests to `server`, which finds out who asks, whether they
may, and which endpoint answers. Begin with `APIServer.handle`.
"""
