# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress`: what is shown of a job, from the object, what was seen before, and the time."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from tests import builders
from tests.builders import RUNNING, condition, train_job
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.times import format_micro_time, format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.main import main
from trainwright.controller.cli.progress import screen
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.trainer.progress.ring import POINTS, Ring
from trainwright.controller.views import text
from trainwright.controller.views.job import History, JobView, JobViews, as_json, observe, sorted_views, view_of

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def job(name: str = "bert", *, ago: float = 0.0, state: str = "", created: float = 0.0, **progress: Any) -> TrainJob:
    """A job whose training reported so many seconds before NOW."""
    at = format_micro_time(NOW - timedelta(seconds=ago))
    return train_job(
        name,
        "default",
        uid=name,
        created=NOW - timedelta(seconds=created),
        jobs=[RUNNING],
        progress=builders.progress(at=at, **progress) if progress else None,
        conditions=[condition(state, reason="Because", message="", at=NOW)] if state else None,
        runtimeRef={"name": "torch"},
    )


def seen(*jobs: TrainJob) -> JobView:
    """The last one of these, after the others were seen."""
    history = History()
    for one in jobs:
        observe(one, history)
    return view_of(jobs[-1], history, NOW)


@pytest.mark.parametrize(
    ("told", "ago", "shown"),
    [
        (600, 0, "10m"),
        (600, 60, "9m"),
        (600, 540, "60s"),
        (600, 600, "soon"),
        (600, 719, "soon"),
        (600, 721, "late"),
        (5, 14, "soon"),
        (5, 16, "late"),
        (0, 11, "late"),
        (7000, -3600, "1h56m"),
        (200_000, 0, "2d07h"),
    ],
)
def test_the_time_to_go_that_was_reported_passes(told: int, ago: float, shown: str) -> None:
    assert text.remaining(seen(job(ago=ago, estimatedRemainingSeconds=told))) == shown


def test_without_a_reported_time_the_slope_of_the_last_ten_minutes_tells_it() -> None:
    jobs = [
        job(ago=ago, progressPercentage=percentage) for ago, percentage in ((4000, 2), (590, 30), (290, 35), (0, 40))
    ]
    assert text.remaining(seen(*jobs)) == "~59m"  # 10 % in 590 s, 60 % to go
    assert text.remaining(seen(*jobs[:1])) == "-"
    assert text.remaining(seen(job(ago=60, progressPercentage=40), job(progressPercentage=40))) == "-"
    assert as_json(seen(*jobs))["remainingSource"] == "history"


def test_a_fall_begins_a_segment_of_its_own() -> None:
    """A restart from a checkpoint: neither its time nor its way counts."""
    steps = ((500, 60, "600"), (400, 70, "700"), (300, 40, "400"), (100, 50, "500"), (0, 55, "550"))
    jobs = [job(ago=ago, progressPercentage=done, metrics={"current_step": step}) for ago, done, step in steps]
    history = History()
    for one in jobs:
        observe(one, history)
    assert [one.segment for one in history.samples()] == [0, 0, 1, 1, 1]
    assert history.seconds_left() == 45 * 300 / 15
    assert text.remaining(seen(*jobs[:3])) == "-"


def test_a_job_that_does_not_train_has_no_time_to_go() -> None:
    for state in ("Suspended", "Failed", "Complete", "Blocked"):
        assert text.remaining(seen(job(state=state, ago=5000, estimatedRemainingSeconds=60))) == "-"


def test_one_rank_at_its_end_is_not_the_end_of_the_job() -> None:
    view = seen(job(ago=60, progressPercentage=97), job(progressPercentage=100, estimatedRemainingSeconds=0))
    assert (text.percent(view), text.remaining(view)) == ("99%", "-")
    assert text.line(view, namespace=False) == "bert: Running, 99%, ETA -, reported 0s ago"
    assert "99%, the rank that reports is done" in "".join(text.detail_lines(view, NOW))
    assert (as_json(view)["progressPercentage"], as_json(view)["remainingSeconds"]) == (99, None)
    tellings: tuple[dict[str, Any], ...] = ({}, {"estimatedRemainingSeconds": 0}, {"estimatedRemainingSeconds": 5})
    for ago in (0, 5, 3600):
        for told in tellings:
            late = seen(job(ago=ago + 60, progressPercentage=90), job(ago=ago, progressPercentage=100, **told))
            assert (text.percent(late), text.remaining(late)) == ("99%", "-")
    assert text.remaining(seen(job(ago=3, estimatedRemainingSeconds=0))) == "-"
    for state, shown in (("Complete", "100%"), ("Failed", "100%"), ("Suspended", "99%"), ("Blocked", "99%")):
        assert text.percent(seen(job(state=state, progressPercentage=100))) == shown


