# SPDX-License-Identifier: Apache-2.0
"""The page of a local cluster: its address is printed where people look, its token is needed, and it ends in time."""

import os
import pty
import re
import subprocess
import urllib.request
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import HTTPError, URLError

import msgspec
import pytest

from tests.e2e.shell import TRAINWRIGHT, Shell
from trainwright.controller.dashboard import contract
from trainwright.controller.runtime.testing.waiting import eventually_sync

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}")
SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(300)"


class Page:
    """A browser that has the address."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.root = address.partition("/?")[0]
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )

    def enter(self) -> None:
        # The redirect is followed, with the cookie.
        with self._opener.open(self._address, timeout=60) as answer:
            assert (answer.status, b"<title>" in answer.read()) == (200, True)
            self.root = answer.url.rstrip("/")

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with self._opener.open(self.root + path, timeout=60) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    def jobs(self) -> dict[str, contract.JobRow]:
        code, body = self.get("/api/v1/jobs")
        assert code == 200, body
        return {row.name: row for row in msgspec.json.decode(body, type=contract.JobList).jobs}


def address_in(text: str) -> str:
    found = ADDRESS.search(text)
    assert found is not None, text
    return found[0]


@pytest.mark.parity
def test_a_cluster_that_stays_prints_its_page_and_ends_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    up = shell.local("up")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        address = address_in(up.stdout)
        assert address_in(shell.local("up").stdout) == address
        assert f"dashboard    {address}\n" in shell.local("status").stdout
        # Who may read the folder may see the jobs; the log may be sent to others.
        assert (shell.cluster.stat().st_mode & 0o777) == 0o700
        assert "token" not in (shell.cluster / "cluster.log").read_text()
        assert "token" not in shell.local("list").stdout

        page = Page(address)
        assert page.get("/api/v1/jobs")[0] == 403
        page.enter()
        detached = shell.local("run", "--detach", "--file", shell.job(SLEEPER, nodes=1))
        assert detached.returncode == 0, detached.stderr
        assert "token" not in detached.stdout
        eventually_sync(page.jobs, lambda rows: "job" in rows and rows["job"].state == "Running")
        code, body = page.get("/api/v1/jobs/default/job")
        assert code == 200
        job = msgspec.json.decode(body, type=contract.Job)
        assert (job.cluster.context, job.unread) == ("trainwright-default", [])
    finally:
        assert shell.local("down", "--delete").returncode == 0
    with pytest.raises(URLError):
        page.get("/")


def test_an_api_server_alone_has_no_page(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    up = shell.local("up", "--only=apiserver", "--memory")
    assert (up.returncode, "dashboard" in up.stdout) == (0, False), up.stderr
    assert "dashboard" not in shell.local("status").stdout
    assert shell.local("down", "--delete").returncode == 0


@pytest.mark.parity
def test_a_run_in_a_terminal_prints_the_page_of_its_job(tmp_path: Path) -> None:
    file = Shell(tmp_path).job("import time, pathlib\nwhile not pathlib.Path(END).exists(): time.sleep(0.1)", nodes=1)
    end = tmp_path / "end"
    Path(file).write_text(Path(file).read_text().replace("END", repr(str(end))))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*TRAINWRIGHT, "local", "run", "--file", file],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )
    os.close(theirs)
    try:
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            told = b""
            while b"#/jobs/default/job" not in told:
                told += terminal.read(4096)
            page = Page(address_in(told.decode()))
            page.enter()
            eventually_sync(page.jobs, lambda rows: "job" in rows and rows["job"].state == "Running")
            end.touch()
            with suppress(OSError):  # on Linux, the end of a terminal
                while more := terminal.read(4096):
                    told += more
    finally:
        process.kill()
        _, errors = process.communicate()
    assert b"the job is Complete" in told, errors
    with pytest.raises(URLError):
        page.get("/")
