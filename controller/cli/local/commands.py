# SPDX-License-Identifier: Apache-2.0
"""`trainwright local up | down | status | list | run`; `job_commands` declares the commands about jobs."""

import argparse
import asyncio
import math
import os
import platform
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from trainwright.api import extras
from trainwright.controller.cli import folders, state
from trainwright.controller.cli.local import job_commands, output_commands, script_options, serving
from trainwright.controller.cli.local.job_commands import age
from trainwright.controller.cli.local.options import Options, add_node, add_place, options_of

_SUCCESS, _FAILURE, _REFUSED, _INTERRUPTED, _BROKEN_PIPE = 0, 1, 125, 130, 141
_PURPOSE = "a local cluster"
_REFUSALS = (
    "ConfigurationError",
    "ForeignFolderError",
    "MissingExtraError",
    "OtherSystemError",
    "RegistryError",
    "StateFileError",
)
_MODES = {
    "namespaces": "in namespaces of the kernel, with their own names and paths",
    "rewrite": "beside each other; names and paths in what they are given are rewritten",
    "none": "none: the API server alone",
}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "local",
        help="a cluster on this machine: train without containers",
        description="A Kubernetes cluster in one process on this machine: an API server, controllers and a node whose "
        "pods are processes. For learning, for trying jobs, for tests of operators; not for other users.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="local_command", parser_class=_Parser)
    _add_up(commands)
    _add_down(commands)
    _add_status(commands)
    _add_list(commands)
    _add_run(commands)
    job_commands.add_to(commands, _command)
    output_commands.add_to(commands, _command)

    def usage(_: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return 2

    parser.set_defaults(run=usage)


class OtherSystemError(Exception):
    """No local cluster runs on this system; the text says what to do."""


def _check_system() -> None:
    """Raises OtherSystemError. hack/run.py says the same before it installs anything."""
    if (system := platform.system()) != "Linux":
        raise OtherSystemError(
            f"a local cluster runs on Linux only, and this is {'macOS' if system == 'Darwin' else system}: "
            "use a machine or a virtual machine with Linux, such as WSL"
        )


class _Parser(argparse.ArgumentParser):
    """Of one command; `wrong_use` is its exit code for a wrong command line."""

    wrong_use = 2

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.wrong_use, f"{self.prog}: error: {message}\n")


def _command(commands: Any, name: str, text: str, run: Callable[[argparse.Namespace], int], **more: Any) -> _Parser:
    parser: _Parser = commands.add_parser(name, help=text, description=more.pop("description", None))
    parser.set_defaults(run=lambda arguments: _unless_interrupted(run, arguments))
    return parser