def test_what_the_pods_before_told_is_no_time_to_go() -> None:
    resumed = job(ago=5, progressPercentage=40, estimatedRemainingSeconds=600)
    assert resumed.status is not None
    since = Condition(type="Suspended", status="False", reason="Resumed", message="", last_transition_time="")
    resumed.status.conditions = [since]
    for ago, shown in ((1, "-"), (9, "9m")):
        since.last_transition_time = format_time(NOW - timedelta(seconds=ago))
        assert text.remaining(seen(resumed)) == shown
    # Nor has a job one that waits.
    assert text.remaining(seen(job(state="Waiting", estimatedRemainingSeconds=600))) == "-"


def test_a_job_that_stands_still_says_so() -> None:
    view = seen(job(state="Stalled", progressPercentage=60, estimatedRemainingSeconds=60, ago=4000))
    assert (text.state(view), text.remaining(view)) == ("Stalled (Because)", "late")
    assert (as_json(view)["state"], as_json(view)["stalled"]) == ("Stalled", "Because")


def test_a_job_that_waits_says_so_instead_of_running() -> None:
    view = seen(job(state="Waiting"))
    assert text.state(view) == "Waiting (Because)"
    assert (as_json(view)["state"], as_json(view)["waiting"]) == ("Waiting", "Because")


def test_what_a_job_says_at_its_end_is_shown_beside_its_state() -> None:
    view = seen(job(state="Complete", progressPercentage=60, ago=10))
    assert (text.state(view), text.percent(view)) == ("Complete", "60%")


def test_control_characters_of_metrics_reach_no_terminal() -> None:
    view = seen(job(progressPercentage=60, metrics={"\x1b[2Jloss": "0.5\x1b]0;x\x07", "note": "a\n\u202eb\x00"}))
    assert view.metrics == {"loss": "0.5", "note": "a b"}


def test_the_same_report_again_is_one_point_and_old_points_are_thinned() -> None:
    history = History()
    for second in range(5000):
        for _ in range(2):
            told = job(ago=-second, metrics={"loss": str(second), "stage": "warm", "bad": "nan"})
            observe(told, history)
    assert POINTS / 2 <= len(history) <= POINTS
    curve = history.curve("loss")
    assert (curve[-1], curve[0] < 100, curve == sorted(curve)) == (4999.0, True, True)
    assert history.curve("stage") == history.curve("bad") == []


@pytest.mark.parametrize(("recorded", "seen"), [(3, 0), (3, 2), (3, 3), (2, 1)])
def test_what_was_recorded_comes_before_what_was_seen(recorded: int, seen: int) -> None:
    """All within a second, and the last one by a clock that was set back."""
    reports = [(0, 98, "1"), (0, 98, "2"), (0, 99, "3"), (-60, 99, "4")]
    ring, history, whole = Ring(), History(), History()
    for place, (seconds, percentage, step) in enumerate(reports):
        at = NOW.timestamp() + seconds
        told = Sample(at=at, percentage=percentage, values={"current_step": float(step)})
        whole.add(told)
        if place <= recorded:
            ring.add(told)
        if place >= seen:
            history.add(told)
    history.begin_with(ring)
    assert history.samples() == whole.samples()


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([1.0], ""),
        ([1.0, 1.0], "▁▁"),
        ([0.0, 7.0], "▁█"),
        (list(range(8)), "▁▂▃▄▅▆▇█"),
        ([1e308, -1e308], "█▁"),
        ([float(number) for number in range(1000)], "▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇███"),
    ],
)
def test_sparklines(values: list[float], drawn: str) -> None:
    assert text.sparkline(values) == drawn
    assert text.sparkline(values, ascii_only=True).isascii()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (99, "99s"), (100, "1m"), (3599, "59m"), (3600, "1h00m"), (86399, "23h59m"), (90000, "1d01h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("percentage", "drawn"), [(0, "----------"), (9, "----------"), (99, "#########-"), (100, "#" * 10)]
)
def test_bars(percentage: int, drawn: str) -> None:
    state = "Complete" if percentage == 100 else ""
    assert text.bar(seen(job(state=state, progressPercentage=percentage)), 10, ascii_only=True) == drawn
    assert text.bar(seen(job()), 10) == " " * 10


