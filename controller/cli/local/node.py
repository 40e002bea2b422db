# SPDX-License-Identifier: Apache-2.0
"""The node of a local cluster, as the options say it."""

import socket
import sys
from dataclasses import replace

from trainwright.controller.cli.local.options import LocalOptions
from trainwright.controller.local.node.document.images import DEFAULT, Images
from trainwright.controller.local.node.settings import Isolation, NetworkMode, NodeSettings

IMAGES = "images.yaml"


def node_settings(options: LocalOptions) -> NodeSettings:
    """For the node. Raises ConfigurationError where `images.yaml` has a mistake."""
    return NodeSettings(
        name=node_name(),
        folder=options.folder,
        images=images_of(options),
        isolation=Isolation(options.isolation),
        network=NetworkMode(options.network),
        capacity=options.capacity,
        inherit=tuple(options.inherit_env),
        share_gpus=options.share_gpus,
    )


def images_of(options: LocalOptions) -> Images:
    """What runs in place of images. Raises ConfigurationError where `images.yaml` has a mistake."""
    program = (sys.executable, "-m", "trainwright.controller.cli.main", "initialize")
    initializers = [
        # In the command, since paths there are rewritten where pods have no mounts of their own.
        (
            f"*/{kind}-initializer[:@]*",
            replace(
                DEFAULT,
                command=(*program, kind, "--output", f"/workspace/{kind}"),
                variables={"TRAINWRIGHT_NETWORK": options.network},
            ),
        )
        for kind in ("dataset", "model")
    ]
    return Images.read(options.folder / IMAGES, defaults=initializers)


def node_name() -> str:
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in socket.gethostname().lower())
    return name.strip("-")[:63].strip("-") or "laptop"