def _unless_interrupted(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; Ctrl-C and a reader of its lines who has gone, such as `head`, end it without a traceback."""
    try:
        return run(arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Python writes what is left at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except Exception as error:
        # What the cluster, or the way to it, did not do, or what is no folder of one: the text says all.
        if _is_of(error, "StateLostError", "KubernetesError", *_REFUSALS):
            return _fail(error)
        raise


# ---------------------------------------------------------------------- up and down


def _add_up(commands: Any) -> None:
    parser = _command(
        commands,
        "up",
        "start a cluster in the background",
        _up,
        description="Start a cluster in the background and return when it is ready. If it runs already, it "
        "goes on. Exit code 0, or 1 if it could not be started.",
    )
    add_place(parser)
    add_node(parser)
    parser.add_argument("--foreground", action="store_true", help="run it in this terminal until Ctrl-C")
    parser.add_argument(
        "--only",
        choices=("apiserver",),
        default="",
        help="start the API server alone, without controllers, node and manager: a server to test operators on",
    )
    parser.add_argument("--memory", action="store_true", help="keep the objects in memory only")
    parser.add_argument(
        "--new-token",
        action="store_true",
        help="give the dashboard a new address; the old one, and pages that are open with it, stop working",
    )
    parser.add_argument(
        "--merge-kubeconfig",
        action="store_true",
        help="add the cluster to your own kubeconfig and keep a copy of the file; `down` removes it again",
    )
    parser.add_argument(
        "--use-context", action="store_true", help="with --merge-kubeconfig: make it the current context"
    )


def _up(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    if arguments.use_context and not arguments.merge_kubeconfig:
        return _fail("--use-context goes with --merge-kubeconfig", 2)
    if arguments.foreground and arguments.merge_kubeconfig:
        return _fail("--merge-kubeconfig does not go with --foreground", 2)
    try:
        _check_system()
        extras.require("local", _PURPOSE)
        if arguments.new_token:
            _renew_token(options)
        if arguments.foreground:
            serving.run_in_foreground(options)
            return _SUCCESS
        run = _running(options)
        if run.dashboard:
            print(f"dashboard: {run.dashboard}")
        print(f"export KUBECONFIG={shlex.quote(str(options.folder / 'kubeconfig'))}")
        if arguments.merge_kubeconfig:
            _merge(options, use_context=arguments.use_context)
    except BrokenPipeError:
        raise
    except (serving.StartError, state.InUseError, OSError) as error:
        return _fail(_words(error, options))
    except Exception as error:
        if _is_refusal(error):
            return _fail(error)
        raise
    return _SUCCESS


def _running(options: Options) -> state.Run:
    """The cluster, which is started if it does not run."""
    run = serving.started_elsewhere(options.folder)
    if run is None:
        return _start(options)
    if why := options.unlike(run):
        raise serving.StartError(why)
    print(f"cluster {options.name}: runs already, at {run.server}")
    return run


def _renew_token(options: Options) -> None:
    """Rotate the dashboard's secret. A server that runs takes the new one with its next request."""
    from trainwright.controller.cli.dashboard.keys import KeptKeys  # noqa: PLC0415 - the help needs none of it
    from trainwright.controller.cli.dashboard.serving import address_of  # noqa: PLC0415 - as above

    state.make_folder(options.folder)
    keys = KeptKeys(options.folder).renew()
    run = state.running(options.folder)
    if run is not None and run.dashboard:
        state.write(options.folder, replace(run, dashboard=address_of(keys)))


def _merge(options: Options, *, use_context: bool) -> None:
    from trainwright.controller.cli.local import kubeconfigs  # noqa: PLC0415 - the help needs none of it

    file = kubeconfigs.user_file()
    context = kubeconfigs.merge(options.folder, file, use_context=use_context)
    print(f"{file}: has context {context} now{', which is the current one' if use_context else ''}")


def _start(options: Options) -> state.Run:
    try:
        run = serving.start_in_background(options)
    except serving.StartError:
        # Two commands at once: one of them finds the folder in use.
        found = serving.started_elsewhere(options.folder)
        if found is None:
            raise
        run = found
    print(f"cluster {options.name}: ready at {run.server}")
    return run


def _is_refusal(error: Exception) -> bool:
    """Whether the text of the error is all that a user needs. By name: importing the classes would slow every help."""
    return _is_of(error, *_REFUSALS)


def _words(error: Exception, options: Options) -> str:
    """The text of an error. A system error names its file; that of a full disk has none, so it gets the folder."""
    if isinstance(error, OSError):
        return f"{error.filename or options.folder}: {error.strerror or error}"
    return str(error)


def _is_of(error: Exception, *names: str) -> bool:
    return any(one.__name__ in names for one in type(error).__mro__)


def _add_down(commands: Any) -> None:
    parser = _command(
        commands,
        "down",
        "end a cluster",
        _down,
        description="End the pods with their grace period, then the cluster; Ctrl-C kills the pods. "
        "The objects stay for the next `up`.",
    )
    add_place(parser)
    parser.add_argument(
        "--delete",
        action="store_true",
        help="delete its files too: all objects, logs and volumes; what others put into its folder stays",
    )


def _down(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    if arguments.delete:
        folders.check_deletable(options.folder, arguments.dir)
    run = state.running(options.folder)
    if run is None:
        if state.is_held(options.folder):
            return _fail(f"cluster {options.name}: {state.HELD}; wait for that")
        print(f"cluster {options.name}: does not run")
    elif (seconds := serving.stop(options.folder, run)) is not None:
        return _fail(f"cluster {options.name}: process {run.pid} did not end within {seconds:.0f} s")
    else:
        print(f"cluster {options.name}: ended")
    try:
        if (file := _taken_out(options)) is not None:
            print(f"{file}: the cluster is taken out")
    except OSError as error:
        return _fail(error)
    except Exception as error:
        if _is_refusal(error):
            return _fail(error)
        raise
    if arguments.delete and options.folder.exists():
        return _delete(options)
    return _SUCCESS


def _delete(options: Options) -> int:
    try:
        with state.held(options.folder):
            _end_what_is_left(options)
            stays = folders.delete(options.folder)
    except (state.InUseError, OSError) as error:
        return _fail(_words(error, options))
    if stays:
        more = f" and {len(stays) - 1} more" if stays[1:] else ""
        print(f"{options.folder}: the cluster's files are deleted; the folder stays, because it holds {stays[0]}{more}")
    else:
        print(f"{options.folder}: deleted")
    _say_what_stays(options)
    return _SUCCESS


def _say_what_stays(options: Options) -> None:
    from trainwright.controller.cli.local import outputs  # noqa: PLC0415 - the help needs none of it

    its = [one for one in outputs.kept_in(options.runs) if one.owner.cluster == str(options.folder)]
    if its:
        said = outputs.number(len(its), "output")
        print(f"{said} of its jobs stay{'s' if not its[1:] else ''} in {options.runs}: {options.command('outputs')}")


def _end_what_is_left(options: Options) -> None:
    """End what a cluster that was killed has left, as its next start would: the folder holds the only records of it."""
    from trainwright.controller.local.node.recovery import end_survivors  # noqa: PLC0415 - the help needs none of it
    from trainwright.controller.local.node.settings import NodeSettings  # noqa: PLC0415 - as above

    pods = NodeSettings(name="", folder=options.folder).pods
    if pods.is_dir():
        end_survivors(pods)


def _taken_out(options: Options) -> Path | None:
    from trainwright.controller.cli.local import kubeconfigs  # noqa: PLC0415 - the help needs none of it

    return kubeconfigs.take_out(options.folder)


# ---------------------------------------------------------------------- looking


def _add_status(commands: Any) -> None:
    parser = _command(
        commands,
        "status",
        "say how a cluster is",
        _status,
        description="Exit code 0 if it runs, 1 if it does not.",
    )
    add_place(parser)
    parser.add_argument("--limits", action="store_true", help="say what a local cluster is not, of any cluster")


def _status(arguments: argparse.Namespace) -> int:
    if arguments.limits:
        from trainwright.controller.cli.local import limits  # noqa: PLC0415 - the help needs none of it

        print(*limits.lines(), sep="\n")
        return _SUCCESS
    options = options_of(arguments)
    run = state.running(options.folder)
    if run is None:
        said = f"does not run; start it with: {options.command('up')}"
        print(f"cluster {options.name}: {state.HELD if state.is_held(options.folder) else said}")
        return _FAILURE
    from trainwright.controller.cli.local import views  # noqa: PLC0415 - the help needs none of it

    print(f"cluster {run.name}: runs since {run.began} as process {run.pid}, version {run.version}")
    print(f"  API server   {run.server}")
    print(f"  kubeconfig   {options.folder / 'kubeconfig'}")
    print(f"  folder       {options.folder}")
    print(f"  pods         {_MODES[run.mode]}")
    if run.options:
        print(f"  options      {shlex.join(run.options)}")
    if run.mode == "none":
        return _SUCCESS
    print(f"  dashboard    {run.dashboard or 'none'}")
    for line in asyncio.run(views.status(options.folder)):
        print(f"  {line}")
    return _SUCCESS


def _add_list(commands: Any) -> None:
    _command(commands, "list", "list the clusters of this user", _list)


def _list(_: argparse.Namespace) -> int:
    found = state.all_running()
    if not found:
        print("no cluster; start one with: trainwright local up")
    for folder, run in found:
        print(f"{folder.name:<20} {'runs at ' + run.server if run else 'does not run':<32} {folder}")
    return _SUCCESS


# ---------------------------------------------------------------------- run


def _add_run(commands: Any) -> None:
    parser = _command(
        commands,
        "run",
        "run a TrainJob here and follow it",
        _run,
        description="Submit a TrainJob, show the lines of its ranks, and end as it ends. Uses the cluster that runs, "
        "or one of its own for as long as the job. Exit code: 0 if the job is Complete; else that of the container "
        "that failed first, 128 if its program does not exist, or 1 if the job failed without one; 123 after "
        "--stall-stop, 124 if it did not start or end in time, 125 for a wrong command line or a refused job, 130 "
        "after Ctrl-C, 143 after SIGTERM.",
    )
    # 2 would be taken for the exit code of a container.
    parser.wrong_use = _REFUSED
    parser.set_defaults(wrong_use=_REFUSED)
    add_place(parser)
    add_node(parser)
    script_options.add_to(parser)
    how = parser.add_argument_group("how")
    how.add_argument("--dry-run", action="store_true", help="print the TrainJob of the script, run nothing")
    how.add_argument("--detach", action="store_true", help="submit it and return; needs a cluster that runs")
    how.add_argument(
        "--keep", action="store_true", help="let the job go on if this command ends before it, by Ctrl-C or --timeout"
    )
    how.add_argument("--rm", action="store_true", help="delete the job with its lines when it has ended")
    how.add_argument(
        "--restarts",
        choices=("none", "as-cluster"),
        default="none",
        help="what to do when a container of the trainer fails: end the job at once, or restart it as a cluster does "
        "(default: %(default)s)",
    )
    how.add_argument(
        "--start-timeout",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long to wait for the first container (default: %(default)s)",
    )
    how.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="end the job, with exit code 124, if it has not finished after this time (default: never)",
    )
    how.add_argument(
        "--stall-after",
        type=_limit,
        default="10m",
        metavar="TIME",
        help="warn when a rank has ended or fallen silent for so long while the job goes on: 30s, 10m, 2h or never "
        "(default: 10m)",
    )
    how.add_argument(
        "--stall-stop", action="store_true", help="stop the job then, with exit code 123; with --keep, suspend it"
    )


def _limit(text: str) -> float | None:
    if text == "never":
        return None
    try:
        return age(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or never") from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: use a number of seconds above 0")
    return seconds


def _run(arguments: argparse.Namespace) -> int:
    from trainwright.controller.cli.local import requested  # noqa: PLC0415 - the help needs none of it

    options = options_of(arguments)
    if arguments.stall_stop and (arguments.detach or arguments.stall_after is None):
        why = "--detach" if arguments.detach else "--stall-after=never"
        return _fail(f"--stall-stop does not go with {why}: the command watches the job for it", _REFUSED)
    try:
        _check_system()
        extras.require("local", _PURPOSE)
        from trainwright.controller.cli.local import scripts  # noqa: PLC0415 - needs Linux

        documents = scripts.documents_of(arguments)
        from trainwright.controller.cli.local import running  # noqa: PLC0415 - as above

        _choose_environment(arguments)
        if arguments.dry_run:
            requested.show(asyncio.run(running.prepared(options, documents, arguments)))
            return _SUCCESS
        return asyncio.run(running.run(options, documents, arguments))
    except BrokenPipeError:
        raise
    except requested.WrongUseError as error:
        return _fail(error, _REFUSED)
    except OSError as error:
        return _fail(_words(error, options), _REFUSED)
    except Exception as error:
        if _is_refusal(error):
            return _fail(error, _REFUSED)
        raise


def _choose_environment(arguments: argparse.Namespace) -> None:
    """Set the Python of a script. Raises WrongUseError."""
    from trainwright.controller.cli.local import environments  # noqa: PLC0415 - the help needs none of it

    def say(line: str) -> None:
        print(f"| {line}", file=sys.stderr if arguments.dry_run else sys.stdout, flush=True)

    if arguments.file is None:
        arguments.environment = environments.chosen(arguments, os.environ, say)


def _fail(error: object, code: int = _FAILURE) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