def views() -> list[JobView]:
    return sorted_views(
        [
            seen(job("ended", state="Complete", progressPercentage=100, estimatedRemainingSeconds=0, ago=400)),
            seen(job("queued", state="Suspended")),
            seen(
                *(
                    job("newer", ago=ago, progressPercentage=42, estimatedRemainingSeconds=60, metrics={"loss": loss})
                    for ago, loss in ((20, "0.9"), (10, "0.52"), (3, "0.23456"))
                )
            ),
            seen(job("older", created=60, ago=30, progressPercentage=7, metrics={"eval_loss": "1"})),
        ]
    )


def test_a_plain_table() -> None:
    assert text.table(views(), namespaces=False) == [
        "JOB      STATE       PROGRESS   ETA   REPORTED   LOSS",
        "newer    Running     42%        57s   3s ago     0.2346",
        "older    Running     7%         -     30s ago    1",
        "queued   Suspended   -          -     -          -",
        "ended    Complete    100%       -     6m ago     -",
    ]
    assert text.table(views(), namespaces=True)[1].startswith("default     newer")


@pytest.mark.parametrize(
    ("brief", "shown"),
    [
        ((), "rank 1 failed with exit code 1"),
        (("KeyError: 'lr'", "rank 1, exit code 1"), "KeyError: 'lr' (rank 1, exit code 1)"),
        (("out of memory", ""), "out of memory"),
    ],
)
def test_the_exception_of_a_failure_takes_the_place_of_its_sentence(brief: Sequence[str], shown: str) -> None:
    sentence = "rank 1 failed with exit code 1; see its log"
    view = view_of(job("failed", state="Failed"), History(), NOW, failure=sentence, brief=brief)
    assert text.why(view) == shown


def test_attempts_have_a_column_once_a_job_was_restarted() -> None:
    again = view_of(job("again", progressPercentage=7), History(), NOW, attempt=3)
    first = view_of(job("first"), History(), NOW, attempt=1)
    unknown = view_of(job("unknown"), History(), NOW)
    assert text.table([again, first, unknown], namespaces=False) == [
        "JOB       STATE     PROGRESS   ETA   REPORTED   LOSS   ATTEMPT",
        "again     Running   7%         -     0s ago     -      3",
        "first     Running   -          -     -          -      1",
        "unknown   Running   -          -     -          -      -",
    ]
    assert "ATTEMPT" not in "".join(text.table([first, unknown], namespaces=False))
    assert ", attempt 3" in text.line(again, namespace=False)
    console = Console(width=100, height=20, file=io.StringIO())
    for shown, has_column in (([again, first], True), ([first, unknown], False)):
        with console.capture() as drawn:
            console.print(screen.overview(JobViews(views=shown, now=NOW), console, namespaces=False))
        assert ("ATTEMPT" in drawn.get()) is has_column


def test_one_job_in_plain_text() -> None:
    metrics = {"loss": "0.2", "accuracy": "0.91", "stage": "warm", "current_step": "420", "total_steps": "1000"}
    one = job(ago=5, progressPercentage=42, estimatedRemainingSeconds=605, metrics=metrics)
    history = History()
    observe(one, history)
    assert text.detail_lines(view_of(one, history, NOW, attempt=2), NOW) == [
        "default/bert",
        "  state     Running, attempt 2",
        "  progress  [############------------------] 42%, step 420 of 1000",
        "  ETA       10m (reported, until 12:10 UTC)",
        "  reported  5s ago (2026-11-22 11:59:55 UTC)",
        "  loss      0.2",
        "  accuracy  0.91",
        "  stage     warm",
    ]
    assert text.detail_lines(seen(job()), NOW)[1:] == ["  state     Running", "  reported  never"]


def test_a_line_for_a_log() -> None:
    metrics = {"loss": "0.25", "current_step": "4", "current_epoch": "1.5", "total_epochs": "3"}
    view = seen(job(ago=5, progressPercentage=42, metrics=metrics))
    assert text.line(view, namespace=True) == (
        "default/bert: Running, 42%, ETA -, reported 5s ago, step 4, epoch 1.5 of 3, loss 0.25"
    )


HOSTILE = "\x1b[2J[bold red]x[/bold red]\n"


