# SPDX-License-Identifier: Apache-2.0
"""Which rank of those that stand still is elsewhere, by the stacks that they have printed."""

import subprocess
import sys

import pytest

from trainwright.controller.trainer.failures.last_words import whereabouts

COLLECTIVE = (
    '  File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 1541 in all_reduce\n'
    '  File "/code/train.py", line 57 in step\n  File "/code/train.py", line 80 in <module>\n'
)
AWAY = '  File "/code/train.py", line 42 in load_batch\n  File "/code/train.py", line 80 in <module>\n'
OTHER = (
    'Thread 0x00007fbee04a56c0 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 1 in run\n\n'
)
AT_57, AT_42 = 'File "/code/train.py", line 57, in step', 'File "/code/train.py", line 42, in load_batch'


def stack(frames: str) -> str:
    return f"step 3\n{OTHER}Current thread 0x00007fbee0ffcb80 (most recent call first):\n{frames}"


def recv(line: int) -> str:
    return f'  File "/code/train.py", line {line} in exchange\n  File "/code/train.py", line 80 in <module>\n'


@pytest.mark.parametrize(
    ("logs", "told"),
    [
        ([], ""),
        (["step 3", "step 3"], ""),
        ([COLLECTIVE, AWAY], f"rank 1 was elsewhere: {AT_42}; the others waited at {AT_57}"),
        ([AWAY, COLLECTIVE], f"rank 0 was elsewhere: {AT_42}; the others waited at {AT_57}"),
        # One that is frozen prints nothing.
        (["step 3", COLLECTIVE], f"rank 1 stood at {AT_57}"),
        ([COLLECTIVE, COLLECTIVE], f"all 2 that printed a stack stood at {AT_57}"),
        # No library says what all do together: most of them do it.
        (
            [recv(57), recv(57), recv(42), recv(57)],
            (
                'rank 2 was elsewhere: File "/code/train.py", line 42, in exchange; '
                'the others waited at File "/code/train.py", line 57, in exchange'
            ),
        ),
        (
            [recv(57), recv(42)],
            (
                'rank 0 stood at File "/code/train.py", line 57, in exchange, '
                'rank 1 stood at File "/code/train.py", line 42, in exchange'
            ),
        ),
        ([COLLECTIVE, AWAY, AWAY], f"rank 1 was elsewhere, like 1 more: {AT_42}; the others waited at {AT_57}"),
        # All are in the same call of a library, at different lines of the user.
        (
            [COLLECTIVE, COLLECTIVE, COLLECTIVE.replace("57", "61")],
            f"rank 2 was elsewhere: {AT_57.replace('57', '61')}; the others waited at {AT_57}",
        ),
    ],
)
def test_who_is_elsewhere(logs: list[str], told: str) -> None:
    found = {f"rank {n}": stack(log) if log.startswith(" ") else log for n, log in enumerate(logs)}
    assert whereabouts(found) == told


def test_several_processes_of_a_node_are_told_as_its_own() -> None:
    logs = {"node 0": stack(COLLECTIVE) + stack(COLLECTIVE), "node 1": stack(COLLECTIVE) + stack(AWAY)}
    assert whereabouts(logs) == f"node 1 was elsewhere: {AT_42}; the others waited at {AT_57}"


def test_what_python_prints_is_read() -> None:
    program = (
        "import faulthandler, signal, os\nfaulthandler.register(signal.SIGTERM, chain=True)\n"
        "def load():\n    os.kill(os.getpid(), signal.SIGTERM)\nload()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert whereabouts({"rank 3": done.stderr}) == 'rank 3 stood at File "<string>", line 4, in load'
