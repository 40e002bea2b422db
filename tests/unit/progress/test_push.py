# SPDX-License-Identifier: Apache-2.0
"""Reports to a status server: real connections on the loopback interface, at times that the test sets."""

import email.utils
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.progress.reporters import Server, StillReporter, configure, serving
from trainwright.controller.runtime.certificates.authority import (
    KeyPair,
    certificate_pem,
    issue_certificate,
    key_pem,
    make_authority,
)
from trainwright.controller.runtime.testing.clock import ManualClock

Make = Callable[..., StillReporter]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def make(clock: ManualClock[float], target: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Make]:
    """A reporter that pushes to a server with the token in `tmp_path / "token"`."""
    made: list[StillReporter] = []
    (tmp_path / "token").write_text("first\n")

    def reporter(server: Server, **settings: Any) -> StillReporter:
        configure(
            monkeypatch,
            KUBEFLOW_TRAINER_SERVER_URL=server.url,
            KUBEFLOW_TRAINER_SERVER_CA_CERT=tmp_path / "ca.crt",
            KUBEFLOW_TRAINER_SERVER_TOKEN=tmp_path / "token",
        )
        made.append(StillReporter(clock, **settings))
        return made[-1]

    yield reporter
    for one in reversed(made):  # each has put its handler of SIGTERM before the one of the one before
        one.drop()


def report(reporter: StillReporter, step: int) -> None:
    reporter.update(step=step)
    reporter.tick()


def steps(server: Server) -> list[str]:
    """The steps of the reports that arrived."""
    return [
        metric["value"] for said in server.reports for metric in said["metrics"] if metric["name"] == "current_step"
    ]


