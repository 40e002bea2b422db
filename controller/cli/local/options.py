# SPDX-License-Identifier: Apache-2.0
"""The options that all commands of a local cluster share."""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.api.errors import UserError
from trainwright.controller.cli import state
from trainwright.controller.cli.arguments.local import ISOLATION, NETWORK

_VERBOSE = "--verbose"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    name: str
    folder: Path
    port: int = 0
    isolation: str = "auto"
    network: str = "shared"
    capacity: Mapping[str, str] = field(default_factory=dict)
    inherit: tuple[str, ...] = ()
    share_gpus: bool = False
    rbac: bool = False
    """Users have the rights that roles and bindings give them."""
    only: str = ""
    """`apiserver` for an API server without controllers and node; empty for everything."""
    memory: bool = False
    """Keep no state file."""
    verbose: bool = False

    def command(self, name: str) -> str:
        """What to type for another command on the same cluster."""
        typed = f"trainwright local {name}"
        if self._has_own_folder:
            return f"{typed} --dir={shlex.quote(str(self.folder))}"
        return typed if self.name == state.DEFAULT else f"{typed} --name={self.name}"

    def why_lost(self) -> str:
        """What to say to whom a connection to the cluster broke; empty: it runs. Blocks, two seconds at most."""
        if not state.has_ended(self.folder):
            return ""
        return f"cluster {self.name} has ended, and its pods with it; start it with: {self.command('up')}"

    def command_on(self, name: str, jobs: str, namespace: str, more: str = "") -> str:
        """The same for a command on jobs."""
        where = "" if namespace == "default" else f" --namespace={namespace}"
        return f"{self.command(name)} {jobs}{more}{where}"

    @property
    def runs(self) -> Path:
        """Where the outputs of jobs lie: of all clusters together, of one with a folder of its own in that folder."""
        return (self.folder if self._has_own_folder else state.root().parent) / "runs"

    @property
    def _has_own_folder(self) -> bool:
        return self.folder != state.folder_of(self.name, None)

    def arguments(self) -> list[str]:
        return [f"--name={self.name}", f"--dir={self.folder}", *self.kept()]

    def kept(self) -> list[str]:
        """The options that say how the cluster runs, without those that have their default."""
        made: list[str] = []
        if self.isolation != ISOLATION[0]:
            made.append(f"--isolation={self.isolation}")
        if self.network != NETWORK[0]:
            made.append(f"--network={self.network}")
        if self.port:
            made.append(f"--port={self.port}")
        if self.capacity:
            made.append("--capacity=" + ",".join(f"{key}={value}" for key, value in self.capacity.items()))
        made += [f"--inherit-env={name}" for name in self.inherit]
        if self.share_gpus:
            made.append("--share-gpus")
        if self.rbac:
            made.append("--rbac")
        if self.only:
            made.append(f"--only={self.only}")
        if self.memory:
            made.append("--memory")
        if self.verbose:
            made.append(_VERBOSE)
        return made

    def unlike(self, run: state.ClusterRun) -> str:
        """Why these options cannot be had of a cluster that runs already; empty if they can."""
        missing = [option for option in self.kept() if option not in (*run.options, _VERBOSE)]
        if not missing:
            return ""
        return (
            f"cluster {self.name} runs already, without {shlex.join(missing)}; end it with `{self.command('down')}`, "
            "or use another --name"
        )


def options_of(arguments: argparse.Namespace) -> LocalOptions:
    given = vars(arguments)
    return LocalOptions(
        name=arguments.name,
        folder=state.folder_of(arguments.name, arguments.dir),
        port=given.get("port", 0),
        isolation=given.get("isolation", "auto"),
        network=given.get("network", "shared"),
        capacity=given.get("capacity", {}),
        inherit=tuple(given.get("inherit_env", ())),
        share_gpus=given.get("share_gpus", False),
        rbac=given.get("rbac", False),
        only=given.get("only", ""),
        memory=given.get("memory", False),
        verbose=given.get("verbose", False),
    )


@contextmanager
def disk_errors(options: LocalOptions) -> Iterator[None]:
    """Errors of the system become sentences. Each names its file; that of a full disk has none: it gets the folder."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{error.filename or options.folder}: {error.strerror or error}") from error
