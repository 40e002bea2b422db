# SPDX-License-Identifier: Apache-2.0
"""The arguments of the commands that read a cluster with the rights of the user."""

import argparse

from trainwright.controller.cli.arguments.values import add_flag, add_kubeconfig, add_namespaces, add_output, whole


def dashboard(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve a page about TrainJobs to the browser of this machine, until Ctrl-C. It listens on "
        "127.0.0.1 only, reads the cluster of the kubeconfig with your own rights, and changes nothing unless you let "
        "it. Exit code 0; 2 for a wrong command line, and if the port or the kubeconfig cannot be used."
    )
    add_namespaces(parser)
    parser.add_argument(
        "--port",
        type=whole("a port: write a number from 0 to 65535", 0, 65535),
        default=0,
        help="port on 127.0.0.1 (default: a free one)",
    )
    add_flag(
        parser, "--allow-changes", help="let the page stop, resume, delete and repeat jobs, where you have the rights"
    )
    add_flag(parser, "--no-browser", help="print the address, and open no browser")
    add_kubeconfig(parser)


def doctor(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Examine an installation: JobSet, definitions, webhooks and their certificates, the leader, the "
        "rights of the manager, each runtime, devices, queues, quotas, clock. Nothing is changed; writes are dry runs. "
        "It needs no manager, and works with Kubeflow Trainer's own installations. Exit code 0 if nothing is wrong, 1 "
        "if something is, 2 if the cluster cannot be examined, 3 if nothing was found and not all could be checked."
    )
    add_kubeconfig(parser)
    parser.add_argument(
        "-n",
        "--namespace",
        help="where objects are tried as dry runs (default: the one that the manager is limited to, or default)",
    )
    add_output(parser, "text", "json")


def explain(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say in one sentence why a TrainJob does not train, or that it does. Reads the cluster of the "
        "kubeconfig and changes nothing; needs no manager. Exit code 0 if the job runs or is complete, 1 if it "
        "failed or is stuck, 3 if it waits; 2 for a wrong command line, and for a job or cluster that cannot be "
        "read."
    )
    parser.add_argument("job", metavar="JOB", help="name of the TrainJob")
    parser.add_argument("-n", "--namespace", help="its namespace (default: the one of the kubeconfig's context)")
    add_flag(parser, "--all", help="show all causes that were found, not only the first two")
    add_output(parser, "text", "json")
    add_flag(parser, "--watch", help="go on until the job is over, and show each change (Ctrl-C ends it)")
    add_kubeconfig(parser)


def progress(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show how far TrainJobs are, as their training reports it: a table of all, or all metrics of one. "
        "Reads the cluster of the kubeconfig and changes nothing. Exit code 0; 1 if the job that is named has failed "
        "or is deleted; 2 for a wrong command line, and for a job or cluster that cannot be read."
    )
    parser.add_argument("job", metavar="JOB", nargs="?", help="name of a TrainJob (default: all)")
    add_namespaces(parser)
    add_flag(
        parser,
        "-w",
        "--watch",
        help="go on, and show changes: a live picture on a terminal, else one line for each change. Ends with the job "
        "that is named, or with Ctrl-C",
    )
    add_output(parser, "text", "json")
    add_kubeconfig(parser)
