# SPDX-License-Identifier: Apache-2.0
"""`trainwright local up` and `down`, and a cluster's entries in the user's own kubeconfig.

Only `--merge-kubeconfig` puts entries there, and `down` takes them out. What the file had before is kept in a copy
beside it, and everything else in it stays, except comments. kubectl's own lock keeps two programs from writing at once:
https://github.com/kubernetes/client-go/blob/master/tools/clientcmd/config.go
"""

import argparse
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from trainwright.api.errors import UserError
from trainwright.api.messages import counted
from trainwright.controller.cli import state
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local import daemon
from trainwright.controller.cli.local.options import LocalOptions, disk_errors, options_of
from trainwright.controller.cli.local.run import check_system
from trainwright.controller.local.credentials import write_private
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import ConfigurationError

COPY = ".before-trainwright"
"""At the end of the name of the copy."""
_RECORD = "merged.json"
"""In the cluster's folder: which file has its entries, and the context that was current before."""
_SECTIONS = ("clusters", "users", "contexts")
_CURRENT = "current-context"


def up(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    if arguments.use_context and not arguments.merge_kubeconfig:
        raise WrongUseError("--use-context goes with --merge-kubeconfig")
    if arguments.foreground and arguments.merge_kubeconfig:
        raise WrongUseError("--merge-kubeconfig does not go with --foreground")
    with disk_errors(options):
        check_system()
        if arguments.new_token:
            _renew_token(options)
        if arguments.foreground:
            daemon.run_in_foreground(options)
            return 0
        found = _started(options)
        if found.dashboard:
            print(f"dashboard: {found.dashboard}")
        print(f"export KUBECONFIG={shlex.quote(str(options.folder / 'kubeconfig'))}")
        if arguments.merge_kubeconfig:
            file = user_file()
            context = merge(options.folder, file, use_context=arguments.use_context)
            current = ", which is the current one" if arguments.use_context else ""
            print(f"{file}: has context {context} now{current}")
    return 0


def _started(options: LocalOptions) -> state.ClusterRun:
    """The cluster, which is started if it does not run."""
    run = daemon.started_elsewhere(options.folder)
    if run is None:
        return _start(options)
    if why := options.unlike(run):
        raise daemon.ClusterStartError(why)
    print(f"cluster {options.name}: runs already, at {run.server}")
    return run


def _start(options: LocalOptions) -> state.ClusterRun:
    try:
        run = daemon.start_in_background(options)
    except daemon.ClusterStartError:
        # Two commands at once: one of them finds the folder in use.
        if (found := daemon.started_elsewhere(options.folder)) is None:
            raise
        run = found
    print(f"cluster {options.name}: ready at {run.server}")
    return run


def _renew_token(options: LocalOptions) -> None:
    """Rotate the dashboard's secret. A server that runs takes the new one with its next request."""
    from trainwright.controller.dashboard import KeptKeys  # noqa: PLC0415 - a new token alone needs the page

    state.claim(options.folder)
    keys = KeptKeys(options.folder).renew()
    run = state.running(options.folder)
    if run is not None and run.dashboard:
        state.write(options.folder, replace(run, dashboard=keys.address))


def down(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    if arguments.delete:
        state.check_deletable(options.folder, arguments.dir)
    running = state.running(options.folder)
    if running is None:
        if state.is_held(options.folder):
            raise UserError(f"cluster {options.name}: {state.HELD}; wait for that")
        print(f"cluster {options.name}: does not run")
    elif (seconds := daemon.stop(options.folder, running)) is not None:
        raise UserError(f"cluster {options.name}: process {running.pid} did not end within {seconds:.0f} s")
    else:
        print(f"cluster {options.name}: ended")
    with disk_errors(options):
        if (file := take_out(options.folder)) is not None:
            print(f"{file}: the cluster is taken out")
    if arguments.delete and options.folder.exists():
        _delete(options)
    return 0


def _delete(options: LocalOptions) -> None:
    # Imported here: only a deletion needs it.
    from trainwright.controller.cli.local import outputs  # noqa: PLC0415
    from trainwright.controller.local.node.folders import end_survivors  # noqa: PLC0415

    with disk_errors(options), state.held(options.folder):
        # As its next start would: what a killed cluster has left is found by the path of its folder.
        pods = NodeSettings(name="", folder=options.folder).pods
        if pods.is_dir():
            end_survivors(pods)
        stays = state.delete(options.folder)
    if stays:
        more = f" and {len(stays) - 1} more" if stays[1:] else ""
        print(f"{options.folder}: the cluster's files are deleted; the folder stays, because it holds {stays[0]}{more}")
    else:
        print(f"{options.folder}: deleted")
    its = [one for one in outputs.kept_in(options.runs) if one.owner.cluster == str(options.folder)]
    if its:
        said = counted(len(its), "output")
        print(f"{said} of its jobs stay{'s' if not its[1:] else ''} in {options.runs}: {options.command('outputs')}")


def user_file() -> Path:
    """The file that kubectl changes: the first one of KUBECONFIG, or ~/.kube/config."""
    named = [one for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    return Path(named[0]).expanduser() if named else Path.home() / ".kube" / "config"


def merge(folder: Path, file: Path, *, use_context: bool) -> str:
    """Put the entries of a cluster into a kubeconfig, which is made if there is none; returns the name of the context.

    Raises:
        ConfigurationError: the file is not a kubeconfig, or locked, or the cluster's own.
        OSError: it cannot be read or written.
    """
    own = folder / "kubeconfig"
    if file.resolve() == own.resolve():
        raise ConfigurationError(f"KUBECONFIG names the cluster's own file already: {file}")
    made = yaml.safe_load(own.read_text(encoding="utf-8"))
    context: str = made[_CURRENT]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(file):
        document = _read(file)
        before = document.get(_CURRENT) or ""
        for section in _SECTIONS:
            document[section] = [*_others(document, section, context), *made[section]]
        if use_context:
            document[_CURRENT] = context
        _write(file, document)
    with suppress(FileNotFoundError):
        earlier = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        before = earlier["before"] if before == context else before
    record = {"file": str(file.resolve()), "context": context, "before": before}
    write_private(folder / _RECORD, json.dumps(record).encode())
    return context


def take_out(folder: Path) -> Path | None:
    """Take the entries of a cluster out of the kubeconfig that has them; returns its path, or None if none has.

    If the cluster's context is the current one, that of before is. Raises ConfigurationError, OSError.
    """
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    file, context = Path(record["file"]), record["context"]
    if file.exists():
        with _locked(file):
            document = _read(file)
            for section in _SECTIONS:
                document[section] = _others(document, section, context)
            if document.get(_CURRENT) == context:
                known = [one.get("name") for one in document["contexts"]]
                document[_CURRENT] = record["before"] if record["before"] in known else ""
            _write(file, document)
    (folder / _RECORD).unlink()
    return file


def _others(document: dict[str, Any], section: str, name: str) -> list[Any]:
    return [one for one in document.get(section) or () if not isinstance(one, dict) or one.get("name") != name]


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{file}: {error}") from error
    if document is None:
        document = {"apiVersion": "v1", "kind": "Config"}
    lists = isinstance(document, dict) and all(isinstance(document.get(one) or [], list) for one in _SECTIONS)
    if not lists or document.get("kind", "Config") != "Config":
        raise ConfigurationError(f"{file} is not a kubeconfig")
    return dict(document)


def _write(file: Path, document: dict[str, Any]) -> None:
    """Replace the file at once. A link stays one: the file that it names is replaced."""
    file = file.resolve()
    copy = file.with_name(file.name + COPY)
    # A file that is as we write it has no comments to lose; the copy of one that had them stays.
    if file.exists() and not (copy.exists() and file.read_bytes() == _text(_read(file))):
        shutil.copy2(file, copy)
    write_private(file, _text(document))


def _text(document: dict[str, Any]) -> bytes:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock that kubectl takes before it writes. Raises ConfigurationError."""
    lock = file.with_name(f"{file.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise ConfigurationError(
            f"{file} is locked by another program; if none runs, delete {lock} and try again"
        ) from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
