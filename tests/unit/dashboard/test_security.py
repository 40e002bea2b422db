# SPDX-License-Identifier: Apache-2.0
"""Who gets an answer from the dashboard's server: over HTTP, with an API server that is not there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio
from yarl import URL

from tests.dashboards import Browser, Faulty, dashboard
from trainwright.controller.dashboard.security import HEADERS
from trainwright.controller.dashboard.server import files_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
JOBS = "/api/v1/jobs"
JOB = f"{JOBS}/default/bert"
PATHS = (
    *("/", "/app.js", JOBS, f"{JOBS}/stream", JOB, "/nothing"),
    *(f"{JOB}/{part}" for part in ("stream", "series", "objects", "lines")),
)
HOSTS = [
    "",
    *["evil.example", "127.0.0.1.evil.example", "evil.example:80", "127.0.0.1@evil.example", "10.0.0.1", "[::1", "0"],
]
ELSEWHERE = [
    "/../contract.py",
    "/%2e%2e/contract.py",
    "/..%2fcontract.py",
    "/vendor/..%2f..%2f__init__.py",
    "//etc/passwd",
    "/%2fetc%2fpasswd",
    "/secret.py",
    "/link.js",
    "/vendor",
    "/vendor/",
    "/index.html%00.js",
    "/INDEX.HTML",
    "/api",
    "/api/v1",
    "/api/v1/jobs/",
    "/api/v1/jobs/default",
    "/api/v2/jobs",
]
NO_NAMES = [
    *["default/..", "..%2f..%2fsecrets/x", "default/a%2fb", "default/A", "default/%3Cscript%3E", "a%20b/c"],
    f"a/{'x' * 300}",
]
FOREIGN = {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}
Case: TypeAlias = tuple[str, str, dict[str, str], int, str]
"""Who asks: `browser` has the cookie, `neighbour` knows the path of the page alone, `stranger` nothing; path and
headers; status and reason of the answer."""
REFUSED: list[Case] = [
    *[(who, path, {}, 403, "NoToken") for who in ("stranger", "neighbour") for path in PATHS],
    *[
        ("stranger", f"/?token={token}", {}, 403, "NoToken")
        for token in ("", "x", "%C3%A9", "%FF", "A" * 43, "%00", "x" * 5000)
    ],
    # The token counts at the entry alone.
    ("stranger", f"{JOBS}?token=TOKEN", {}, 403, "NoToken"),
    *[("stranger", JOBS, {"Cookie": f"NAME={cookie}"}, 403, "NoToken") for cookie in ("", "x", "ü")],
    # A name of another site may resolve to 127.0.0.1.
    *[("browser", path, {"Host": host}, 403, "ForeignHost") for path in PATHS for host in HOSTS],
    ("browser", "/?token=TOKEN", {"Host": "evil.example"}, 403, "ForeignHost"),
    *[
        ("browser", JOBS, {"Origin": origin}, 403, "ForeignOrigin")
        for origin in ("http://evil.example", "null", "https://127.0.0.1", "http://localhost", "file://")
    ],
    # Other sites may lead to the page, and no further.
    *[
        ("browser", JOBS, {**site, "Sec_Fetch_Mode": mode}, 403, "ForeignOrigin")
        for site in FOREIGN
        for mode in ("cors", "no-cors", "navigate", "websocket")
    ],
    *[("browser", "/", {**site, "Sec_Fetch_Mode": "no-cors"}, 403, "ForeignOrigin") for site in FOREIGN],
    # No path leads elsewhere.
    *[("browser", path, {}, 404, "NotFound") for path in ELSEWHERE],
    # What can be no name is not asked for.
    *[("browser", f"{JOBS}/{job}/series", {}, 404, "NotFound") for job in NO_NAMES],
]
SERVED = [
    # Ssh may forward another port.
    *[("/", {"Host": host}) for host in ("localhost", "LOCALHOST:9999", "127.0.0.1:1")],
    *[("/", {**site, "Sec_Fetch_Mode": "navigate"}) for site in FOREIGN],
    (JOBS, {"Origin": "OWN"}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """One that has brought the token."""
    page = tmp_path_factory.mktemp("page")
    (page / "index.html").write_text("<!doctype html><title>page</title>")
    (page / "app.js").write_text("'use strict'")
    (page / "vendor").mkdir()
    (page / "vendor" / "chart.css").write_text("body {}")
    (page / "secret.py").write_text("not for browsers")
    (page / "link.js").symlink_to(Path(__file__))
    async with dashboard(Faulty(lost=True), files=files_of(page)) as (found, _):
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def stranger(browser: Browser) -> AsyncIterator[Browser]:
    """One that has not."""
    async with Browser(browser.server) as found:
        yield found


@pytest.mark.parametrize(("who", "path", "headers", "status", "reason"), REFUSED)
async def test_a_request_that_is_refused(
    browser: Browser, stranger: Browser, who: str, path: str, headers: dict[str, str], status: int, reason: str
) -> None:
    if who == "neighbour":
        stranger.place = browser.place
    token = browser.server.address.partition("=")[2]
    named = {
        name: text.replace("NAME", f"trainwright-dashboard-{browser.server.port}") for name, text in headers.items()
    }
    asks = browser if who == "browser" else stranger
    got = await asks.get(path.replace("TOKEN", token), **named)
    assert (got.status, got.problem.reason) == (status, reason)
    assert not {"Set-Cookie", "Access-Control-Allow-Origin"} & set(got.headers)
    assert b"<script>" not in got.body


@pytest.mark.parametrize(("path", "headers"), SERVED)
async def test_a_request_that_is_served(browser: Browser, path: str, headers: dict[str, str]) -> None:
    named = {name: text.replace("OWN", browser.root) for name, text in headers.items()}
    assert (await browser.get(path, **named)).status == 200


async def test_the_token_is_exchanged_for_a_cookie(browser: Browser, stranger: Browser) -> None:
    got = await stranger.enter()
    place = got.headers["Location"].rstrip("/")
    assert got.status == 303
    assert len(place) >= 23  # 128 bits
    name, *attributes = got.headers["Set-Cookie"].split("; ")
    assert set(attributes) == {f"Path={place}", "HttpOnly", "SameSite=Strict"}
    assert name.partition("=")[0] == f"trainwright-dashboard-{browser.server.port}"
    token = browser.server.address.partition("=")[2]
    assert len(token) >= 43  # 256 bits
    assert token not in got.headers["Set-Cookie"]
    assert (await stranger.get("/")).body == b"<!doctype html><title>page</title>"
    assert browser.server.address.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("path", PATHS)
async def test_the_cookie_goes_to_no_other_port_and_counts_nowhere_else(browser: Browser, path: str) -> None:
    """Cookies ignore ports: another server of this machine gets all those of the paths that it is asked for."""
    async with Browser(browser.server) as other:
        cookie = (await other.enter()).headers["Set-Cookie"].partition(";")[0]
        jar = other._session.cookie_jar
        assert not jar.filter_cookies(URL(f"http://127.0.0.1:1{path}"))
        assert jar.filter_cookies(URL(f"http://127.0.0.1:1{other.place}{path}"))  # by who knows the path
    async with Browser(browser.server) as thief:
        for place in ("", "/x", other.place[:-1], f"{other.place}x"):
            thief.place = place
            assert (await thief.get(path, Cookie=cookie)).problem.reason == "NoToken"


async def test_who_came_by_a_link_is_led_on_once(browser: Browser, stranger: Browser) -> None:
    """Browsers withhold the cookie there, although the token was right."""
    stranger.place = browser.place
    page = {"Accept": "text/html", "Sec_Fetch_Mode": "navigate"}
    led = await stranger.get("/", **page, Sec_Fetch_Site="cross-site")
    assert (led.status, b'content="0;url=./"' in led.body) == (403, True)
    again = await stranger.get("/", **page, Sec_Fetch_Site="same-origin")
    assert (again.status, b"refresh" in again.body, b"trainwright dashboard" in again.body) == (403, False, True)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "QUERY"])
@pytest.mark.parametrize("path", PATHS)
async def test_it_only_reads(browser: Browser, path: str, method: str) -> None:
    got = await browser.get(path, method=method)
    assert got.status == 405
    if method != "HEAD":
        assert got.problem.reason == "MethodNotAllowed"


async def test_every_answer_has_the_headers_and_its_type(browser: Browser, stranger: Browser) -> None:
    files = {
        "/": "text/html; charset=utf-8",
        "/app.js": "text/javascript; charset=utf-8",
        "/vendor/chart.css": "text/css; charset=utf-8",
    }
    served = {path: await browser.get(path) for path in files}
    assert {path: got.headers["Content-Type"] for path, got in served.items()} == files
    for got in [
        *served.values(),
        await browser.get(JOBS),
        await browser.get("/nothing"),
        await browser.get("/", Host="evil.example"),
        await browser.get("/", method="POST"),
        await stranger.get("/"),
        await stranger.enter(),
    ]:
        assert {name: got.headers.get(name) for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
