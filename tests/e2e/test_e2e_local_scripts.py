# SPDX-License-Identifier: Apache-2.0
"""Scripts of a user on a local cluster: in the user's folder, with the user's Python, and what they leave stays."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import TRAINWRIGHT, Shell
from trainwright.controller.runtime.testing.waiting import contains, eventually_sync

RUN = ("run", "--runtime=xgboost-distributed")
SAVES = """
import os
rank = os.environ["DMLC_TASK_ID"]
with open(os.path.join(os.environ["TRAINWRIGHT_OUTPUT_DIR"], f"model-{rank}"), "x") as file:
    file.write("weights")
print("beside me:", __import__("beside").WORD, "in", os.getcwd())
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell with a cluster that runs."""
    folder = tmp_path_factory.mktemp("scripts")
    with Shell.with_cluster(folder, XDG_CACHE_HOME=str(folder / "cache")) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of the user with a script and what it imports."""
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "save.py").write_text(SAVES)
    (folder / "beside.py").write_text("WORD = 'found'\n")
    (folder / "pkg" / "__init__.py").touch()
    (folder / "pkg" / "main.py").write_text(f"{SAVES}\nimport pkg, sys\nprint(sys.argv[1:])\n")
    return folder


def output_of(done: subprocess.CompletedProcess[str]) -> Path:
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^output: (\S+)$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return Path(found[1])


def test_what_a_script_makes_stays_and_a_second_run_replaces_nothing(shell: Shell, project: Path) -> None:
    script = str(project / "save.py")
    outputs = []
    for _ in range(2):
        done = shell.local(*RUN, "--keep", script, "--nodes=2", f"--workdir={project}")
        outputs.append(output_of(done))
        assert "  model-0        7 B\n  model-1        7 B\n" in done.stdout
        assert f"[rank 1] beside me: found in {project}\n" in done.stdout
    assert len(set(outputs)) == 2
    first, second = (path.name.rpartition("-")[0] for path in outputs)
    runs = shell.folder / "trainwright" / "runs"
    assert [path.parent for path in outputs] == [runs, runs]
    assert (runs / "latest").resolve() == outputs[1]
    # The jobs are found without their whole names.
    for name in ("latest", "save"):
        logs = shell.local("logs", name, "--rank=0")
        assert logs.stdout == f"[rank 0] beside me: found in {project}\n"
        assert logs.stderr == f"{name} is TrainJob {second}\n"
    assert f"output   {outputs[1]}" in shell.local("show", "latest").stdout
    refused = shell.local("delete", "save")
    assert refused.returncode == 1
    assert re.search(rf"save may be any of ({second}, {first}|{first}, {second}): name one", refused.stderr)
    assert shell.local("delete", "--all").returncode == 0
    assert shell.local("down").returncode == 0
    assert shell.local("up").returncode == 0
    assert [sorted(path.name for path in one.glob("model-*")) for one in outputs] == [["model-0", "model-1"]] * 2


def test_only_a_job_that_has_ended_is_replaced_by_name(shell: Shell, project: Path) -> None:
    (project / "wait.py").write_text("import time\ntime.sleep(600)\n")
    named = (*RUN, "--job-name=mine")
    output = str(project / "out")
    assert output_of(shell.local(*named, "--keep", str(project / "save.py"), f"--output={output}")) == Path(output)
    (project / "more.py").write_text(SAVES.replace("model-", "more-"))
    # A job of another name has no business in the output; one of the same name goes on in it.
    refused = shell.local(*RUN, str(project / "more.py"), f"--output={output}")
    assert refused.returncode == 125
    assert "is the output of TrainJob mine and holds model-0; name another folder" in refused.stderr
    # A mistake in the new job does not cost the old one.
    wrong = shell.local(*named, str(project / "more.py"), "--env=DMLC_TASK_ID=1")
    assert wrong.returncode == 125
    assert shell.local("show", "mine").returncode == 0
    again = shell.local(*named, str(project / "more.py"), f"--output={output}")
    said = "which has ended, is replaced, with its lines and curves; its output stays"
    assert f"| TrainJob mine, {said}\n" in again.stdout
    assert "  more-0        7 B\n" in again.stdout
    assert "model-0" not in again.stdout
    assert (Path(output) / "model-0").read_text() == "weights"
    assert shell.local(*named, "--detach", str(project / "wait.py")).returncode == 0
    running = shell.local(*named, str(project / "save.py"))
    assert running.returncode == 125
    assert "TrainJob mine runs already" in running.stderr
    assert shell.local("delete", "mine", seconds=120).returncode == 0


def test_pods_with_folders_of_their_own_keep_them(shell: Shell, project: Path) -> None:
    (project / "write.py").write_text("open('here', 'w').write('x')\n")
    done = shell.local(*RUN, "--nodes=2", "--workdir=pod", str(project / "write.py"))
    folder = output_of(done)
    own = [Path(line.partition(": ")[2]) for line in done.stdout.splitlines() if line.startswith("working folder: ")]
    assert len(own) == 2
    assert all(one.parent == folder / "pods" and (one / "here").read_text() == "x" for one in own)


def test_a_module_is_run_as_python_does(shell: Shell, project: Path, tmp_path: Path) -> None:
    for where in ((), (f"--workdir={tmp_path}",), ("--workdir=pod",)):
        done = subprocess.run(
            [*TRAINWRIGHT, "local", *RUN, "--nodes=2", *where, "-m", "pkg.main", "--", "--lr", "$(HOME)"],
            cwd=project,
            env={**os.environ, "XDG_STATE_HOME": str(shell.folder), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "[rank 1] ['--lr', '$(HOME)']\n" in done.stdout
        assert "[rank 0] beside me: found in " in done.stdout


def test_a_change_of_the_environment_needs_no_restart_of_the_cluster(shell: Shell, project: Path) -> None:
    (project / "which.py").write_text(
        "import os, sys, trainwright.progress\nprint('prefix', sys.prefix, os.environ.get('WORD'))\n"
        "with trainwright.progress.Reporter(total=1, every=0) as progress: progress.update(step=1, loss=0.5)\n"
    )
    venv = project / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    script = str(project / "which.py")
    ours = shell.local(*RUN, script, "--env=WORD=one")
    assert f"[rank 0] prefix {sys.prefix} one\n" in ours.stdout, ours.stderr
    asked = shell.local(*RUN, "--keep", "--job-name=reports", script, f"--python={venv}", "--env=WORD=$(two)")
    assert f"of {venv}\n" in asked.stdout
    assert f"[rank 0] prefix {venv} $(two)\n" in asked.stdout, asked.stderr
    # The writer of that environment reports to the cluster, which may write it down after the end of the job.
    eventually_sync(lambda: shell.local("jobs").stdout, contains("100%"))
    (project / ".env").write_text("WORD='of a file'\n")
    shell.environment["VIRTUAL_ENV"] = str(venv)
    shell.environment["PATH"] = os.pathsep.join([str(venv / "bin"), os.environ["PATH"]])
    found = shell.local(*RUN, script, f"--env-file={project / '.env'}")
    assert f"| Python of {venv}, the active virtual environment\n" in found.stdout
    assert f"[rank 0] prefix {venv} of a file\n" in found.stdout, found.stderr
    # With what a dry run prints, the same runs again.
    manifest = project / "job.yaml"
    manifest.write_text(shell.local(*RUN, "--dry-run", script, "--env=WORD=again").stdout)
    again = shell.local("run", f"--file={manifest}")
    assert f"[rank 0] prefix {venv} again\n" in again.stdout, again.stderr
    assert shell.local("delete", "reports").returncode == 0
