# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of processes that it killed for lack of memory."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainwright.controller.local.node import logs
from trainwright.controller.local.node.process import ends
from trainwright.controller.local.node.process.supervision import Exit

LOG = """6,1,49000000,-;Out of memory: Killed process 45 (python3) total-vm:1kB
6,1,59000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=41,uid=0
3,2,59000000,-;Memory cgroup out of memory: Killed process 41 (python) total-vm:1kB, anon-rss:1kB
3,3,60000000,-;Out of memory: Killed process 42 (python3) total-vm:1kB
6,4,61000000,-;Out of memory (oom_kill_allocating_task): Killed process 43 (python3) total-vm:1kB
6,5,62000000,-;somebody wrote: Killed process 44 (python3)
"""


@pytest.mark.parametrize(
    ("pid", "is_named"), [(41, True), (42, True), (43, True), (44, False), (45, False), (4, False), (0, False)]
)
def test_the_log_of_the_kernel_names_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int, is_named: bool
) -> None:
    monkeypatch.setattr(ends, "has_own_numbers", lambda: True)
    log = tmp_path / "kmsg"
    log.write_text(LOG)
    assert ends.killed(pid, 60.0, log) is is_named
    assert not ends.killed(41, 60.0, tmp_path / "forbidden")


def test_numbers_of_a_container_are_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "has_own_numbers", lambda: False)
    (tmp_path / "kmsg").write_text(LOG)
    assert not ends.killed(41, 60.0, tmp_path / "kmsg")


@pytest.mark.parametrize(
    ("own", "file", "text", "wanted"),
    [
        ("0::/a/b\n", "a/b/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n", 2),
        ("0::/outside\n", "memory.events", "oom_kill 1\n", 1),
        ("4:memory:/a\n0::/\n", "memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5),
        ("0::/a\n", "other", "", 0),
        ("nonsense\n", "other", "", 0),
    ],
)
def test_the_control_group_counts(tmp_path: Path, own: str, file: str, text: str, wanted: int) -> None:
    (tmp_path / "own").write_text(own)
    place = tmp_path / "groups" / file
    place.parent.mkdir(parents=True)
    place.write_text(text)
    assert ends.count(tmp_path / "groups", tmp_path / "own") == wanted


def test_no_more_is_said_than_the_kernel_says() -> None:
    now = datetime(2026, 11, 25, tzinfo=UTC)
    assert logs.of_kernel(Exit(137, now)) == ""
    assert logs.of_kernel(Exit(137, now, out_of_memory=True)) == "the kernel killed it for lack of memory"
    told = logs.of_kernel(Exit(137, now, killed_nearby=2))
    assert told == "the kernel killed 2 processes of this cluster for lack of memory meanwhile, and does not say which"
