# SPDX-License-Identifier: Apache-2.0
"""A day with jobs on a local cluster, with no other tool than `trainwright`: list, look, stop, resume, wait, delete."""

import csv
import io
import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.shell import RANK, Shell
from trainwright.controller.cli.local.local_jobs import END_SECONDS
from trainwright.controller.runtime.testing.waiting import contains, eventually_sync

WAITS = f"""
{RANK}
import time
print('rank', rank, 'works', flush=True)
time.sleep(600)
"""
REPORTS = """
import sys
from trainwright.progress import Reporter
rate = float(sys.argv[sys.argv.index('--lr') + 1])
with Reporter(total=4) as progress:
    for step, part in enumerate((2, 0.5, 1, 1.5), 1):
        progress.update(step=step, loss=rate * part)
"""
FAILS = """
import sys
print('reading data', flush=True)
sys.exit('the learning rate is not a number')
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell with a cluster that runs; it is the default one."""
    with Shell.with_cluster(tmp_path_factory.mktemp("jobs")) as made:
        yield made


@pytest.fixture
def shell(running: Shell) -> Iterator[Shell]:
    """The same without any job."""
    yield running
    done = running.local("delete", "--all", seconds=END_SECONDS + 60)
    assert done.returncode == 0, done.stderr


def command(shell: Shell, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that is not one of `local`, of a user who has no kubeconfig."""
    return shell.run(*arguments, variables={"HOME": str(shell.folder), **variables})


def test_a_job_is_looked_at_stopped_resumed_and_deleted(shell: Shell) -> None:
    assert shell.local("run", "--detach", "--file", shell.job(WAITS, "train")).returncode == 0
    waited = shell.local("wait", "train", "--for=running", "--timeout=60s")
    assert (waited.returncode, waited.stdout) == (0, "TrainJob train: Running\n"), waited.stderr

    listed = shell.local("jobs").stdout.splitlines()
    assert listed[0].split() == ["NAME", "STATE", "RUNTIME", "NODES", "PROGRESS", "AGE", "TOOK"]
    assert ["train", "Running", "xgboost-distributed", "2", "-"] in [line.split()[:5] for line in listed]
    whole = json.loads(shell.local("jobs", "--output=json").stdout)
    assert (whole["kind"], [one["metadata"]["name"] for one in whole["items"]]) == ("List", ["train"])
    stored = yaml.safe_load(shell.local("show", "train", "-o", "yaml").stdout)
    assert (stored["kind"], stored["spec"]["trainer"]["numNodes"]) == ("TrainJob", 2)
    assert "managedFields" not in stored["metadata"]

    both = {"[rank 0] rank 0 works", "[rank 1] rank 1 works"}
    eventually_sync(lambda: set(shell.local("logs", "train").stdout.splitlines()) == both)
    assert shell.local("logs", "train", "--rank=1").stdout == "[rank 1] rank 1 works\n"
    assert shell.local("logs", "train", "--rank=0", "--tail=1").stdout == "[rank 0] rank 0 works\n"
    wrong = shell.local("logs", "train", "--rank=5")
    assert (wrong.returncode, wrong.stderr) == (1, "error: TrainJob train has no rank 5: it has rank 0, rank 1\n")

    # A process may print before the node has said that it runs.
    eventually_sync(lambda: shell.local("status").stdout, contains("2 of 2 pods running"))
    shown = shell.local("show", "train").stdout
    assert "default/train" in shown
    assert "state    Running" in shown
    assert "rank 1   Running   0" in shown
    assert "Running: 2 of 2 pods run, attempt 1" in shown

    late = shell.local("wait", "train", "--timeout=1s")
    assert (late.returncode, late.stderr) == (124, "TrainJob train after 1 s: Running\n")

    stopped = shell.local("stop", "train", seconds=END_SECONDS + 60)
    assert stopped.stdout.splitlines() == ["TrainJob train: stopped", "resume with: trainwright local resume train"]
    assert shell.local("wait", "train", "--for=suspended").returncode == 0
    assert shell.local("stop", "train").stdout.startswith("TrainJob train: is stopped already")
    assert shell.local("resume", "train").stdout == "TrainJob train: resumed\n"
    assert shell.local("wait", "train", "--for=running", "--timeout=60s").returncode == 0
    assert shell.local("resume", "train").stdout == "TrainJob train: is not stopped\n"
    # The pods of before are gone and their lines are kept: a rank is named once all the same.
    assert shell.local("show", "latest").stdout.count("rank 1 ") == 1
    assert shell.local("logs", "train", "--rank=5").stderr == wrong.stderr

    deleted = shell.local("delete", "train", "other", seconds=END_SECONDS + 60)
    assert deleted.stdout == "TrainJob train: deleted\n"
    # One that is missing keeps no other from being deleted.
    assert (deleted.returncode, deleted.stderr) == (1, "error: there is no TrainJob other in namespace default\n")
    assert shell.local("show", "train").returncode == 1


def test_the_end_of_a_job_is_told_and_ended_jobs_are_left_as_they_are(shell: Shell) -> None:
    assert shell.local("run", "--keep", "--file", shell.job("print('done')", "good", nodes=1)).returncode == 0
    waited = shell.local("wait", "good")
    assert (waited.returncode, waited.stdout) == (0, "TrainJob good: Complete\n")
    for name in ("stop", "resume"):
        refused = shell.local(name, "good")
        assert refused.returncode == 1
        assert refused.stderr.startswith("error: TrainJob good has ended: Complete")
    assert shell.local("delete").returncode == 2
    assert shell.local("delete", "--all").stdout == "TrainJob good: deleted\n"
    assert shell.local("delete", "--all").stdout == "no jobs in namespace default\n"
    assert shell.local("jobs").stderr == "no jobs in namespace default; run one with: trainwright local run SCRIPT\n"


def test_jobs_are_compared_with_the_commit_that_they_ran(shell: Shell, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(tmp_path)]
    script = tmp_path / "train.py"
    script.write_text(REPORTS)
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=first"]):
        subprocess.run([*git, *words], check=True)
    options = ("--keep", "--runtime=xgboost-distributed")
    for name, rate in (("small", "0.2"), ("large", "1")):
        ran = shell.local("run", *options, f"--job-name={name}", str(script), "--", "--lr", rate, "--api-key=word")
        assert ran.returncode == 0, ran.stderr
        script.write_text(f"{REPORTS}# changed\n")

    def compared(*more: str) -> str:
        return shell.local("compare", "small", "large", *more).stdout

    lines = eventually_sync(lambda: compared().splitlines(), lambda lines: any("best" in line for line in lines))
    told = [line.split() for line in lines if line]
    assert told[:2] == [["small", "large"], ["state", "Complete", "Complete"]]
    assert [line for line in told if line[0] == "git"] == [["git", "changes", "none", "uncommitted"]]
    assert ["--lr", "0.2", "1"] in told
    assert ["loss", "0.3", "1.5"] in told
    assert ["best", "(low)", "0.1", "*", "0.5"] in told
    whole = json.loads(compared("--output=json"))
    same = {one["name"]: one["value"] for one in whole["same"]}
    assert same["--api-key"] == "(hidden)"
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert same["git commit"] == head.strip()
    titles, *rows = csv.reader(io.StringIO(compared("-o", "csv")))
    assert [dict(zip(titles, row, strict=True))["loss best at step"] for row in rows] == ["2", "2"]
    assert "word" not in compared("--output=json") + compared("-o", "csv")
    refused = shell.local("compare", "small", "small")
    assert (refused.returncode, refused.stderr) == (2, "error: name two jobs or more to compare\n")
    missing = shell.local("compare", "small", "none")
    assert (missing.returncode, missing.stderr) == (1, "error: there is no TrainJob none in namespace default\n")
    assert shell.local("delete", "small", "large").returncode == 0


def test_a_group_of_jobs_waits_for_its_turn_and_is_named_by_a_pattern(shell: Shell, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time, sys\nfrom trainwright.progress import Reporter\nbegan = time.time()\n"
        "with Reporter(total=1) as progress:\n    progress.update(step=1, loss=1.0)\ntime.sleep(0.5)\n"
        f"open({str(tmp_path / 'turns')!r}, 'a').write(f'{{began}} {{time.time()}}\\n')\n"
    )
    for number in range(3):
        options = ("--queue=1", "--runtime=xgboost-distributed", "--nodes=1", f"--job-name=sw-{number}")
        assert shell.local("run", *options, str(script), "--", f"--lr={number}").returncode == 0
    waited = shell.local("wait", "sw-*", "--timeout=120s")
    assert (waited.returncode, waited.stdout.split("\n")) == (
        0,
        [*(f"TrainJob sw-{n}: Complete" for n in range(3)), ""],
    )
    turns = sorted(tuple(map(float, line.split())) for line in (tmp_path / "turns").read_text().splitlines())
    assert len(turns) == 3
    assert all(one[1] <= later[0] for one, later in itertools.pairwise(turns))  # one at a time
    assert shell.local("compare", "sw-*").stdout.split()[:3] == ["sw-0", "sw-1", "sw-2"]
    exported = shell.local("export", "sw-[01]").stdout.splitlines()
    assert [line.split(",")[0] for line in exported] == ["job", "sw-0", "sw-1"]
    missing = shell.local("wait", "none-*")
    assert missing.returncode == 1
    assert missing.stderr == "error: there is no TrainJob in namespace default whose name is like none-*\n"


def test_a_failed_job_stays_as_it_is_until_it_is_cleaned_up(shell: Shell) -> None:
    failed = shell.local("run", "--file", shell.job(FAILS, "bad", nodes=1))
    assert failed.returncode == 1
    assert "its lines stay: trainwright local logs bad; why: trainwright local show bad" in failed.stderr
    lines = ["[rank 0] reading data", "[rank 0] the learning rate is not a number"]
    stopped = shell.local("stop", "bad", seconds=END_SECONDS + 60)
    assert stopped.stderr.startswith("error: TrainJob bad has ended: Failed")

    def looks_the_same() -> None:
        assert shell.local("logs", "bad").stdout.splitlines() == lines
        assert shell.local("logs", "bad", "--attempt=1", "--tail=1").stdout.splitlines() == lines[1:]
        assert "the learning rate is not a number" in shell.local("show", "bad").stdout
        assert shell.local("wait", "bad").returncode == 1

    looks_the_same()
    none = shell.local("logs", "bad", "--attempt=7")
    assert none.returncode == 1
    assert none.stderr.endswith("the record of failures has attempt 1\n")
    assert shell.local("down").returncode == 0
    assert shell.local("up").returncode == 0
    looks_the_same()

    preview = shell.local("clean").stdout
    assert "bad    Failed" in preview
    assert preview.endswith("Nothing is deleted yet. What jobs wrote into outputs and other folders stays.\n")
    assert shell.local("clean", "--keep=1").stdout == "no jobs to delete: none has ended but the last 1\n"
    assert "1 of 1 job deleted" in shell.local("clean", "--yes").stdout
    assert shell.local("logs", "bad").returncode == 1
    assert shell.local("clean").stdout == "no jobs to delete: none has ended\n"


def test_a_job_goes_at_once_where_that_is_asked(shell: Shell) -> None:
    assert shell.local("run", "--rm", "--file", shell.job(FAILS, "bad", nodes=1)).returncode == 1
    assert shell.local("show", "bad").stderr == "error: there is no TrainJob bad in namespace default\n"


def test_commands_without_a_kubeconfig_use_the_local_cluster(shell: Shell) -> None:
    listed = command(shell, "progress")
    assert (listed.returncode, listed.stdout) == (0, "no TrainJobs\n")
    assert listed.stderr == "no kubeconfig is set: using the local cluster default\n"
    # What is set is obeyed, also if it is wrong.
    assert command(shell, "progress", KUBECONFIG="/nowhere").returncode == 2


def test_kubectl_gets_the_local_cluster_and_all_its_arguments(shell: Shell, tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho "$KUBECONFIG"\nfor one in "$@"; do echo "<$one>"; done\nexit 7\n')
    program.chmod(0o755)
    found = command(
        shell, "kubectl", "-n", "x", "exec", "pod", "--", "ls", "-l", "--help", PATH=f"{tmp_path}:/bin:/usr/bin"
    )
    assert found.returncode == 7, found.stderr
    kubeconfig, *given = found.stdout.splitlines()
    assert kubeconfig == str(shell.kubeconfig)
    assert given == ["<-n>", "<x>", "<exec>", "<pod>", "<-->", "<ls>", "<-l>", "<--help>"]
    missing = command(shell, "kubectl", "get", "pods", PATH=str(tmp_path / "none"))
    assert (missing.returncode, missing.stdout) == (127, "")
    assert "kubectl is not installed" in missing.stderr


def test_without_a_cluster_each_command_says_how_to_start_one(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for arguments in (("jobs",), ("stop", "x"), ("wait", "x"), ("logs", "x")):
        done = shell.local(*arguments)
        assert done.returncode == 1
        assert done.stderr == "error: cluster default does not run; start it with: trainwright local up\n"
    done = command(shell, "explain", "x")
    assert done.returncode == 2
    assert done.stderr.endswith("no local cluster runs; start one with: trainwright local up\n")
    assert command(shell, "kubectl", "get", "pods").returncode == 1