def test_one_connection_without_proxy(make: Make, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    reporter = make(server, total=4)
    for step in (1, 2, 3):
        report(reporter, step)
    assert server.connections == 1
    assert [said["progressPercentage"] for said in server.reports] == [25, 50, 75]
    assert server.tokens == ["Bearer first"] * 3
    first = server.reports[0]
    assert first.keys() == {"progressPercentage", "metrics", "lastUpdatedTime"}
    assert first["metrics"] == [{"name": "current_step", "value": "1"}, {"name": "total_steps", "value": "4"}]


def test_a_connection_that_the_server_closed_is_made_again(make: Make, server: Server) -> None:
    reporter = make(server)
    server.answers = [(200, {"Connection": "close"})]
    report(reporter, 1)
    report(reporter, 2)
    # Closed while idle, without an announcement.
    reporter._channels[0]._destination._connection.sock.shutdown(2)  # type: ignore[union-attr]
    report(reporter, 3)
    assert steps(server) == ["1", "2", "3"]
    assert server.connections == 3


def test_the_token_is_read_again_each_minute_and_when_it_is_refused(
    make: Make, server: Server, clock: ManualClock[float], tmp_path: Path
) -> None:
    reporter = make(server)
    report(reporter, 1)
    (tmp_path / "token").write_text("second")
    clock.now += 59
    report(reporter, 2)
    clock.now += 2
    report(reporter, 3)
    (tmp_path / "token").write_text("third")
    server.answers = [(403, {})]
    report(reporter, 4)
    assert server.tokens == [f"Bearer {token}" for token in ("first", "first", "second", "second", "third")]


def test_a_refusal_of_a_token_that_did_not_change_is_not_repeated_at_once(make: Make, server: Server) -> None:
    reporter = make(server)
    server.answers = [(403, {})] * 3
    report(reporter, 1)
    assert len(server.tokens) == 1


@pytest.mark.parametrize("status", [403, 404, 422, 500, 302])
def test_failures_back_off_to_a_minute_and_the_newest_report_is_sent(
    make: Make, server: Server, clock: ManualClock[float], caplog: pytest.LogCaptureFixture, status: int
) -> None:
    reporter = make(server)
    server.answers = [(status, {"Location": server.url})] * 7
    times = []
    begin = clock.now
    for step in range(300):
        before = len(server.reports)
        report(reporter, step)
        if len(server.reports) > before:
            times.append(clock.now - begin)
        clock.now += 1
    # Pauses of 5, 10, 20, 40 and 60 seconds; the eighth attempt works, and then each report goes out.
    assert times == [0, 5, 15, 35, 75, 135, 195, *range(255, 300)]
    assert steps(server)[-1] == "299"
    assert len(caplog.records) == 1
    assert f"the server answered {status}" in caplog.text


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_obeyed(make: Make, server: Server, clock: ManualClock[float], form: str) -> None:
    reporter = make(server)
    value = "37" if form == "seconds" else email.utils.formatdate(time.time() + 37, usegmt=True)
    server.answers = [(429, {"Retry-After": value})]
    report(reporter, 1)
    clock.now += 30
    report(reporter, 2)
    assert len(server.reports) == 1
    clock.now += 8
    report(reporter, 3)
    assert steps(server) == ["1", "3"]


def test_a_retry_after_of_nonsense_is_bounded(make: Make, server: Server, clock: ManualClock[float]) -> None:
    reporter = make(server)
    server.answers = [(429, {"Retry-After": "soon"}), (503, {"Retry-After": "99999999"}), (429, {"Retry-After": "-5"})]
    report(reporter, 1)
    clock.now += 5
    report(reporter, 2)
    clock.now += 3601
    report(reporter, 3)
    assert steps(server) == ["1", "2", "3"]


def test_the_last_report_does_not_wait_for_a_pause(make: Make, server: Server) -> None:
    reporter = make(server)
    server.answers = [(500, {})]
    report(reporter, 1)
    reporter.tick(last=True)
    assert steps(server) == ["1", "1"]


def test_a_server_that_refuses_connections(
    make: Make, server: Server, clock: ManualClock[float], caplog: pytest.LogCaptureFixture
) -> None:
    gone = Server(url="http://127.0.0.1:1/")
    reporter = make(gone)
    for step in range(20):
        report(reporter, step)
        clock.now += 10
    assert [record.getMessage() for record in caplog.records] == [
        "no progress report to http://127.0.0.1:1/: [Errno 111] Connection refused; trying again"
    ]


@pytest.mark.parametrize("url", ["server:10443/x", "ftp://server/x", "https://:10443/", "http://[::1/", "http://a:b/"])
def test_a_url_that_is_none(make: Make, url: str, caplog: pytest.LogCaptureFixture) -> None:
    reporter = make(Server(url=url))
    reporter.update(step=1)
    assert not reporter._active
    assert len(caplog.records) == 1


def test_a_token_that_is_not_there(
    make: Make, server: Server, clock: ManualClock[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reporter = make(server)
    (tmp_path / "token").unlink()
    report(reporter, 1)
    assert "No such file" in caplog.text
    (tmp_path / "token").write_text("late")
    clock.now += 5
    report(reporter, 2)
    assert server.tokens == ["Bearer late"]


def authority() -> KeyPair:
    return make_authority("test", now=datetime.now(UTC), lifetime=timedelta(days=1))


def context_of(signing: KeyPair, folder: Path) -> ssl.SSLContext:
    """What a server with a certificate of this authority uses."""
    leaf = issue_certificate(signing, ["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    (folder / "leaf.pem").write_bytes(certificate_pem(leaf.certificate) + key_pem(leaf.key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "leaf.pem")
    return context


def test_a_new_authority_is_trusted_from_when_its_file_changes(
    make: Make, clock: ManualClock[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = authority(), authority()
    (tmp_path / "ca.crt").write_bytes(certificate_pem(old.certificate))
    with serving(context_of(old, tmp_path)) as server:
        reporter = make(server)
        report(reporter, 1)
        report(reporter, 2)
        assert (steps(server), server.connections) == (["1", "2"], 1)
    with serving(context_of(new, tmp_path)) as server:
        channel = reporter._channels[0]._destination
        host, _, port = server.url.split("/")[2].partition(":")
        channel._host, channel._port = host, int(port)  # type: ignore[union-attr]
        report(reporter, 3)
        assert server.reports == []
        assert "certificate verify failed" in caplog.text
        (tmp_path / "ca.crt").write_bytes(certificate_pem(old.certificate) + certificate_pem(new.certificate))
        clock.now += 5
        report(reporter, 4)
        assert steps(server) == ["4"]
