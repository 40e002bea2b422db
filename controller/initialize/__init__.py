# SPDX-License-Identifier: Apache-2.0
"""`trainwright initialize`: fetches a model or a data set into a folder, whole or not at all.

This package exports the contract of providers. A distribution adds a scheme with a class in the entry-point group
`trainwright.initializers`, named by the scheme.
"""

from trainwright.controller.initialize.contract import Digest, InitializeError, Provider, ProviderRequest, RemoteFile

__all__ = ["Digest", "InitializeError", "Provider", "ProviderRequest", "RemoteFile"]
