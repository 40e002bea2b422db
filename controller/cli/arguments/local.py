# SPDX-License-Identifier: Apache-2.0
"""The commands of a local cluster."""

from pathlib import Path

from trainwright.controller.cli import state
from trainwright.controller.cli.arguments import values
from trainwright.controller.cli.arguments.values import number, seconds, whole
from trainwright.controller.cli.commands import Command, Group, OneOf, argument, flag, output, several

ISOLATION = ("auto", "namespaces", "rewrite")
REFUSED = 125
"""Exit code of `run` for a wrong command line and a refused job: 2 would be taken for that of a container."""
_MOST_RETRIES = 100
"""As `api.trainer.v1alpha1.recovery` says; the help is printed without loading that."""
_JOB = "name of a TrainJob, `latest` for the newest, or the name of a script without .py for its newest job"
_SOME = f"{_JOB}; or a pattern such as 'sw-*'"

_PLACE = (
    argument("--name", "name of the cluster (default: %(default)s)", type=values.cluster_name, default=state.DEFAULT),
    argument("--dir FOLDER", "its folder (default: one below ~/.local/state/trainwright/local)", type=Path),
)
"""Which cluster is meant."""
_NODE = (
    argument(
        "--port",
        "port of the API server on 127.0.0.1 (default: a free one)",
        type=whole("a port: use a number from 1 to 65535", 1, 65535),
        default=0,
    ),
    argument(
        "--isolation",
        "how pods get their names and paths: in namespaces of the kernel, or by rewriting what they are given "
        "(default: namespaces where they work)",
        choices=ISOLATION,
        default="auto",
    ),
    argument(
        "--capacity cpu=N,memory=N,…",
        "what pods may request (default: what this machine has, less 10 %%)",
        type=values.capacity,
        default={},
    ),
    several("--inherit-env NAME", "a variable of this shell that all pods get; may be given several times"),
    flag("--share-gpus", "leave all GPUs visible to every pod"),
    flag(
        "--rbac",
        "give users and service accounts only the rights of their roles and bindings, as on a cluster; the "
        "kubeconfig keeps all rights (default: every user with a token may do everything)",
    ),
    flag("--verbose", "log what the controllers do"),
)
"""How a cluster runs."""
_NAMESPACE = argument("--namespace, -n", "namespace of the job (default: %(default)s)", default="default")
_ONE_JOB = (*_PLACE, argument("job JOB", _JOB), _NAMESPACE)
_JOBS = (*_PLACE, argument("jobs JOB", _SOME, nargs="+"), _NAMESPACE)
_ANY_JOBS = (*_PLACE, argument("jobs JOB", _SOME, nargs="*"), _NAMESPACE)
_NAMESPACES = (*_PLACE, OneOf([_NAMESPACE, flag("--all-namespaces, -A", "jobs of all namespaces")]))


