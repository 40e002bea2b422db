# SPDX-License-Identifier: Apache-2.0
"""What an installation says about its version, derived from `trainwright.__version__`."""

import re
from typing import Final

from trainwright import __version__
from trainwright.api.objects import Document

KUBEFLOW_TRAINER: Final = "v2.3.0"
"""The version of Kubeflow Trainer whose API is served."""
NAMESPACE: Final = "kubeflow-system"
"""Where the Kubeflow SDK looks for the ConfigMap."""


def public_data() -> dict[str, str]:
    """Data of the ConfigMap `kubeflow-trainer-public`, from which the Kubeflow SDK reads a version."""
    return {"kubeflow_trainer_version": KUBEFLOW_TRAINER, "trainwright_version": __version__}


def public_objects() -> list[Document]:
    """The ConfigMap and its namespace, for clusters that are not made from config/."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kubeflow-trainer-public", "namespace": NAMESPACE},
            "data": public_data(),
        },
    ]


def chart_version(version: str = __version__) -> str:
    """The version as Helm wants it (Semantic Versioning 2): `1.3.0.dev2` is `1.3.0-dev.2`, `1.0.0rc1` is `1.0.0-rc.1`.

    Raises ValueError: it is not of the form that releases of this project have: X.Y.Z, then maybe aN, bN, rcN or .devN.
    """
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.?(a|b|rc|dev)(\d+))?", version)
    if match is None:
        raise ValueError(f"version {version!r} is not X.Y.Z, X.Y.ZaN, X.Y.ZbN, X.Y.ZrcN or X.Y.Z.devN")
    release, stage, number = match.groups()
    return f"{release}-{stage}.{number}" if stage else release
