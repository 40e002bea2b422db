# SPDX-License-Identifier: Apache-2.0
"""The client of the API server: verbs over a transport, with credentials, retries and errors of our own."""
