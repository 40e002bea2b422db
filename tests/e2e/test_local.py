# SPDX-License-Identifier: Apache-2.0
"""`trainwright local` as people use it: the command line in, lines and exit codes out."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import kubernetes
import pytest

from tests.e2e.shell import RANK, TRAINWRIGHT, Shell
from tests.processes import alive
from tests.soak import durability
from trainwright.controller.cli import state
from trainwright.controller.cli.versions import public_data
from trainwright.controller.local.node.volumes import temporary_of
from trainwright.controller.runtime.testing.waiting import contains, eventually_sync


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell whose cluster is up, for tests that are not about the life of a cluster."""
    with Shell.with_cluster(tmp_path_factory.mktemp("up")) as made:
        yield made


def test_a_job_runs_and_its_lines_are_shown(shell: Shell) -> None:
    program = f"{RANK}\nprint('rank', rank, 'of', os.environ['DMLC_NUM_WORKER'])"
    done = shell.local("run", "--file", shell.job(program))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert {"[rank 0] rank 0 of 2", "[rank 1] rank 1 of 2", "the job is Complete"} <= set(lines)
    # What the controllers log is in a file.
    assert done.stderr == ""
    assert (shell.cluster / "cluster.log").is_file()


def test_training_reports_its_progress(shell: Shell) -> None:
    """With client code as in the page for users. A proxy of the user is not asked."""
    program = """
import os, ssl, urllib.request
print(os.environ['KUBEFLOW_TRAINER_SERVER_URL'].partition('/apis')[0])
body = b'{"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": "2026-01-02T03:04:05.6+00:00"}}'
token = open(os.environ['KUBEFLOW_TRAINER_SERVER_TOKEN']).read()
request = urllib.request.Request(os.environ['KUBEFLOW_TRAINER_SERVER_URL'], body, {'Authorization': 'Bearer ' + token})
authority = ssl.create_default_context(cafile=os.environ['KUBEFLOW_TRAINER_SERVER_CA_CERT'])
with urllib.request.urlopen(request, timeout=30, context=authority) as answer:
    print(answer.status, answer.read().decode())
"""
    shell.environment["HTTPS_PROXY"] = "http://127.0.0.1:9"
    done = shell.local("run", "--file", shell.job(program, nodes=1))
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"progressPercentage":42' in done.stdout.replace(" ", "")
    port = (shell.cluster / "status-port").read_text()
    assert f"[rank 0] https://127.0.0.1:{port}\n" in done.stdout


@pytest.mark.parametrize("isolation", ["auto", "rewrite"])
def test_ranks_find_each_other_by_the_names_of_the_plugin(shell: Shell, isolation: str) -> None:
    program = f"""
{RANK}
import socket, time
place = (os.environ['DMLC_TRACKER_URI'], int(os.environ['DMLC_TRACKER_PORT']))
if rank == '0':
    server = socket.create_server(('', place[1]))
    connection, _ = server.accept()
    print('heard', connection.recv(100).decode())
else:
    for _ in range(1200):
        try:
            with socket.create_connection(place) as connection:
                connection.sendall(b'rank 1')
            break
        except OSError:
            time.sleep(0.05)
"""
    done = shell.local("run", "--file", shell.job(program), f"--isolation={isolation}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[rank 0] heard rank 1" in done.stdout


def test_the_exit_code_of_the_rank_that_failed_is_that_of_the_command(up: Shell) -> None:
    program = f"{RANK}\nimport time\nif rank == '1': raise SystemExit(3)\ntime.sleep(60)"
    done = up.local("run", "--file", up.job(program), seconds=55)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "error: rank 1 failed with exit code 3" in done.stderr


def test_the_lines_of_a_container_that_fails_at_once_are_shown_once(up: Shell) -> None:
    done = up.local("run", "--file", up.job("print('I fail', flush=True)\nraise SystemExit(4)"))
    assert done.returncode == 4, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "I fail" in line]
    assert lines, done.stdout
    assert len(lines) == len(set(lines)), done.stdout


