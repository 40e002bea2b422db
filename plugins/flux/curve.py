# SPDX-License-Identifier: Apache-2.0
"""The CURVE certificate by which the brokers of a Flux instance trust each other (ZeroMQ RFC 26; Z85 is RFC 32).

It is generated from random bytes when the Secret is created. A key that is derived from public data, such as the uid of
the TrainJob, would let everyone who can read the TrainJob join the instance.
"""

import base64

from trainwright.api.objects import Document

KEY = "curve.cert"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def with_new_certificate(document: Document) -> Document:
    """The document of the Secret with a new certificate, named after the TrainJob that owns it."""
    # Imported here: most processes never create keys.
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415

    key = X25519PrivateKey.generate()
    owner = document["metadata"]["ownerReferences"][0]["name"]
    text = certificate(owner, key.public_key().public_bytes_raw(), key.private_bytes_raw())
    return {**document, "data": {KEY: base64.b64encode(text.encode()).decode("ascii")}}


def certificate(name: str, public: bytes, secret: bytes) -> str:
    """The text of a certificate file; keys are 32 bytes each."""
    lines = (
        "#   ZeroMQ CURVE certificate of one TrainJob.",
        "#   It holds a private key: keep it to the pods of the job.",
        "",
        "metadata",
        f'    name = "{name}"',
        "curve",
        f'    public-key = "{z85(public)}"',
        f'    secret-key = "{z85(secret)}"',
    )
    return "".join(f"{line}\n" for line in lines)


def z85(data: bytes) -> str:
    """Text of binary data, five characters for four bytes. Raises ValueError for other lengths."""
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes have no Z85 form; their number must be a multiple of 4")
    return "".join(_word(int.from_bytes(data[start : start + 4], "big")) for start in range(0, len(data), 4))


def _word(number: int) -> str:
    return "".join(_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