_CODE = (
    argument("arguments ARGS", "arguments of the script; put its options behind --", nargs="*"),
    argument("--module, -m MODULE", "run this module, such as pkg.main, instead of a script; as python -m"),
    argument("--runtime NAME", "runtime of the script (default: torch-distributed)"),
    argument(
        "--nodes N",
        "number of nodes of the script (default: the runtime's)",
        type=whole("a number of nodes: use 1 or more", 1),
    ),
)
_WHAT = Group(
    "what to run",
    [
        argument("--file, -f FILE", "manifest with a TrainJob and what it needs", type=Path),
        argument("script SCRIPT", "a Python script, instead of a manifest", nargs="?"),
        *_CODE,
        argument(
            "--job-name NAME",
            "name of the TrainJob of the script; a job of that name that has ended is replaced (default: a new "
            "name, made from that of the script)",
            type=values.job_name,
        ),
    ],
)
_SCRIPT = (
    argument("script SCRIPT", "a Python script", nargs="?"),
    *_CODE,
    argument(
        "--job-name NAME",
        "name of the search; its TrainJobs are NAME-1, NAME-2 … (default: a new name, made from that of the script)",
        type=values.job_name,
    ),
)
_WORKDIR = (
    argument(
        "--workdir FOLDER",
        "the folder that the script starts in, on all nodes (default: the current one); `pod`: a folder for "
        "each pod, which is kept in the output",
    ),
)
_WHERE = Group(
    "where",
    [
        *_WORKDIR,
        argument(
            "--output FOLDER",
            "the folder that the job finds in TRAINWRIGHT_OUTPUT_DIR, for models and checkpoints; it is never "
            "emptied (default: a new one, see `trainwright local outputs`)",
            type=values.absolute_path,
        ),
    ],
)
_ENVIRONMENT = Group(
    "environment of the script",
    [
        several(
            "--env NAME[=VALUE]", "set a variable; without a value, to that of this shell. May be given several times"
        ),
        several(
            "--env-file FILE",
            "set the variables of a file with lines NAME=VALUE; --env takes precedence. May be given several times",
            type=values.path,
        ),
        argument(
            "--python PATH",
            "run with this interpreter, or that of this virtual or conda environment (default: of the active one, "
            "else the one that Trainwright is installed in)",
        ),
        several(
            "--requirements, -r FILE",
            "run in an environment with these packages; it is made once and kept for the next job with the same "
            "file. May be given several times",
            type=values.path,
        ),
    ],
)
_SEARCH = Group(
    "search",
    [
        several(
            "--param NAME=SPACE",
            "a parameter to search: loguniform:1e-5:1e-1, uniform:0:1, int:1:8, logint:16:1024, or choices such as "
            "16,32,64. The script finds the value in the variable KUBEFLOW_TRAINER_OPT_NAME, and {NAME} in its "
            "arguments stands for it. May be given several times",
            type=values.parameter,
        ),
        argument("--objective METRIC", "the metric that the trials report and are compared by", default=""),
        argument(
            "--direction",
            "which value is better (default: maximize what is called accuracy or score, minimize everything else)",
            choices=("minimize", "maximize"),
        ),
        argument(
            "--trials N",
            "how many trials, 1 to 100 (default: 20)",
            type=whole("a number of trials: use 1 to 100", 1, 100),
        ),
        argument(
            "--parallel N",
            "how many at once (default: 1)",
            type=whole("a number of trials: use 1 to 100", 1, 100),
        ),
        argument(
            "--sampler",
            "what chooses the parameters (default: random); all but random and grid need the extra optimization",
            choices=("random", "grid", "tpe", "gp", "qmc", "cmaes"),
        ),
        argument("--seed N", "for the same trials again (default: a new one)", type=whole("a number", 0)),
        argument("--pruner", "stop bad trials early (default: never)", choices=("median", "asha")),
        argument(
            "--warmup-steps N",
            "with --pruner: stop no trial before this step, or this percentage if the training reports no steps",
            type=whole("a number of steps", 0),
        ),
        argument("--resume NAME", "go on with a search that was interrupted, as it was begun"),
    ],
)
_HOW = Group(
    "how",
    [
        flag("--dry-run", "print the TrainJob of the script, run nothing"),
        flag("--detach", "submit it and return; needs a cluster that runs"),
        argument(
            "--queue N",
            "submit it and return, as --detach; it starts when fewer than N such jobs run: each asks for one of N "
            "parts of the machine's GPUs, or of its CPUs where it has none",
            type=whole("a number above 0", 1),
        ),
        flag("--keep", "let the job go on if this command ends before it, by Ctrl-C or --timeout"),
        flag("--rm", "delete the job with its lines when it has ended"),
        argument(
            "--restarts",
            "what to do when a container of the trainer fails: end the job at once, or restart it as a cluster "
            "does (default: %(default)s)",
            choices=("none", "as-cluster"),
            default="none",
        ),
        argument(
            "--retries N",
            "restart all ranks together when one fails, for so many failures in a row without progress, whatever "
            "the cause, 0 to 100 (default: a failure ends the job)",
            type=whole(f"a number of retries: use 0 to {_MOST_RETRIES}", 0, _MOST_RETRIES),
        ),
        argument(
            "--resume-from CHECKPOINT",
            "the path or address that the first attempt gets from trainwright.progress.latest_checkpoint",
        ),
        argument(
            "--start-timeout TIME",
            "how long to wait for the first container (default: %(default)s)",
            type=seconds,
            default="60s",
        ),
        argument(
            "--timeout TIME",
            "end the job, with exit code 124, if it has not finished after this time, such as 2h (default: never)",
            type=seconds,
        ),
        argument(
            "--stall-after TIME",
            "warn when a rank has ended or fallen silent for so long while the job goes on: 30s, 10m, 2h or never "
            "(default: 10m)",
            type=values.limit,
            default="10m",
        ),
        flag(
            "--stall-stop",
            "stop the job then, with exit code 123; with --keep, suspend it; with --retries, restart its ranks",
        ),
    ],
)

