# SPDX-License-Identifier: Apache-2.0
"""Which line of a log says most of a failure, and whose failure it tells of."""

import pytest

from trainwright.controller.trainer.failures.last_words import (
    ended_below,
    is_consequence,
    is_victim,
    program_ended,
    telling_line,
)

TRACE = """\
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/usr/lib/python3/site-packages/torch/distributed/launcher/api.py", line 264, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
RULER = "=" * 60


def summary(
    rank: int, code: int, trace: str = "To enable traceback see: https://pytorch.org/docs", first: str = ""
) -> str:
    return f"""\
{TRACE}{RULER}
train.py FAILED
{"-" * 60}
Failures:
{first or "  <NO_OTHER_FAILURES>"}
{"-" * 60}
Root Cause (first observed failure):
[0]:
  time      : 2026-01-15_05:44:28
  host      : h
  rank      : {rank} (local_rank: 0)
  exitcode  : {code} (pid: 6174)
  error_file: <N/A>
  traceback : {trace}
{RULER}
"""


OTHER = "[1]:\n  rank      : 7 (local_rank: 3)\n  exitcode  : -15 (pid: 1)\n  traceback : Signal 15 (SIGTERM)"
AGENT = (
    "W1125 04:30:00 1 torch/distributed/elastic/multiprocessing/api.py:9] Sending process 13 closing signal SIGTERM\n"
    "E1125 04:30:00 1 torch/distributed/elastic/multiprocessing/api.py:9] failed (exitcode: 1) local_rank: 0 (pid: 9)\n"
)
OLD_AGENT = (
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 9) of binary: /p\n"
)


def said(log: str) -> str:
    return telling_line(log.split("\n"))


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", ""),
        ("step 1\nValueError: no data\n", "ValueError: no data"),
        ("ValueError: no data\n=====\n-----\n*****\n#####\n─────\n ~~~ \n", "ValueError: no data"),
        ("ValueError: no data\n\x00\x00\x00\n\x1b[0m\n", "ValueError: no data"),
        ("ValueError: no data\n\ufffd\ufffd\n", "ValueError: no data"),
        ("\x1b[31mValueError\x1b[0m: no data\x00", "ValueError: no data"),
        ("epoch 1: 10%\repoch 1: 20%\r", "epoch 1: 20%"),
        # What a kubelet answers in place of a log.
        ("unable to retrieve container logs for containerd://43b90bd87", ""),
        ("ValueError: no data\nunable to retrieve container logs for docker://43b", "ValueError: no data"),
        ('failed to try resolving symlinks in path "/var/log/pods/n/c/0.log": lstat /var: no such file', ""),
        ('failed to open log file "/var/log/pods/n/c/0.log": open /var: no such file or directory', ""),
        ('previous terminated container "node" in pod "j-node-0-0" not found', ""),
        ('container "node" in pod "j-node-0-0" is waiting to start: ContainerCreating', ""),
        ("unable to retrieve container logs for x\nit goes on", "it goes on"),
    ],
)
def test_the_line_that_says_most(log: str, told: str) -> None:
    assert said(log) == told


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (f"ValueError: bad shape\n{AGENT}{summary(3, 1)}", "ValueError: bad shape (torchrun: rank 3, exit code 1)"),
        (f"ValueError: bad shape\n{OLD_AGENT}{summary(3, 1)}", "ValueError: bad shape (torchrun: rank 3, exit code 1)"),
        (f"ValueError: bad shape\n{summary(3, 1)}", "ValueError: bad shape (torchrun: rank 3, exit code 1)"),
        (
            f"[rank3]: ValueError: bad shape\n[rank2]: it waits\n{AGENT}{summary(3, 1)}",
            "ValueError: bad shape (torchrun: rank 3, exit code 1)",
        ),
        (
            summary(0, 1, "Traceback (most recent call last):\n    File x\n  ValueError: bad shape"),
            "ValueError: bad shape (torchrun: rank 0, exit code 1)",
        ),
        (
            f"step 5\n{AGENT}{summary(1, -9, 'Signal 9 (SIGKILL) received by PID 6174', OTHER)}",
            "torchrun: rank 1, exit code -9, signal 9 (SIGKILL)",
        ),
        (summary(2, 42), "torchrun: rank 2, exit code 42"),
        (f"lost\n{AGENT}again\nKeyError: 'x'\n{AGENT}{summary(0, 1)}", "KeyError: 'x' (torchrun: rank 0, exit code 1)"),
        # A log that was cut within the summary still has its last line.
        (f"  exitcode  : 1 (pid: 6174)\n{RULER}\n", "exitcode  : 1 (pid: 6174)"),
    ],
)
def test_torchrun_sums_up_what_its_processes_did(log: str, told: str) -> None:
    assert said(log) == told


@pytest.mark.parametrize(
    ("line", "elsewhere"),
    [
        ("ConnectionResetError: [Errno 104] Connection reset by peer", True),
        ("RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:1723", True),
        ("BrokenPipeError: [Errno 32] Broken pipe", True),
        ("torch.distributed.DistBackendError: NCCL error, remote process exited or there was a network error", True),
        (
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            True,
        ),
        ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15", True),
        ("ORTE has lost communication with a remote daemon.", True),
        ("ConnectionError: rank 1: connection closed by peer (torchrun: rank 0, exit code 1)", True),
        ("ValueError: bad shape", False),
        ("torchrun: rank 1, exit code -9, signal 9 (SIGKILL)", False),
        ("torch.OutOfMemoryError: CUDA out of memory", False),
        ("", False),
    ],
)
def test_words_of_a_rank_that_lost_another(line: str, elsewhere: bool) -> None:
    assert is_consequence(line) is elsewhere


TRACEBACK = "Traceback (most recent call last):\n"
TORCHRUN_WAS_STOPPED = """step 3
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15
"""


@pytest.mark.parametrize(
    ("log", "code", "victim"),
    [
        (TORCHRUN_WAS_STOPPED, 1, True),
        ("step 3\n", 143, True),
        ("SystemExit\n", 1, True),
        # It waited for the other nodes when it was stopped; its process had failed before.
        (f"step 3\n{OLD_AGENT.replace(': 1)', ': -9)')}{TORCHRUN_WAS_STOPPED}", 1, False),
        (f"ValueError: bad shape\n{OLD_AGENT}{TORCHRUN_WAS_STOPPED}", 1, False),
        (f"RuntimeError: Connection reset by peer\n{OLD_AGENT}{TORCHRUN_WAS_STOPPED}", 1, True),
        (f"step 3\n{OLD_AGENT.replace(': 1)', ': -15)')}{TORCHRUN_WAS_STOPPED}", 1, True),
        (f'{TRACEBACK}  File "x.py", line 1, in <module>\nValueError: bad shape\n', 1, False),
    ],
)
def test_who_was_stopped_is_a_victim_unless_its_process_had_failed_before(log: str, code: int, victim: bool) -> None:
    assert is_victim(log.split("\n"), code, stopped=True) is victim


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("step 3\n", ""),
        (f"step 3\n{OLD_AGENT.replace(': 1)', ': -9)')}", "torchrun: local rank 0, exit code -9, signal 9"),
        (f"ValueError: bad shape\n{AGENT}", "ValueError: bad shape (torchrun: local rank 0, exit code 1)"),
        # It has started the process again.
        (f"ValueError: bad shape\n{AGENT}step 4\n", ""),
        ("", ""),
    ],
)
def test_torchrun_that_waits_for_others_has_said_that_its_process_ended(log: str, told: str) -> None:
    assert ended_below(log.split("\n")) == told


GLOO = "RuntimeError: [./gloo/transport/tcp/pair.cc:589] Read error [127.0.0.1]:53907: Connection reset by peer"
FRAME = '  File "/code/train.py", line 27, in <module>\n'


def failures(root: tuple[int, int, str], *others: tuple[int, int, str]) -> str:
    """The summary of torchrun for processes of one node: rank, exit code and traceback of each."""
    blocks = [
        f"[{n}]:\n  time      : 2026-01-15_05:44:28\n  host      : h\n  rank      : {rank} (local_rank: {n})\n"
        f"  exitcode  : {code} (pid: 617{n})\n  error_file: <N/A>\n  traceback : {trace}\n"
        for n, (rank, code, trace) in enumerate((root, *others))
    ]
    return f"{TRACE}Failures:\n{''.join(blocks[1:])}{RULER}\nRoot Cause (first observed failure):\n{blocks[0]}{RULER}\n"


NONE, KILLED = "To enable traceback see: https://pytorch.org", "Signal 9 (SIGKILL) received by PID 6175"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        # Both have ended within one look of torchrun, which calls the first one of them the root cause.
        (
            f"{TRACEBACK}{FRAME}{GLOO}\n{OLD_AGENT}{failures((0, 1, NONE), (1, -9, KILLED))}",
            "torchrun: rank 1, exit code -9, signal 9 (SIGKILL)",
        ),
        (
            f"{TRACEBACK}{FRAME}{GLOO}\n{OLD_AGENT}{failures((2, 1, NONE), (3, 42, NONE))}",
            "torchrun: rank 3, exit code 42",
        ),
        (
            (
                f"[rank1]: {TRACEBACK}[rank1]:   File x\n[rank1]: ValueError: bad shape\n"
                f"[rank0]: {TRACEBACK}[rank0]:   File x\n[rank0]: {GLOO}\n{AGENT}{failures((0, 1, NONE), (1, 1, NONE))}"
            ),
            "ValueError: bad shape (torchrun: rank 1, exit code 1)",
        ),
        (
            failures((0, 1, f"{TRACEBACK}    File x\n  {GLOO}"), (1, 1, f"{TRACEBACK}    File x\n  KeyError: 'x'")),
            "KeyError: 'x' (torchrun: rank 1, exit code 1)",
        ),
        # The other one has lost it, and has written more before it was stopped.
        (
            f"{TRACEBACK}{FRAME}ValueError: bad shape\n{TRACEBACK}{FRAME}{GLOO}\n{AGENT}{failures((0, 1, NONE))}",
            "ValueError: bad shape (torchrun: rank 0, exit code 1)",
        ),
        # What was caught before says nothing of the end.
        (
            f"{TRACEBACK}{FRAME}KeyError: 'x'\nstep 3\n{TRACEBACK}{FRAME}{GLOO}\n{OLD_AGENT}{failures((0, 1, NONE))}",
            f"{GLOO} (torchrun: rank 0, exit code 1)",
        ),
        # No line says whose it is.
        (
            (
                f"{TRACEBACK}{FRAME}ValueError: bad shape\n{TRACEBACK}{FRAME}{GLOO}\n"
                f"{OLD_AGENT}{failures((0, 1, NONE), (1, 1, NONE))}"
            ),
            "ValueError: bad shape (torchrun: one of ranks 0, 1, exit code 1)",
        ),
        (f"{TRACEBACK}{FRAME}{GLOO}\n{OLD_AGENT}{failures((0, 1, NONE))}", f"{GLOO} (torchrun: rank 0, exit code 1)"),
        (
            "mpirun noticed that process rank 1 with PID 12 on node n exited on signal 9 (Killed).\n",
            "mpirun: rank 1, exit code -9, signal 9",
        ),
        (
            f"{TRACEBACK}{FRAME}ValueError: bad shape\n{RULER}\nprterun detected that one or more processes exited "
            "with non-zero status,\nthus causing the job to be terminated. The first process to do so was:\n\n"
            "   Process name: [prterun-h-21@1,3]\n   Exit code:    1\n" + RULER,
            "ValueError: bad shape (mpirun: rank 3, exit code 1)",
        ),
        (
            "The first process to do so was:\n\n  Process name: [[21210,1],2]\n  Exit code:    42\n",
            "mpirun: rank 2, exit code 42",
        ),
        (
            (
                "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 1 PID 7 RUNNING AT h\n"
                "=   KILLED BY SIGNAL: 9 (Killed)\n"
            ),
            "mpirun: rank 1, exit code -9, signal 9",
        ),
        (
            (
                f'{TRACEBACK}{FRAME}ValueError: bad shape\n{TRACEBACK}  File "/bin/accelerate", line 8, in <module>\n'
                "subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 1.\n"
            ),
            "ValueError: bad shape (accelerate: exit code 1)",
        ),
        (
            "subprocess.CalledProcessError: Command '['python', 'x.py']' died with <Signals.SIGKILL: 9>.\n",
            "accelerate: exit code -9, signal 9",
        ),
    ],
)
def test_of_several_processes_the_launcher_knows_the_one_that_failed_by_itself(log: str, told: str) -> None:
    assert said(log) == told


@pytest.mark.parametrize(
    ("log", "finished", "ended"),
    [
        (summary(1, -9), "2026-01-15T05:45:29Z", "2026-01-15T05:44:28Z"),
        (summary(1, -9), "2026-01-15T05:45:29.123456Z", "2026-01-15T05:44:28Z"),
        # The clock of the container has another zone.
        (summary(1, -9), "2026-01-15T06:45:29Z", "2026-01-15T06:45:29Z"),
        (summary(1, -9), "2026-01-15T04:45:29Z", "2026-01-15T04:45:29Z"),
        (summary(1, -9).replace("2026-01-15_05", "2026-13-45_99"), "2026-01-15T05:45:29Z", "2026-01-15T05:45:29Z"),
        (summary(1, -9), "", ""),
        ("ValueError: no data", "2026-01-15T05:45:29Z", "2026-01-15T05:45:29Z"),
        ("time : 2026-01-15_05:44:28", "2026-01-15T05:45:29Z", "2026-01-15T05:45:29Z"),
    ],
)
def test_when_the_process_of_torchrun_ended(log: str, finished: str, ended: str) -> None:
    assert program_ended(log.split("\n"), finished) == ended


CRASH = """\
Traceback (most recent call last):
  File "/app/train.py", line 3, in <module>
    raise ValueError("the data is bad")