def test_a_program_that_does_not_exist_is_named(up: Shell) -> None:
    file = Path(up.job("pass"))
    file.write_text(file.read_text().replace("command: [python", "command: [nosuchprogram"))
    done = up.local("run", "--file", str(file))
    assert done.returncode == 128, done.stdout + done.stderr
    assert 'exec: "nosuchprogram": executable file not found' in done.stderr


def test_what_cannot_start_is_told_once_and_ends_in_time(up: Shell) -> None:
    file = Path(up.job("pass"))
    file.write_text(
        file.read_text().replace("numNodes: 2", 'numNodes: 1\n    resourcesPerNode: {requests: {cpu: "1k"}}')
    )
    # A shortage is a cause ten seconds after the pod was turned away, which comes a while after the command began.
    done = up.local("run", "--file", str(file), "--start-timeout=20")
    assert done.returncode == 124, done.stdout + done.stderr
    assert done.stdout.count("Insufficient cpu") == 1
    assert "nothing of the job runs after 20 s: no node has 1000 cpu (the largest has " in done.stderr


@pytest.mark.parametrize("arguments", [["run"], ["run", "--nosuch"]])
def test_wrong_use_ends_the_command_with_its_code(up: Shell, arguments: list[str]) -> None:
    """What else is wrong use, and what is said: tests/unit/cli/test_local_wrong_use.py."""
    done = up.local(*arguments)
    assert done.returncode == 125, done.stderr
    assert "error: " in done.stderr


def test_what_cannot_run_here_is_refused_before_anything_is_created(shell: Shell) -> None:
    file = Path(shell.job("pass"))
    needs = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\n---\n"
    file.write_text(needs + file.read_text().replace("xgboost-distributed", "flux-distributed"))
    assert shell.local("up").returncode == 0
    done = shell.local("run", "--file", str(file))
    assert done.returncode == 125, done.stdout + done.stderr
    assert done.stdout == ""
    assert "runtime flux-distributed cannot run on a local cluster: container flux-installer of node" in done.stderr
    assert not list((shell.cluster / "pods").iterdir())
    assert "work         0 TrainJobs, 0 of 0 pods running" in shell.local("status").stdout


def test_a_job_ends_after_its_timeout(up: Shell) -> None:
    done = up.local("run", "--timeout=1", "--file", up.job("import time; time.sleep(100)"), seconds=90)
    assert done.returncode == 124, done.stdout + done.stderr
    assert "error: the job is not finished after 1 s" in done.stderr


def test_a_cluster_that_belongs_to_a_run_is_not_said_to_be_free(shell: Shell) -> None:
    state.claim(shell.cluster)
    with state.held(shell.cluster):
        run, status = shell.local("run", "--file", shell.job("pass")), shell.local("status")
    assert run.returncode == 125, run.stdout + run.stderr
    assert "or belongs to a `run`; for several jobs at once, start a cluster first with: trainw" in run.stderr
    said = "cluster default: it is starting or ending, or belongs to a `run`\n"
    assert (status.returncode, status.stdout) == (1, said)


