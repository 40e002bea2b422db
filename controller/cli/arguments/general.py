# SPDX-License-Identifier: Apache-2.0
"""All commands but those of a local cluster."""

from argparse import SUPPRESS, RawDescriptionHelpFormatter
from pathlib import Path

from trainwright.controller.cli.arguments.local import LOCAL
from trainwright.controller.cli.arguments.values import LEVELS, gates, webhook_url, whole, zap_encoder, zap_level
from trainwright.controller.cli.commands import Argument, Command, OneOf, argument, flag, output, several

ZAP_WITHOUT_EFFECT = ("zap-stacktrace-level", "zap-time-encoding")
_CONTEXT = argument("--context", "context of the kubeconfig (default: the current one)")
_KUBECONFIG = (
    argument(
        "--kubeconfig", "kubeconfig (default: as for kubectl, and where there is none the local cluster)", type=Path
    ),
    _CONTEXT,
)
_NAMESPACES = OneOf(
    [
        argument("-n, --namespace", "namespace (default: the one of the kubeconfig's context)"),
        flag("-A, --all-namespaces", "TrainJobs of all namespaces"),
    ]
)


def _config(text: str) -> Argument:
    """The Configuration of a manager. `text` goes on after "file with the Configuration of the manager"."""
    return argument("--config FILE", f"file with the Configuration of the manager{text}", type=Path)


def _initialize(kind: str, noun: str) -> Command:
    return Command(
        f"fetch a {noun}",
        "initialize:run",
        f"Fetch a {noun} from hf://owner/name[@revision], s3://bucket/prefix, "
        "https://host/file#sha256=HEX, file:///path, or from a scheme that a distribution adds. "
        "Options win over variables (STORAGE_URI, OUTPUT_PATH). "
        "ALLOW_PATTERNS and IGNORE_PATTERNS choose files; tokens come in variables only (HF_TOKEN, ACCESS_TOKEN). "
        "Exit code 0 if the files are there, 1 if not, 2 for a wrong command line, 143 after SIGTERM.",
        [
            argument("--storage-uri URI", "where from (default: the variable STORAGE_URI)"),
            argument("--output FOLDER", f"where to (default: the variable OUTPUT_PATH, or /workspace/{kind})"),
            OneOf(
                [
                    flag("--dry-run", "list files, sizes and free space, and write nothing"),
                    flag("--verify", "hash the files that are there, and say which are damaged; nothing is fetched"),
                ]
            ),
        ],
        defaults={"takes_signals": True},
    )