ValueError: the data is bad
"""
ASSERT = """\
Traceback (most recent call last):
  File "/app/train.py", line 9, in <module>
    loss.backward()
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call.
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

"""
NCCL = "[rank0]:[W1126 20:24:14 ProcessGroupNCCL.cpp:1168] Warning: process group has NOT been destroyed\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("one\n" + CRASH, "ValueError: the data is bad"),
        (CRASH + "epoch 1\nepoch 2\n", "ValueError: the data is bad"),
        ("".join(f"[rank3]: {line}\n" for line in CRASH.splitlines()) + NCCL, "ValueError: the data is bad"),
        (ASSERT, "RuntimeError: CUDA error: device-side assert triggered"),
        (CRASH.replace("ValueError: the data is bad", "app.errors.Empty"), "app.errors.Empty"),
        (
            CRASH + "\nDuring handling of the above exception, another exception occurred:\n\n" + ASSERT,
            "RuntimeError: ",
        ),
        ("caught:\n" + CRASH + "step\n" * 2000 + "no space left\n", "no space left"),
        (CRASH[: CRASH.rindex("ValueError")], 'raise ValueError("the data is bad")'),
        (CRASH.replace("\nValueError: the data is bad", "\nstep 4\nValueError: x"), "ValueError: x"),
    ],
    ids=[
        "at the end",
        "output that was held until the end",
        "a warning of a library",
        "a message of several lines",
        "without a message",
        "the last one of a chain",
        "caught long before",
        "cut off",
        "torn apart",
    ],
)
def test_the_exception_that_ended_python_goes_before_what_follows_it(log: str, told: str) -> None:
    assert telling_line(log.split("\n"), 1).startswith(told)


def test_an_exception_did_not_end_a_program_that_was_killed() -> None:
    assert telling_line((CRASH + "step 4\n").split("\n"), 137) == "step 4"
