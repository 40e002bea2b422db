# SPDX-License-Identifier: Apache-2.0
"""Who gets an answer from the dashboard's server: over HTTP, with an API server that is not there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from yarl import URL

from tests.dashboards import Browser, Faulty, dashboard
from trainwright.controller.dashboard.security import HEADERS
from trainwright.controller.dashboard.server import files_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATHS = (
    "/",
    "/app.js",
    "/api/v1/jobs",
    "/api/v1/jobs/stream",
    "/api/v1/jobs/default/bert",
    "/api/v1/jobs/default/bert/stream",
    "/api/v1/jobs/default/bert/series",
    "/api/v1/jobs/default/bert/objects",
    "/api/v1/jobs/default/bert/lines",
    "/nothing",
)


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


@pytest.mark.parametrize("path", PATHS)
async def test_the_path_alone_tells_nothing(browser: Browser, path: str) -> None:
    async with Browser(browser.server) as other:
        other.place = browser.place
        assert (await other.get(path)).problem.reason == "NoToken"


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_told_without_the_cookie(stranger: Browser, path: str) -> None:
    got = await stranger.get(path)
    assert (got.status, got.problem.reason) == (403, "NoToken")
    assert "Set-Cookie" not in got.headers


@pytest.mark.parametrize("token", ["", "x", "%C3%A9", "%FF", "A" * 43, "%00", "x" * 5000])
async def test_a_wrong_token_is_none(stranger: Browser, token: str) -> None:
    assert (await stranger.get(f"/?token={token}")).problem.reason == "NoToken"


async def test_the_token_counts_at_the_entry_alone(stranger: Browser) -> None:
    token = stranger.server.address.partition("?")[2]
    assert (await stranger.get(f"/api/v1/jobs?{token}")).problem.reason == "NoToken"


@pytest.mark.parametrize("cookie", ["", "x", "ü"])
async def test_a_wrong_cookie_is_none(stranger: Browser, cookie: str) -> None:
    name = f"trainwright-dashboard-{stranger.server.port}"
    assert (await stranger.get("/api/v1/jobs", Cookie=f"{name}={cookie}")).problem.reason == "NoToken"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "127.0.0.1@evil.example",
        "10.0.0.1",
        "",
        "[::1",
        "0",
    ],
)
async def test_a_foreign_host_gets_nothing(browser: Browser, path: str, host: str) -> None:
    """A name of another site may resolve to 127.0.0.1."""
    got = await browser.get(path, Host=host)
    assert (got.status, got.problem.reason) == (403, "ForeignHost")


async def test_a_foreign_host_with_the_token_gets_no_cookie(browser: Browser) -> None:
    got = await browser.get(browser.server.address.removeprefix(browser.root), Host="evil.example")
    assert (got.status, "Set-Cookie" in got.headers) == (403, False)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "127.0.0.1:1"])
async def test_own_names_are_served_on_any_port(browser: Browser, host: str) -> None:
    """Ssh may forward another port."""
    assert (await browser.get("/", Host=host)).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://localhost", "file://"])
async def test_a_foreign_origin_gets_nothing(browser: Browser, origin: str) -> None:
    got = await browser.get("/api/v1/jobs", Origin=origin)
    assert (got.status, got.problem.reason) == (403, "ForeignOrigin")
    assert "Access-Control-Allow-Origin" not in got.headers


async def test_the_own_origin_is_served(browser: Browser) -> None:
    assert (await browser.get("/api/v1/jobs", Origin=browser.root)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_other_sites_may_lead_to_the_page_and_no_further(browser: Browser, site: str) -> None:
    for mode in ("cors", "no-cors", "navigate", "websocket"):
        got = await browser.get("/api/v1/jobs", Sec_Fetch_Site=site, Sec_Fetch_Mode=mode)
        assert (got.status, got.problem.reason) == (403, "ForeignOrigin")
    assert (await browser.get("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")).status == 403
    assert (await browser.get("/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate")).status == 200


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


@pytest.mark.parametrize(
    "path",
    [
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
    ],
)
async def test_no_path_leads_elsewhere(browser: Browser, path: str) -> None:
    got = await browser.get(path)
    assert (got.status, got.problem.reason) == (404, "NotFound")


@pytest.mark.parametrize(
    "job",
    [
        "default/..",
        "..%2f..%2fsecrets/x",
        "default/a%2fb",
        "default/A",
        "default/%3Cscript%3E",
        "a%20b/c",
        f"a/{'x' * 300}",
    ],
)
async def test_what_can_be_no_name_is_not_asked_for(browser: Browser, job: str) -> None:
    got = await browser.get(f"/api/v1/jobs/{job}/series")
    assert got.status == 404
    assert b"<script>" not in got.body


async def test_every_answer_has_the_headers(browser: Browser, stranger: Browser) -> None:
    for got in [
        *[await browser.get(path) for path in ("/", "/app.js", "/vendor/chart.css", "/api/v1/jobs", "/nothing")],
        await browser.get("/", Host="evil.example"),
        await browser.get("/", method="POST"),
        await stranger.get("/"),
        await stranger.enter(),
    ]:
        assert {name: got.headers.get(name) for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy


async def test_types_of_files(browser: Browser) -> None:
    types = {path: (await browser.get(path)).headers["Content-Type"] for path in ("/", "/app.js", "/vendor/chart.css")}
    assert types == {
        "/": "text/html; charset=utf-8",
        "/app.js": "text/javascript; charset=utf-8",
        "/vendor/chart.css": "text/css; charset=utf-8",
    }


async def test_it_listens_on_this_machine_alone(browser: Browser) -> None:
    assert browser.server.address.startswith("http://127.0.0.1:")
