# SPDX-License-Identifier: Apache-2.0
"""Lists say why a job failed, from the record of failures."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from tests.builders import condition, train_job
from trainwright.api.manifest import dump
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.local import local_jobs
from trainwright.controller.dashboard.details import row_of
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import Forbidden, NotFound, TransportError
from trainwright.controller.views.ended import AT_ONCE, Ended, brief_of
from trainwright.controller.views.job import History, view_of
from trainwright.controller.views.parameters import options_of

NOW = datetime(2026, 11, 25, 14, 0, tzinfo=UTC)
GENERAL = "jobset failed due to one or more job failures (first failed job: j-node-0)"


def job(name: str = "j", *, failed: bool = True, ago: float = 300) -> TrainJob:
    time = NOW - timedelta(seconds=ago)
    end = condition("Failed" if failed else "Complete", reason="FailedJobs", message=GENERAL, at=time)
    return train_job(name, uid=f"uid-{name}", created=time, conditions=[end])


def record(name: str = "j", *, owner: str = "") -> Document:
    entry = {"attempt": 1, "pod": "j-node-0-1-x", "replicatedJob": "node", "rank": 1, "container": "node"}
    entry |= {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-25T13:55:00Z"}
    owners = [{"uid": owner or f"uid-{name}", "controller": True}]
    return {
        "metadata": {"name": f"{name}-failures", "namespace": "n", "ownerReferences": owners},
        "data": {"attempt-1": dump(entry), "attempt-1.log": "step 7\nValueError: bad shape\n"},
    }


class Records:
    """An API server with records, or an error in place of each."""

    def __init__(self, found: Document | Exception) -> None:
        self.found, self.asked, self.reading, self.most = found, list[str](), 0, 0

    async def get(self, _: Any, name: str, namespace: str) -> Document:
        assert namespace == "n"
        self.asked.append(name)
        self.reading += 1
        self.most = max(self.most, self.reading)
        self.reading -= 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def ended(records: Records) -> Ended:
    return Ended(cast("Client", records), now=lambda: NOW)


async def test_lists_have_the_sentence_of_explain() -> None:
    found = ended(Records(record()))
    assert found.is_unread(job())
    await found.read([job()])
    sentence = "rank 1 failed with exit code 1; its log ends with: ValueError: bad shape"
    assert found.sentence(job()).startswith(sentence)
    assert GENERAL not in found.sentence(job())
    assert found.attempts(job()) == 1
    assert found.brief(job()) == ("ValueError: bad shape", "rank 1, exit code 1")
    document = msgspec.to_builtins(job())
    row = local_jobs.table([document], NOW, namespaces=False, ended=found)[1]
    assert row.endswith("ValueError: bad shape (rank 1, exit code 1)")
    assert view_of(job(), History(), NOW, failure=found.sentence(job())).message.startswith(sentence)
    assert row_of(view_of(job(), History(), NOW, failure=found.sentence(job()))).message.startswith(sentence)
    assert row_of(view_of(job(), History(), NOW)).message == GENERAL


@pytest.mark.parametrize(
    ("entry", "log", "wanted"),
    [
        (
            {"exitCode": 137, "reason": "OOMKilled"},
            "",
            ("out of memory", "rank 1, exit code 137 (OOMKilled)"),
        ),
        ({"container": "", "reason": "Evicted", "message": "out of disk"}, "", ("out of disk", "rank 1, Evicted")),
        ({"exitCode": 1, "attempt": 3}, "KeyError: 'x'\n", ("KeyError: 'x'", "rank 1, exit code 1, attempt 3")),
        ({"exitCode": 1, "replicatedJob": ""}, "", ("exit code 1", "")),
    ],
)
def test_a_failure_in_two_lines_names_no_object(entry: Document, log: str, wanted: tuple[str, str]) -> None:
    told = {"attempt": 1, "pod": "j-node-0-1-x", "replicatedJob": "node", "rank": 1, "container": "node", **entry}
    key = f"attempt-{told['attempt']}"
    assert brief_of({key: dump(told), f"{key}.log": log}) == wanted
    assert brief_of(None) == ()


def test_a_list_has_the_options_of_a_training_short_and_without_secrets() -> None:
    trainer = {
        "command": ["python", "-u", "train.py"],
        "args": ["--lr", "0.1", "++data.name=c4", "--api-key", "abc"],
        "env": [{"name": "SEED", "value": "7"}, {"name": "NOTE", "value": "n" * 100}],
    }
    found = options_of({"spec": {"trainer": trainer}})
    note = found.pop("NOTE")
    assert found == {"lr": "0.1", "data.name": "c4", "api-key": "(hidden)", "SEED": "7"}
    assert len(note) <= 60


async def test_each_record_is_read_once_and_only_of_jobs_that_failed() -> None:
    records = Records(record())
    found = ended(records)
    for _ in range(3):
        await found.read([job(), job("complete", failed=False)])
    assert records.asked == ["j-failures"]
    found.forget("uid-j")
    assert found.is_unread(job())


async def test_few_are_read_at_once() -> None:
    records = Records(record())
    await ended(records).read([job(f"j{number}") for number in range(50)])
    assert len(records.asked) == 50
    assert records.most <= AT_ONCE


async def test_a_record_of_another_job_of_that_name_says_nothing() -> None:
    found = ended(Records(record(owner="another")))
    await found.read([job()])
    assert found.sentence(job()) == ""


async def test_a_record_that_may_come_is_asked_for_again() -> None:
    missing = ended(Records(NotFound("no", code=404)))
    await missing.read([job(ago=5), job("old", ago=500)])
    assert missing.is_unread(job(ago=5))
    assert not missing.is_unread(job("old", ago=500))


async def test_what_cannot_be_read_is_left_out() -> None:
    away = ended(Records(TransportError("no answer")))
    await away.read([job()])
    assert (away.sentence(job()), away.is_unread(job())) == ("", True)
    forbidden = Records(Forbidden("no right", code=403))
    found = ended(forbidden)
    await found.read([job(f"j{number}") for number in range(9)])
    assert forbidden.asked == ["j0-failures"]
    assert not found.is_unread(job())
