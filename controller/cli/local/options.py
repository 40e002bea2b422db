# SPDX-License-Identifier: Apache-2.0
"""The options that all commands of a local cluster share."""

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from trainwright.api.errors import UserError
from trainwright.controller.cli import state
from trainwright.controller.cli.arguments.local import ISOLATION

_VERBOSE = "--verbose"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Of the commands that run a cluster, each field but the first two is named as its option, and has its default."""

    name: str
    folder: Path
    isolation: str = ISOLATION[0]
    port: int = 0
    capacity: Mapping[str, str] = field(default_factory=dict)
    inherit_env: Sequence[str] = ()
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

    def kept(self) -> list[str]:
        """The options that say how the cluster runs, without those that have their default."""
        made: list[str] = []
        for one in _HOW:
            value, option = getattr(self, one.name), f"--{one.name.replace('_', '-')}"
            if not value or value == one.default:
                continue
            if isinstance(value, Mapping):
                value = ",".join(f"{key}={amount}" for key, amount in value.items())
            several = value if isinstance(value, list | tuple) else [value]
            made += [option if each is True else f"{option}={each}" for each in several]
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


_HOW = fields(LocalOptions)[2:]


def options_of(arguments: argparse.Namespace) -> LocalOptions:
    given = {one.name: vars(arguments)[one.name] for one in _HOW if one.name in arguments}
    return LocalOptions(name=arguments.name, folder=state.folder_of(arguments.name, arguments.dir), **given)


@contextmanager
def disk_errors(options: LocalOptions) -> Iterator[None]:
    """Errors of the system become sentences. Each names its file; that of a full disk has none: it gets the folder."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"{error.filename or options.folder}: {error.strerror or error}") from error
