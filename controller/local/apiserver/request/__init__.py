# SPDX-License-Identifier: Apache-2.0
"""What a request says: its path, query and headers (`info`), its body (`bodies`), which objects it lists (`lists`).

Every verb is given a `RequestInfo`; begin there. It knows the resource that the path names and nothing of HTTP.
"""
