# SPDX-License-Identifier: Apache-2.0
"""Writes kubeconfigs for users of a test control plane."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path


def write_kubeconfig(path: Path, *, server: str, authority: bytes, user: str, credential: Mapping[str, str]) -> Path:
    """Write a kubeconfig with one cluster, user and context. Only its owner can read it.

    Args:
        path: the file.
        server: URL of the API server.
        authority: PEM of the certificate authority that signed the server's certificate.
        user: the user's name, for display.
        credential: the user entry, such as `token` or `client-certificate` and `client-key`.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test-control-plane",
                "cluster": {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": user, "user": dict(credential)}],
        "contexts": [{"name": "test-control-plane", "context": {"cluster": "test-control-plane", "user": user}}],
        "current-context": "test-control-plane",
    }
    path.touch(mode=0o600)
    # JSON is valid YAML.
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path