COMMANDS = {
    "dashboard": Command(
        "show TrainJobs in the browser",
        "dashboard:run",
        "Serve a page about TrainJobs to the browser of this machine, until Ctrl-C. It listens on "
        "127.0.0.1 only, reads the cluster of the kubeconfig with your own rights, and changes nothing unless you let "
        "it. Exit code 0; 2 for a wrong command line, and if the port or the kubeconfig cannot be used.",
        [
            _NAMESPACES,
            argument(
                "--port",
                "port on 127.0.0.1 (default: a free one)",
                type=whole("a port: write a number from 0 to 65535", 0, 65535),
                default=0,
            ),
            flag("--allow-changes", "let the page stop, resume, delete and repeat jobs, where you have the rights"),
            flag("--no-browser", "print the address, and open no browser"),
            *_KUBECONFIG,
        ],
        failed=2,
    ),
    "doctor": Command(
        "say what is wrong with an installation",
        "doctor:run",
        "Examine an installation: JobSet, definitions, webhooks and their certificates, the leader, the "
        "rights of the manager, each runtime, devices, queues, quotas, clock. Nothing is changed; writes are dry runs. "
        "It needs no manager, and works with Kubeflow Trainer's own installations. Exit code 0 if nothing is wrong, 1 "
        "if something is, 2 if the cluster cannot be examined, 3 if nothing was found and not all could be checked.",
        [
            *_KUBECONFIG,
            argument(
                "-n, --namespace",
                "where objects are tried as dry runs (default: the one that the manager is limited to, or default)",
            ),
            output("text", "json"),
        ],
        failed=2,
    ),
    "explain": Command(
        "say why a TrainJob does not train",
        "explain:run",
        "Say in one sentence why a TrainJob does not train, or that it does; of an OptimizationJob, how its trials "
        "stand. Reads the cluster of the kubeconfig and changes nothing; needs no manager. Exit code 0 if the job "
        "runs or is complete, 1 if it failed or is stuck, 3 if it waits; 2 for a wrong command line, and for a job or "
        "cluster that cannot be read.",
        [
            argument("job JOB", "name of the TrainJob or OptimizationJob, or `latest` for the newest TrainJob"),
            argument("-n, --namespace", "its namespace (default: the one of the kubeconfig's context)"),
            flag("--all", "show all causes that were found, not only the first two"),
            output("text", "json"),
            flag("--watch", "go on until the job is over, and show each change (Ctrl-C ends it)"),
            *_KUBECONFIG,
        ],
        failed=2,
    ),
    "generate": Command(
        "compile schemas of your own kinds into models",
        "generate:run",
        """\
Compile the schemas of your own kinds into typed models with copies and defaults, CustomResourceDefinitions, and JSON
Schemas for editors. A schema is a CustomResourceDefinition whose parts may be references: to definitions in the same
file, or to types of Kubernetes, such as $ref: core/v1/PodSpec. Each group and version has a folder below DIR:

  boats/api/sea/v1/boat.yaml    the schema
  boats/api/sea/v1/             gets models, and a JSON Schema for each kind
  boats/crds/                   gets the CustomResourceDefinitions

exit codes:
  0  done, or nothing to do
  1  --check: a file is not up to date
  2  the schemas are invalid; nothing was written
  3  a file could not be written; no file was changed
""",
        [
            argument("folder DIR", "the folder of the schemas", type=Path),
            argument(
                "--package", "name under which Python imports DIR (default: from the packages around it)", default=""
            ),
            argument("--crds FOLDER", "where the CustomResourceDefinitions go (default: crds beside DIR)", type=Path),
            several(
                "--import FILE",
                "take the CustomResourceDefinitions of another project into DIR first; can be given again",
                type=Path,
                dest="imported",
            ),
            flag("--check", "write nothing; show the files that are not up to date"),
        ],
        failed=3,
        settings={"formatter_class": RawDescriptionHelpFormatter},
    ),
    "initialize": Command(
        "fetch a model or a data set into a folder",
        description="Fetch a model or a data set into a folder, whole or not at all: an interrupted download goes on "
        "where it ended, every file is checked against its hash, and a folder that is complete is not fetched again.",
        commands={"dataset": _initialize("dataset", "data set"), "model": _initialize("model", "model")},
        below={"title": "kinds", "metavar": "KIND", "dest": "kind", "required": True},
    ),
    "kubectl": Command(
        "run the kubectl of this machine on the local cluster",
        "local.status:kubectl",
        arguments=[argument("arguments ARGS", "arguments and options of kubectl", nargs="*")],
        defaults={"passed_on": None},
        # All that follows is kubectl's: with this prefix, nothing looks like an option of ours.
        settings={"prefix_chars": "\0", "add_help": False},
    ),
    "local": Command(
        "a cluster on this machine: train without containers",
        description="A Kubernetes cluster in one process on this machine: an API server, controllers and a node whose "
        "pods are processes. For learning, for trying jobs, for tests of operators; not for other users.",
        commands=LOCAL,
        below={"dest": "local_command"},
    ),
    "manager": Command(
        "run the TrainJob controller",
        "manager:run",
        "Run the TrainJob controller until SIGTERM or SIGINT. Exit code 0 after a normal end, 1 after a "
        "failure, 2 for a wrong command line.",
        [
            argument(
                "--kubeconfig",
                "kubeconfig of the cluster (default: $KUBECONFIG, the cluster that this runs in, or ~/.kube/config)",
                type=Path,
            ),
            _config(" (default: an empty one)"),
            argument(
                "--feature-gates NAME=BOOL,…",
                "features to turn on or off; they take precedence over those of the Configuration",
                type=gates,
                default={},
            ),
            argument(
                "--namespace", "manage the TrainJobs of this namespace only (default: all namespaces)", default=""
            ),
            argument(
                "--webhook-url URL",
                "for a manager outside of the cluster: the address https://HOST:PORT at which the API server "
                "reaches it; the webhooks are registered with it, and removed at the end (default: no webhooks)",
                type=webhook_url,
            ),
            argument(
                "--log-level",
                "lowest level that is logged (default: that of the Configuration, or info)",
                choices=LEVELS,
            ),
            argument(
                "--log-format",
                "format of the log; auto is json in a cluster and text elsewhere (default: that of the Configuration, "
                "or auto)",
                choices=("auto", "json", "text"),
            ),
            # Flags that installations of Kubeflow Trainer pass. They work, and the help does not list them.
            argument("--zap-log-level", SUPPRESS, type=zap_level, dest="log_level"),
            argument("--zap-encoder", SUPPRESS, type=zap_encoder, dest="log_format"),
            argument("--zap-devel", SUPPRESS, nargs="?", const="true"),
            *(argument(f"--{name}", SUPPRESS) for name in ZAP_WITHOUT_EFFECT),
        ],
        defaults={"takes_signals": True},
    ),
    "plugins": Command(
        "list the plugins in the order in which they run",
        "plugins:run",
        "List the plugins that the manager loads, in the order in which they run in every phase. Exit code "
        "1 with every reason if they cannot be loaded together.",
        [_config(", whose section plugins is used"), output("table", "json", "yaml")],
    ),
    "progress": Command(
        "show how far TrainJobs are",
        "progress.command:run",
        "Show how far TrainJobs are, as their training reports it: a table of all, or all metrics of one. "
        "Reads the cluster of the kubeconfig and changes nothing. Exit code 0; 1 if the job that is named has failed "
        "or is deleted; 2 for a wrong command line, and for a job or cluster that cannot be read.",
        [
            argument("job JOB", "name of a TrainJob, or `latest` (default: all)", nargs="?"),
            _NAMESPACES,
            flag(
                "-w, --watch",
                "go on, and show changes: a live picture on a terminal, else one line for each change. Ends with "
                "the job that is named, or with Ctrl-C",
            ),
            output("text", "json"),
            *_KUBECONFIG,
        ],
        failed=2,
    ),
    "rbac": Command(
        "print the roles that the manager needs",
        "rbac:run",
        "Print the roles that the manager needs with the plugins that are installed here and enabled in "
        "its Configuration, and the bindings of the roles to its service account. Apply them after you add or remove a "
        "plugin. Exit code 1 if the Configuration or a plugin is invalid.",
        [
            _config(" (default: the shipped one)"),
            argument("-n, --namespace", "namespace of the manager (default: %(default)s)", default="kubeflow-system"),
            argument(
                "--only-namespace NAMESPACE",
                "the manager is started with --namespace=NAMESPACE (default: it manages all namespaces)",
                default="",
            ),
        ],
    ),
    "render": Command(
        "print the objects that a TrainJob becomes",
        "render:run",
        "Print the objects that TrainJobs become, in the order in which they would be applied. Needs no "
        "cluster. Exit code 0 if all TrainJobs were rendered, 1 if one is invalid, 2 for a wrong command line.",
        [
            argument(
                "-f, --filename FILE",
                "file or folder with TrainJobs, which may hold runtimes too; - for standard input; may be repeated",
                action="append",
                required=True,
            ),
            several(
                "--runtime FILE",
                "file or folder with runtimes; may be repeated (default: the shipped ones; with --cluster the "
                "cluster's)",
            ),
            argument("-n, --namespace", "namespace of objects without one (default: %(default)s)", default="default"),
            argument(
                "-o, --output",
                "format; diff compares the objects with the runtime's template, or with --cluster with the "
                "existing objects (default: yaml; with --cluster diff)",
                choices=("yaml", "json", "diff"),
            ),
            flag(
                "--cluster",
                "read runtimes that no file has, and existing objects, from a cluster; nothing in it is changed",
            ),
            argument("--kubeconfig", "kubeconfig for --cluster (default: as for the manager)", type=Path),
            _CONTEXT,
            _config(", whose section plugins is used"),
            flag("--explain", "say which plugin or patch set each value, and why"),
        ],
    ),
}
