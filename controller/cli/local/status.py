# SPDX-License-Identifier: Apache-2.0
"""`trainwright local status` and `list`: which clusters there are, and what one of them holds; kubectl on one."""

import argparse
import itertools
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator

from trainwright.controller.cli import state
from trainwright.controller.cli.local.options import options_of

_MODES = {
    "namespaces": "in namespaces of the kernel, with their own names and paths",
    "rewrite": "beside each other; names and paths in what they are given are rewritten",
    "none": "none: the API server alone",
}


def status(arguments: argparse.Namespace) -> int:
    """Say how a cluster is; returns the exit code: 1 if it does not run."""
    if arguments.limits:
        print(*limits(), sep="\n")
        return 0
    options = options_of(arguments)
    run = state.running(options.folder)
    if run is None:
        said = f"does not run; start it with: {options.command('up')}"
        print(f"cluster {options.name}: {state.HELD if state.is_held(options.folder) else said}")
        return 1
    print(f"cluster {run.name}: runs since {run.began} as process {run.pid}, version {run.version}")
    print(f"  API server   {run.server}")
    print(f"  kubeconfig   {options.folder / 'kubeconfig'}")
    print(f"  folder       {options.folder}")
    print(f"  pods         {_MODES[run.mode]}")
    if run.options:
        print(f"  options      {shlex.join(run.options)}")
    if run.mode == "none":
        return 0
    print(f"  dashboard    {run.dashboard or 'none'}")
    # Imported here: most of the time there is none, and the answer comes at once.
    import asyncio  # noqa: PLC0415

    from trainwright.controller.cli.local.local_jobs import content_of  # noqa: PLC0415

    for line in asyncio.run(content_of(options.folder)):
        print(f"  {line}")
    return 0


def clusters(_: argparse.Namespace) -> int:
    found = state.all_running()
    if not found:
        print("no cluster; start one with: trainwright local up")
    for folder, run in found:
        print(f"{folder.name:<20} {'runs at ' + run.server if run else 'does not run':<32} {folder}")
    return 0


def kubectl(arguments: argparse.Namespace) -> int:
    """Run kubectl in place of this process; the user's kubeconfig stays as it is.

    Returns 127 if there is none. Raises UserError if no cluster runs.
    """
    folder = state.only_running()
    program = shutil.which("kubectl")
    if program is None:
        print(
            "error: kubectl is not installed; `trainwright local` lists, shows, stops and deletes jobs without it",
            file=sys.stderr,
        )
        return 127
    rest = [] if arguments.passed_on is None else ["--", *arguments.passed_on]
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}
    return os.execve(program, [program, *arguments.arguments, *rest], environment)  # noqa: S606 - signals reach it


LIMITS = {
    "images": "are not pulled; see Environments",
    "isolation": "pods run as you: they see your files, processes and network, and what they write outside of "
    "volumes stays",
    "limits of CPU and memory": "are not enforced. Requests decide who starts: the node has your CPUs and memory "
    "less 10 %, or --capacity=cpu=8,memory=16Gi",
    "securityContext, such as runAsUser": "means nothing; who writes it in a Pod or a Job is warned",
    "network policies": "mean nothing. What a framework opens on all addresses can be reached from your network",
    "roles": "are stored, and count with --rbac. Without it, every user with a token may do everything. Processes of "
    "pods can read the kubeconfig, whose rights are all",
    "several nodes": "one, named after the machine",
    "gang schedulers, Kueue, autoscalers": "none; a TrainJob that needs a PodGroup is Blocked",
    "preemption, quotas": "none",
    "ValidatingAdmissionPolicies": "are evaluated, also for kubectl exec. MutatingAdmissionPolicies are stored only. "
    "One that uses authorizer is refused; types of fields are not checked, and costs are counted in long loops only",
    "kubectl explain": "describes the kinds of definitions, such as TrainJob. Built-in kinds have their fields and "
    "types only",
    "Deployments, CronJobs and other kinds that training does not need": "are stored, with a warning that nothing "
    "acts on them. The same goes for fields that the node ignores",
    "storage": "a PersistentVolumeClaim is a folder; its size and access mode are not enforced",
    "other users of the machine": "the API server listens on 127.0.0.1; without the token, which only you can read, "
    "it answers health and version only",
}
"""What a local cluster is not. The table of docs/users/local.md says the same."""
_LEFT, _WIDTH = 36, 120


def limits() -> Iterator[str]:
    for there, here in (("in a cluster", "here"), *LIMITS.items()):
        left, right = textwrap.wrap(there, _LEFT - 2), textwrap.wrap(here, _WIDTH - _LEFT)
        for first, second in itertools.zip_longest(left, right, fillvalue=""):
            yield f"{first:<{_LEFT}}{second}".rstrip()
