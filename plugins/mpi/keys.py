# SPDX-License-Identifier: Apache-2.0
"""The SSH key pair by which the launcher reaches the nodes.

It is generated when the Secret is created. The document of the pipeline has placeholders, so that the same inputs give
the same bytes, and that no key is printed.
"""

import base64

from trainwright.api.objects import Document

PRIVATE = "ssh-privatekey"
PUBLIC = "ssh-publickey"


def with_new_keys(document: Document) -> Document:
    """The document with a fresh ECDSA P-521 pair: private key in PEM (SEC1), public key as an authorized_keys line."""
    # Imported here: most processes never create keys.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH) + b"\n"
    return {**document, "data": {PRIVATE: _encoded(private), PUBLIC: _encoded(public)}}


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
