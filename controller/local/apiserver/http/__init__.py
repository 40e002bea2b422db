# SPDX-License-Identifier: Apache-2.0
"""The way of a request in and of its answer out: user, order of requests, pages without objects, log, transports."""