def test_text_of_the_training_does_not_steer_the_terminal() -> None:
    view = seen(job(progressPercentage=1, metrics={f"{HOSTILE}loss": HOSTILE}))
    for lines in ([text.line(view, namespace=True)], text.table([view], namespaces=True), text.detail_lines(view, NOW)):
        assert all(line.isprintable() for line in lines)
    drawn = draw(view)
    assert "\x1b[2J" not in drawn
    assert "[bold red]x" in drawn


def console(width: int = 120, height: int = 30) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, force_terminal=True, legacy_windows=False)


def draw(*views: JobView, one: bool = True, **size: int) -> str:
    target = console(**size)
    all_jobs = screen.overview(JobViews(views=views, now=NOW), target, namespaces=False)
    target.print(screen.one_job(views[0], target, NOW) if one else all_jobs)
    assert isinstance(target.file, io.StringIO)
    return target.file.getvalue()


@pytest.mark.parametrize("one", [True, False])
def test_a_job_that_does_not_go_on_is_not_green(*, one: bool) -> None:
    green, yellow = "\x1b[32m", "\x1b[33m"
    assert green in draw(seen(job()), one=one)
    for state in ("Waiting", "Stalled"):
        drawn = draw(seen(job(state=state)), one=one)
        assert (green in drawn, yellow in drawn) == (False, True), state


@pytest.mark.parametrize("width", [200, 100, 80, 60, 30])
def test_the_live_table_fits_the_terminal(width: int) -> None:
    many = [*views(), *(seen(job(f"job-{number}")) for number in range(200))]
    target = Console(file=io.StringIO(), width=width, height=12)
    target.print(screen.overview(JobViews(views=many, now=NOW, trouble="trouble"), target, namespaces=True))
    assert isinstance(target.file, io.StringIO)
    lines = target.file.getvalue().splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= width
    assert "more jobs do not fit"[: width - 4] in target.file.getvalue()
    assert "trouble" in target.file.getvalue()
    # What is told first is not cut for long names.
    assert width < 60 or {"newer", "Running", "42%", "57s"} <= set(
        " ".join(lines).replace("█", " ").replace("░", " ").split()
    )


@pytest.mark.parametrize("width", [200, 120, 80, 60, 44])
def test_long_names_are_cut_before_states_and_times(width: int) -> None:
    name = "a-rather-long-name-of-a-training-job-that-goes-on"
    one = seen(job(name, progressPercentage=42, estimatedRemainingSeconds=4000, metrics={"loss": "0.25"}))
    target = Console(file=io.StringIO(), width=width, height=12)
    target.print(screen.overview(JobViews(views=[one], now=NOW), target, namespaces=False))
    assert isinstance(target.file, io.StringIO)
    head, row = target.file.getvalue().splitlines()
    assert ("…" in row) == (width <= 120)
    for shown in ("a-rather-long", "Running", "42%", "1h06m"):
        assert shown in row
    assert ("REPORTED" in head, "LOSS" in head) == (width >= 60, width >= 80)


def test_the_live_table_shows_bars_states_and_curves() -> None:
    drawn = draw(*views(), one=False)
    for shown in ("newer", "Running", "████████░░░░░░░░░░░░", "42%", "57s", "3s ago", "0.2346", "█▄▁", "Suspended"):
        assert shown in drawn


def test_one_job_on_a_terminal_shows_each_metric() -> None:
    drawn = draw(*views())
    for shown in ("default/newer", "Running", "42%", "0.2346", "█▄▁", "reported, until 12:00 UTC"):
        assert shown in drawn
    small = draw(seen(job(metrics={f"m{number}": "1" for number in range(100)})), height=10)
    assert "more metrics do not fit" in small
    assert len(small.splitlines()) <= 10


def test_as_json() -> None:
    view = views()[0]
    assert as_json(view) == {
        "namespace": "default",
        "name": "newer",
        "search": None,
        "state": "Running",
        "reason": "",
        "message": None,
        "stalled": None,
        "waiting": None,
        "attempt": None,
        "progressPercentage": 42,
        "remainingSeconds": 57,
        "remainingSource": "report",
        "late": False,
        "lastUpdatedTime": "2026-11-22T11:59:57Z",
        "ageSeconds": 3,
        "metrics": {"loss": "0.23456"},
    }


def test_a_job_is_in_one_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["progress", "bert", "--all-namespaces"]) == 2
    assert capsys.readouterr().err == "error: JOB is in one namespace; use -n instead of -A\n"