LOCAL = {
    "up": Command(
        "start a cluster in the background",
        "local.clusters:up",
        "Start a cluster in the background and return when it is ready. If it runs already, it "
        "goes on. Exit code 0, or 1 if it could not be started.",
        [
            *_PLACE,
            *_NODE,
            flag("--foreground", "run it in this terminal until Ctrl-C"),
            argument(
                "--only",
                "start the API server alone, without controllers, node and manager: a server to test operators on",
                choices=("apiserver",),
                default="",
            ),
            flag("--memory", "keep the objects in memory only"),
            flag(
                "--new-token",
                "give the dashboard a new address; the old one, and pages that are open with it, stop working",
            ),
            flag(
                "--merge-kubeconfig",
                "add the cluster to your own kubeconfig and keep a copy of the file; `down` removes it again",
            ),
            flag("--use-context", "with --merge-kubeconfig: make it the current context"),
        ],
    ),
    "down": Command(
        "end a cluster",
        "local.clusters:down",
        "End the pods with their grace period, then the cluster; Ctrl-C kills the pods. "
        "The objects stay for the next `up`.",
        [
            *_PLACE,
            flag(
                "--delete", "delete its files too: all objects, logs and volumes; what others put into its folder stays"
            ),
        ],
    ),
    "status": Command(
        "say how a cluster is",
        "local.status:status",
        "Exit code 0 if it runs, 1 if it does not.",
        [*_PLACE, flag("--limits", "say what a local cluster is not, of any cluster")],
    ),
    "list": Command("list the clusters of this user", "local.status:clusters"),
    "run": Command(
        "run a TrainJob here and follow it",
        "local.run:run",
        "Submit a TrainJob, show the lines of its ranks, and end as it ends. Uses the cluster that runs, "
        "or one of its own for as long as the job. Exit code: 0 if the job is Complete; else that of the container "
        "that failed first, 128 if its program does not exist, or 1 if the job failed without one; 123 after "
        "--stall-stop, 124 if it did not start or end in time, 125 for a wrong command line or a refused job, 130 "
        "after Ctrl-C, 143 after SIGTERM.",
        [*_PLACE, *_NODE, _WHAT, _WHERE, _ENVIRONMENT, _HOW],
        failed=REFUSED,
        wrong_use=REFUSED,
        defaults={"passed_on": [], "function": None, "advice": "what the script is given goes behind --"},
    ),
    "tune": Command(
        "search the parameters of a script",
        "local.tune:run",
        "Run a script as trials with different parameters, and compare what they report: an OptimizationJob on the "
        "cluster that runs, or on one of its own for as long as the search. Ends with the best parameters, the output "
        "of that trial, and the command that trains with them again. Ctrl-C stops the trials that run and keeps those "
        "that have ended; --resume goes on. Exit code: 0 if a trial gave a value, 1 if none did, 125 for a wrong "
        "command line or a refused search, 130 after Ctrl-C, 143 after SIGTERM.",
        [*_PLACE, *_NODE, Group("what to run", _SCRIPT), _SEARCH, Group("where", _WORKDIR), _ENVIRONMENT],
        failed=REFUSED,
        wrong_use=REFUSED,
        defaults={
            "advice": "what the script is given goes behind --",
            "detach": False,
            "dry_run": False,
            "queue": None,
            "file": None,
            "function": None,
            "output": None,
            "passed_on": [],
            "restarts": "none",
            "resume_from": None,
            "retries": 0,
            "stall_stop": False,
        },
    ),
    "jobs": Command(
        "list the jobs", "local.job_commands:jobs", arguments=[*_NAMESPACES, output("text", "json", "yaml")]
    ),
    "show": Command(
        "show a job: its state and why, what it reported, its ranks",
        "local.job_commands:show",
        "Show a job: its state and why, what it reported, and its ranks. `--output` prints the "
        "TrainJob as the cluster holds it.",
        [*_ONE_JOB, output("text", "json", "yaml")],
    ),
    "compare": Command(
        "compare jobs: the parameters that differ, last and best values",
        "local.job_commands:compare",
        "Show jobs beside each other: the parameters that differ (arguments, environment, image, nodes, "
        "git commit), and the last and the best value of each metric. Best is the lowest loss or error, "
        "and the highest accuracy or score; of other metrics both are shown. Secrets are hidden.",
        [*_JOBS, output("text", "json", "csv")],
    ),
    "export": Command(
        "write the curves of jobs as CSV or for TensorBoard",
        "local.job_commands:export",
        "Write each value that the trainings have reported, as CSV with a row for each point. With --tensorboard, "
        "write files that TensorBoard reads, in a folder for each job.",
        [*_JOBS, argument("--tensorboard FOLDER", "write files of TensorBoard into this folder", type=Path)],
    ),
    "logs": Command(
        "show the lines of a job's ranks",
        "local.job_commands:logs",
        "Show the lines of a job's ranks, also of pods that are gone. If the logs are gone too, show the "
        "lines that the record of failures holds. With --follow, the exit code is that of `run`.",
        [
            *_ONE_JOB,
            flag("--follow, -f", "follow the log until the job ends"),
            several("--rank N", "only rank N, or the step of that name; may be given several times"),
            argument("--since TIME", "only lines of the last 30s, 10m, 2h or 1d", type=seconds),
            argument("--tail N", "only the last N lines of each container", type=number),
            flag("--unfolded", "also the lines that torchrun itself writes when a process of its fails"),
            argument("--attempt N", "the lines of this attempt, from 1 on (default: the latest)", type=number),
        ],
    ),
    "stop": Command(
        "stop jobs: their pods end, the jobs stay",
        "local.job_commands:stop",
        "Suspend jobs and wait until their pods have ended. `resume` starts them again, from their "
        "checkpoints if they write any. The name of a search stands for the search and its trials, also for `resume` "
        "and `delete`.",
        _JOBS,
    ),
    "resume": Command("resume jobs that were stopped", "local.job_commands:resume", arguments=_JOBS),
    "delete": Command(
        "delete jobs with their pods and logs",
        "local.job_commands:delete",
        "Delete jobs and wait until their pods have ended. Their logs, curves and records go with them; files that "
        "the trainings wrote elsewhere stay.",
        [*_ANY_JOBS, flag("--all", "all jobs of the namespace", dest="everything")],
    ),
    "clean": Command(
        "delete jobs that have ended, after a preview",
        "local.job_commands:clean",
        "List the jobs that have ended, and the size of the lines of their ranks. With --yes, delete them: "
        "the TrainJobs with all objects that they made, their records of failures, their curves and their lines, "
        "and the searches that have ended and keep no such trial. "
        "What jobs wrote into outputs and other folders stays.",
        [
            *_NAMESPACES,
            argument(
                "--keep N", "leave the last N (default: %(default)s)", type=whole("a number above 0", 0), default=0
            ),
            flag("--yes, -y", "delete them; without it nothing is deleted"),
        ],
    ),
    "wait": Command(
        "wait for a job, or for several",
        "local.job_commands:wait",
        "Wait until a job has ended, runs or is suspended; of a pattern such as 'sw-*', all of them. Exit code for "
        "the end, as of `run`: 0 if the job is Complete, else that of the container that failed first, or 1. For the "
        "others: 0. 1 if the job was deleted or has ended before, 124 if it took longer than --timeout.",
        [
            *_ONE_JOB,
            argument(
                "--for",
                "what to wait for (default: %(default)s)",
                dest="until",
                choices=("end", "running", "suspended"),
                default="end",
            ),
            argument("--timeout TIME", "how long, such as 10m (default: no limit)", type=seconds),
        ],
    ),
    "outputs": Command(
        "list what jobs have left, and delete it",
        "local.output_commands:run",
        "List the outputs of jobs, which stay when their job or their cluster is deleted, or the files of "
        "outputs that are named. With --delete, list what will be deleted, ask, and delete it. Folders of "
        "`run --output` are not listed and not deleted.",
        [
            *_PLACE,
            argument("outputs OUTPUT", "name of an output or of its job; `latest` for the newest", nargs="*"),
            flag("--delete", "delete the outputs that are named"),
            flag("--all", "all outputs", dest="everything"),
            flag("--yes, -y", "delete without a question"),
        ],
    ),
}
