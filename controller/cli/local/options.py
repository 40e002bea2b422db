# SPDX-License-Identifier: Apache-2.0
"""The options that all commands of a local cluster share."""

import argparse
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.controller.cli import state

if TYPE_CHECKING:
    from trainwright.controller.local.node.images import Images
    from trainwright.controller.local.node.settings import NodeSettings

IMAGES = "images.yaml"
_ISOLATION = ("auto", "namespaces", "rewrite")
_NETWORK = ("shared", "isolated")
_VERBOSE = "--verbose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which cluster, and how it runs."""

    name: str
    folder: Path
    port: int = 0
    isolation: str = "auto"
    network: str = "shared"
    capacity: Mapping[str, str] = field(default_factory=dict)
    inherit: tuple[str, ...] = ()
    share_gpus: bool = False
    only: str = ""
    """`apiserver` for an API server without controllers and node; empty for everything."""
    memory: bool = False
    """Keep no state file."""
    verbose: bool = False

    def node_settings(self) -> "NodeSettings":
        """For the node. Raises ConfigurationError where `images.yaml` has a mistake."""
        from trainwright.controller.local.node.settings import Isolation, NetworkMode, NodeSettings  # noqa: PLC0415 - as below

        return NodeSettings(
            name=node_name(),
            folder=self.folder,
            images=self.images(),
            isolation=Isolation(self.isolation),
            network=NetworkMode(self.network),
            capacity=self.capacity,
            inherit=self.inherit,
            share_gpus=self.share_gpus,
        )

    def images(self) -> "Images":
        """What runs in place of images. Raises ConfigurationError where `images.yaml` has a mistake."""
        from trainwright.controller.local.node.images import DEFAULT, Images  # noqa: PLC0415 - the help needs none

        program = (sys.executable, "-m", "trainwright.controller.cli.main", "initialize")
        network = {"TRAINWRIGHT_NETWORK": self.network}
        initializers = [
            # In the command, since paths there are rewritten where pods have no mounts of their own.
            (
                f"*/{kind}-initializer[:@]*",
                replace(DEFAULT, command=(*program, kind, "--output", f"/workspace/{kind}"), variables=network),
            )
            for kind in ("dataset", "model")
        ]
        return Images.read(self.folder / IMAGES, defaults=initializers)

    def command(self, name: str) -> str:
        """What to type for another command on the same cluster."""
        typed = f"trainwright local {name}"
        if self._has_own_folder:
            return f"{typed} --dir={shlex.quote(str(self.folder))}"
        return typed if self.name == state.DEFAULT else f"{typed} --name={self.name}"

    @property
    def runs(self) -> Path:
        """Where the outputs of jobs lie: of all clusters together, of one with a folder of its own in that folder."""
        return (self.folder if self._has_own_folder else state.root().parent) / "runs"

    @property
    def _has_own_folder(self) -> bool:
        return self.folder != state.folder_of(self.name, None)

    def arguments(self) -> list[str]:
        """The command line that says the same."""
        return [f"--name={self.name}", f"--dir={self.folder}", *self.kept()]

    def kept(self) -> list[str]:
        """The options that say how the cluster runs, without those that have their default."""
        made: list[str] = []
        if self.isolation != _ISOLATION[0]:
            made.append(f"--isolation={self.isolation}")
        if self.network != _NETWORK[0]:
            made.append(f"--network={self.network}")
        if self.port:
            made.append(f"--port={self.port}")
        if self.capacity:
            made.append("--capacity=" + ",".join(f"{key}={value}" for key, value in self.capacity.items()))
        made += [f"--inherit-env={name}" for name in self.inherit]
        if self.share_gpus:
            made.append("--share-gpus")
        if self.only:
            made.append(f"--only={self.only}")
        if self.memory:
            made.append("--memory")
        if self.verbose:
            made.append(_VERBOSE)
        return made

    def unlike(self, run: state.Run) -> str:
        """Why these options cannot be had of a cluster that runs already; empty if they can."""
        missing = [option for option in self.kept() if option not in (*run.options, _VERBOSE)]
        if not missing:
            return ""
        return (
            f"cluster {self.name} runs already, without {shlex.join(missing)}; end it with `{self.command('down')}`, "
            "or use another --name"
        )


def node_name() -> str:
    """The name of this machine as the name of an object."""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in socket.gethostname().lower())
    return name.strip("-")[:63].strip("-") or "laptop"


def add_place(parser: argparse.ArgumentParser) -> None:
    """The options that say which cluster is meant."""
    parser.add_argument("--name", type=_name, default=state.DEFAULT, help="name of the cluster (default: %(default)s)")
    parser.add_argument(
        "--dir", type=Path, metavar="FOLDER", help="its folder (default: one below ~/.local/state/trainwright/local)"
    )


def add_node(parser: argparse.ArgumentParser) -> None:
    """The options that say how a cluster runs."""
    parser.add_argument(
        "--port", type=_port, default=0, help="port of the API server on 127.0.0.1 (default: a free one)"
    )
    parser.add_argument(
        "--isolation",
        choices=_ISOLATION,
        default="auto",
        help="how pods get their names and paths: in namespaces of the kernel, or by rewriting what they are given "
        "(default: namespaces where they work)",
    )
    parser.add_argument(
        "--network",
        choices=_NETWORK,
        default="shared",
        help="the network of pods: that of this machine, or one for each job that leads nowhere else; "
        "needs namespaces (default: %(default)s)",
    )
    parser.add_argument(
        "--capacity",
        type=_capacity,
        default={},
        metavar="cpu=N,memory=N,…",
        help="what pods may request (default: what this machine has, less 10 %%)",
    )
    parser.add_argument(
        "--inherit-env",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable of this shell that all pods get; may be given several times",
    )
    parser.add_argument("--share-gpus", action="store_true", help="leave all GPUs visible to every pod")
    parser.add_argument("--verbose", action="store_true", help="log what the controllers do")


def options_of(arguments: argparse.Namespace) -> Options:
    """The options of a parsed command line."""
    given = vars(arguments)
    return Options(
        name=arguments.name,
        folder=state.folder_of(arguments.name, arguments.dir),
        port=given.get("port", 0),
        isolation=given.get("isolation", "auto"),
        network=given.get("network", "shared"),
        capacity=given.get("capacity", {}),
        inherit=tuple(given.get("inherit_env", ())),
        share_gpus=given.get("share_gpus", False),
        only=given.get("only", ""),
        memory=given.get("memory", False),
        verbose=given.get("verbose", False),
    )


def _name(text: str) -> str:
    if not state.NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name: use lower case letters, digits and dashes, at most 32"
        )
    return text


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 1 to 65535")
    return int(text)


def _capacity(text: str) -> dict[str, str]:
    from trainwright.api.quantity import Quantity  # noqa: PLC0415 - the help needs none of it

    made: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            Quantity.parse(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(
                f"{part!r}: write resource=quantity, such as cpu=4 or memory=8Gi"
            ) from error
        if not name or not equals:
            raise argparse.ArgumentTypeError(f"{part!r}: write resource=quantity, such as cpu=4 or memory=8Gi")
        made[name] = value
    return made
