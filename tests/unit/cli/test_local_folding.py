# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows of the lines of torchrun."""

import pytest

from trainwright.controller.cli.local.folding import Folding

AGENT = (
    "W1129 04:30:00.1 9 site-packages/torch/distributed/elastic/multiprocessing/api.py:1010] Sending process 13",
    "E1129 04:30:00.2 9 site-packages/torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: -9)",
)
SUMMARY = """
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
    ^^^^^^^^^^^^^^^^
  File "/usr/lib/python3/site-packages/torch/distributed/launcher/api.py", line 264, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
==================================================
train.py FAILED
--------------------------------------------------
Root Cause (first observed failure):
[0]:
  exitcode  : -9 (pid: 6174)
==================================================
""".strip().splitlines()
CHAIN = """
Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 1, in get
    return self._store.get(key)
torch.distributed.DistNetworkError: failed to recv, got 0 bytes

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/usr/lib/python3/site-packages/torch/distributed/run.py", line 905, in <module>
    main()
torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.
""".strip().splitlines()
OWN = [
    "step 1",
    "Traceback (most recent call last):",
    '  File "/home/me/train.py", line 3, in <module>',
    "ValueError: no",
]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (OWN, OWN),
        ([*OWN, *AGENT, *SUMMARY], [*OWN, f"({2 + len(SUMMARY)} lines of torchrun: how)"]),
        (
            [*OWN, *CHAIN, "step 2"],
            [*OWN, f"({len(CHAIN)} lines of torchrun, which end with {CHAIN[-1]}: how)", "step 2"],
        ),
        ([AGENT[0], "step 2", AGENT[1]], ["(1 line of torchrun: how)", "step 2", "(1 line of torchrun: how)"]),
        ([*CHAIN, *OWN], [f"({len(CHAIN)} lines of torchrun, which end with {CHAIN[-1]}: how)", *OWN]),
        ([*CHAIN[:4], "", "step 2"], [f"(5 lines of torchrun, which end with {CHAIN[3]}: how)", "step 2"]),
        ([OWN[1], CHAIN[8], "    source", *OWN[2:]], [OWN[1], CHAIN[8], "    source", *OWN[2:]]),
        (SUMMARY[:-3], [f"({len(SUMMARY) - 3} lines of torchrun: how)"]),
        (["step 1", "", OWN[1]], ["step 1", "", OWN[1]]),
        ([OWN[1], OWN[1], *OWN[2:]], [OWN[1], *OWN[1:]]),
    ],
)
def test_the_part_of_the_training_is_shown_and_that_of_torchrun_is_one_line(lines: list[str], shown: list[str]) -> None:
    folding = Folding("how")
    assert [*(one for line in lines for one in folding.take(line)), *folding.end()] == shown