def test_a_manifest_brings_what_the_job_needs(up: Shell) -> None:
    file = Path(up.job("import os; print(os.environ['WORD'])"))
    needs = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\ndata: {word: from a file}\n---\n"
    job = file.read_text().replace(
        "numNodes: 2",
        "numNodes: 1\n    env: [{name: WORD, valueFrom: {configMapKeyRef: {name: words, key: word}}}]",
    )
    file.write_text(needs + job)
    done = up.local("run", "--file", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[rank 0] from a file" in done.stdout
    file.write_text(needs.replace("v1", "example.com/v1").replace("ConfigMap", "Widget") + job)
    done = up.local("run", "--file", str(file))
    assert done.returncode == 125, done.stdout + done.stderr
    assert done.stderr == "error: the cluster does not serve Widget of example.com/v1: take it out of the file\n"


@pytest.mark.parametrize(("wrong", "text"), [("numNodes: two", "numNodes"), ("numNode: 2", "unknown field")])
def test_what_admission_refuses_is_said_before_anything_starts(up: Shell, wrong: str, text: str) -> None:
    file = up.folder / "job.yaml"
    file.write_text(Path(up.job("pass")).read_text().replace("numNodes: 2", wrong))
    done = up.local("run", "--file", str(file))
    assert done.returncode == 125, done.stdout + done.stderr
    assert text in done.stderr


def test_a_dry_run_prints_the_job_of_a_script(up: Shell) -> None:
    script = up.folder / "train.py"
    script.write_text("")
    done = up.local(
        "run", "--dry-run", str(script), "a", "--nodes", "3", "--runtime=jax-distributed", "--", "--lr", "1"
    )
    again = up.local("run", "--dry-run", "--nodes=3", "--runtime=jax-distributed", "--", str(script), "a", "--lr", "1")
    assert again.stdout == done.stdout
    assert done.returncode == 0, done.stderr
    for text in ("kind: TrainJob", "name: jax-distributed", "numNodes: 3", "- --lr", f"- {script}"):
        assert text in done.stdout


def test_a_folder_that_cannot_be_written_is_said(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = f"--dir={tmp_path / 'file' / 'folder'}"
    for arguments, code in ((["run", place, "--file", shell.job("pass")], 125), (["up", place], 1)):
        done = shell.local(*arguments)
        assert (done.returncode, done.stderr) == (code, f"error: {tmp_path / 'file' / 'folder'}: Not a directory\n")


def test_a_cluster_without_room_for_its_state_ends_with_a_sentence(shell: Shell) -> None:
    # A limit on the size of files is what a test can have instead of a full disk.
    command = ["sh", "-c", 'ulimit -f 2500; exec "$@"', "sh", *TRAINWRIGHT, "local"]
    for arguments in (["run", "--file", shell.job("import time; time.sleep(100)")], ["up", "--foreground"]):
        # Each begins with nothing: a cluster that was stored already may have nothing more to write.
        environment = {**os.environ, "XDG_STATE_HOME": str(shell.folder / arguments[0])}
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=100
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert re.search(r"error: \S+/state.db cannot be written \(.*\), so the cluster ends", done.stderr), done.stderr
        assert "Traceback" not in done.stderr


def test_ctrl_c_ends_the_job_and_all_of_its_processes(shell: Shell) -> None:
    program = f"{RANK}\nimport time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(120)"
    with shell.start("run", "--file", shell.job(program), "--isolation=rewrite") as running:
        assert running.stdout is not None
        pids = []
        for line in running.stdout:
            if " pid " in line:
                pids.append(int(line.rpartition(" ")[2]))
            if len(pids) == 2:
                break
        assert all(alive(pid) for pid in pids)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=90)
    assert running.returncode == 130, errors
    assert "interrupted" in errors
    assert not any(alive(pid) for pid in pids)


def test_ctrl_c_twice_kills_what_ignores_the_first(shell: Shell) -> None:
    program = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('pid', os.getpid(), flush=True)
time.sleep(120)
"""
    with shell.start("run", "--file", shell.job(program), "--isolation=rewrite") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        pids = [int(next(line for line in running.stdout if " pid " in line).rpartition(" ")[2]) for _ in range(2)]
        running.send_signal(signal.SIGINT)
        assert "once more to kill it" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        # Well below the grace of 30 s.
        _, errors = running.communicate(timeout=20)
    assert running.returncode == 130, errors
    assert errors.splitlines() == ["killing the processes of the job", "interrupted"]
    assert not any(alive(pid) for pid in pids)


def test_the_end_of_a_cluster_waits_for_its_pods_and_ctrl_c_kills_them(shell: Shell) -> None:
    program = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print('asked to end', flush=True))
print('pid', os.getpid(), flush=True)
while True: time.sleep(1)
"""
    assert shell.local("up", "--isolation=rewrite").returncode == 0
    assert shell.local("run", "--detach", "--file", shell.job(program, nodes=1)).returncode == 0
    line = eventually_sync(lambda: shell.local("logs", "job").stdout, contains(" pid "))
    pid = int(line.split(" pid ")[1].split()[0])
    with shell.start("down") as ending:
        assert ending.stderr is not None
        assert ending.stderr.readline() == "waiting for the pods to end with their grace; Ctrl-C kills them\n"
        assert alive(pid)
        ending.send_signal(signal.SIGINT)
        # Well below the grace of 30 s.
        out, errors = ending.communicate(timeout=20)
    assert (ending.returncode, out, errors) == (0, "cluster default: ended\n", "killing the pods\n")
    assert not alive(pid)


def test_a_job_that_is_kept_goes_on(shell: Shell) -> None:
    assert shell.local("up", "--name=b").returncode == 0
    with shell.start("run", "--name=b", "--keep", "--file", shell.job("import time; time.sleep(120)")) as running:
        assert running.stdout is not None
        eventually_sync(lambda: shell.local("status", "--name=b").stdout, contains("2 of 2 pods running"))
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=20)
    assert running.returncode == 130, errors
    assert "the job goes on; follow it with: trainwright local logs --name=b job --follow" in errors
    assert "2 of 2 pods running" in shell.local("status", "--name=b").stdout
    script = shell.folder / "fails.py"
    script.write_text("raise SystemExit(3)\n")
    failed = shell.local("run", "--name=b", str(script))
    assert failed.returncode == 3, failed.stderr
    said = (
        r"its lines stay: trainwright local logs --name=b fails-[a-z0-9]{5}; "
        r"why: trainwright local show --name=b fails-[a-z0-9]{5}"
    )
    assert re.search(said, failed.stderr)
    assert shell.local("down", "--delete", "--name=b").returncode == 0


