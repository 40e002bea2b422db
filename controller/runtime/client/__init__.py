# SPDX-License-Identifier: Apache-2.0
"""Client of the API server: verbs, transport, credentials, retries and errors."""
