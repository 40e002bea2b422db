# SPDX-License-Identifier: Apache-2.0
"""Why a container cannot run on this machine. Known before a pod exists, so programs that submit work can ask first."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from trainwright.api.objects import Document
from trainwright.controller.local.node.document.images import Environment, Images

_MPI = frozenset({"mpirun", "mpiexec"})
_FLUX = "/etc/flux-config/"
"""Where the scripts of a Flux job are mounted. They copy from and to fixed paths of their images."""


def unrunnable(container: Document, images: Images) -> str:
    """Why a container of a template cannot run here: a sentence without the container's name; empty if it can.

    Variables with `valueFrom` count by their names.
    """
    environment = images.environment_of(container.get("image") or "")
    if environment.refusal:
        return refused_image(container, environment)
    command = command_of(container, environment)
    if not command:
        return no_command(container, images)
    return unrunnable_command(command, environment, [str(one.get("name")) for one in container.get("env") or ()])


def command_of(container: Document, environment: Environment) -> list[str]:
    """The words of the command; empty if there is none.

    As with images: the container's command replaces the default one, args follow it.
    """
    command = container.get("command") or environment.command
    return [*command, *(container.get("args") or ())] if command else []


def refused_image(container: Document, environment: Environment) -> str:
    """Why an image cannot run, as `images.yaml` or the program around the node says."""
    return f"image {container.get('image') or ''} cannot run here: {environment.refusal}"


def no_command(container: Document, images: Images) -> str:
    """What to do about a container without a command."""
    image = container.get("image") or ""
    return (
        f"image {image} is not pulled, and the container has no command: add to {images.file} under images:"
        f' - {{image: "{image}", command: [...]}}'
    )


def unrunnable_command(command: Sequence[str], environment: Environment, variables: Sequence[str]) -> str:
    """Why a command cannot run here: it needs a remote shell or fixed paths of its image; empty if it can.

    `variables` are the names of the container's variables. What `images.yaml` maps is taken to run.
    """
    if environment.mapped:
        return ""
    program = PurePosixPath(command[0]).name
    if program == "sshd":
        return "it starts sshd, which has no keys and no port of its own here"
    if program in _MPI and any("hostfile" in name.lower() for name in variables):
        return f"{program} reaches the other pods through sshd, which does not run here"
    # The script may be the argument of a shell.
    if any(word.startswith(_FLUX) for word in command[:2]):
        return "Flux needs fixed paths of its image"
    return ""