def public(kubeconfig: Path) -> dict[str, str]:
    """The version that the Kubeflow SDK reads, with the client that it uses."""
    with kubernetes.config.new_client_from_config(str(kubeconfig)) as client:  # type: ignore[no-untyped-call]
        found = kubernetes.client.CoreV1Api(client).read_namespaced_config_map(
            "kubeflow-trainer-public", "kubeflow-system"
        )
    return found.data or {}


def test_a_cluster_stays_until_it_is_ended_and_keeps_its_objects(shell: Shell) -> None:
    assert shell.local("status").returncode == 1
    up = shell.local("up")
    assert up.returncode == 0, up.stdout + up.stderr
    folder = shell.cluster
    assert f"export KUBECONFIG={folder / 'kubeconfig'}" in up.stdout
    assert (folder.stat().st_mode & 0o777, (folder / "kubeconfig").stat().st_mode & 0o777) == (0o700, 0o600)
    assert public(folder / "kubeconfig") == public_data()
    again = shell.local("up")
    assert (again.returncode, "runs already" in again.stdout) == (0, True)
    # Options that this cluster does not have are not dropped in silence.
    other = shell.local("up", "--capacity=cpu=1")
    assert (other.returncode, "runs already, without --capacity=cpu=1; end it" in other.stderr) == (1, True)
    program = f"{RANK}\nprint('rank', rank)"
    refused = shell.local("run", "--isolation=rewrite", "--file", shell.job(program))
    assert (refused.returncode, "without --isolation=rewrite" in refused.stderr) == (125, True)
    kept = shell.local("run", "--keep", "--file", shell.job(program))
    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert "1 TrainJob," in shell.local("status").stdout
    assert "runs at https://127.0.0.1:" in shell.local("list").stdout
    assert sorted(shell.local("logs", "job").stdout.splitlines()) == ["[rank 0] rank 0", "[rank 1] rank 1"]
    assert shell.local("logs", "nobody").returncode == 1
    assert shell.local("down").returncode == 0
    assert shell.local("status").returncode == 1
    assert shell.local("up").returncode == 0
    assert public(folder / "kubeconfig") == public_data()
    assert "1 TrainJob," in shell.local("status").stdout
    assert sorted(shell.local("logs", "job").stdout.splitlines()) == ["[rank 0] rank 0", "[rank 1] rank 1"]


def test_the_printed_kubeconfig_is_a_line_for_a_shell(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "two words")
    up = shell.local("up", "--only=apiserver", "--memory")
    assert up.returncode == 0, up.stderr
    line = next(line for line in up.stdout.splitlines() if line.startswith("export "))
    whole = subprocess.run(["sh", "-c", f'{line}; cat "$KUBECONFIG"'], capture_output=True, text=True, check=True)
    assert "current-context" in whole.stdout
    assert shell.local("down", "--delete").returncode == 0


@pytest.mark.parametrize("command", [["logs", "job", "--follow"], ["run", "--restarts=as-cluster"]])
def test_lines_that_nobody_reads_end_the_command_without_a_traceback(shell: Shell, command: list[str]) -> None:
    program = "import time\nfor number in range(1000): print(number, flush=True); time.sleep(0.1)"
    assert shell.local("up").returncode == 0
    if command[0] == "logs":
        assert shell.local("run", "--detach", "--file", shell.job(program)).returncode == 0
    else:
        command = [*command, "--file", shell.job(program)]
    with shell.start(*command) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        next(line for line in running.stdout if line.startswith("[rank "))
        running.stdout.close()
        assert running.wait(timeout=60) == 141
        assert "Traceback" not in running.stderr.read()
    # A job whose `run` ended is stopped and kept; one whose lines were only looked at goes on.
    if command[0] == "run":
        # The command waits for the ends of the pods, and they are deleted a moment later.
        eventually_sync(lambda: shell.local("status").stdout, contains("1 TrainJob, 0 of 0 pods running"))
    else:
        assert "1 TrainJob, 0 of 0 pods running" not in shell.local("status").stdout


def test_ctrl_c_ends_the_following_of_a_job_and_not_the_job(shell: Shell) -> None:
    assert shell.local("up").returncode == 0
    program = "import time\nprint('up', flush=True)\ntime.sleep(120)"
    assert shell.local("run", "--detach", "--file", shell.job(program)).returncode == 0
    with shell.start("logs", "job", "--follow") as running:
        assert running.stdout is not None
        assert "up" in running.stdout.readline()
        # The line is of one of both.
        eventually_sync(lambda: shell.local("status").stdout, contains("2 of 2 pods running"))
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=20)
    assert (running.returncode, errors) == (130, "")
    assert "2 of 2 pods running" in shell.local("status").stdout


def test_a_cluster_that_is_killed_ends_the_run_with_a_sentence(shell: Shell) -> None:
    assert shell.local("up").returncode == 0
    with shell.start("run", "--file", shell.job("import time\nprint('up', flush=True)\ntime.sleep(120)")) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "up" in line)
        cluster = re.search(r"process (\d+)", shell.local("status").stdout)
        assert cluster is not None
        os.kill(int(cluster[1]), signal.SIGKILL)
        _, errors = running.communicate(timeout=60)
    said = "error: cluster default has ended, and its pods with it; start it with: trainwright local up\n"
    assert (running.returncode, errors) == (1, said)
    left = [temporary_of(pod.name) for pod in shell.folder.glob("trainwright/local/default/pods/*")]
    assert [folder for folder in left if folder.exists()]
    assert shell.local("down", "--delete").returncode == 0
    assert [folder for folder in left if folder.exists()] == []


def test_a_cluster_that_is_started_twice_at_once_is_one(shell: Shell) -> None:
    with shell.start("up") as one, shell.start("up") as two:
        said = [process.communicate(timeout=100) for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), said
    servers = {re.search(r"https://\S+", out).group() for out, _ in said}  # type: ignore[union-attr]
    assert len(servers) == 1


def test_a_port_that_is_taken_is_said(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = shell.local("up", f"--port={port}")
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use\n" in done.stderr


def test_a_killed_cluster_has_lost_nothing_that_was_answered() -> None:
    assert durability.soak(3) == []
