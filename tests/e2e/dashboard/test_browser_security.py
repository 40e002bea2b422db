# SPDX-License-Identifier: Apache-2.0
"""What pages of other sites, names that lead here and injected elements get from a dashboard, in a real browser.

The dashboard has no API server: what it says about that is worth as much protection as jobs are.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.conftest import Window
from tests.e2e.dashboard.running import dashboard
from tests.e2e.dashboard.webserver import JoinedWebServer

pytestmark = pytest.mark.parity

ASK = """async (address) => {
  try {
    const response = await fetch(address, {credentials: "include"});
    return `answered ${await response.text()}`;
  } catch (error) {
    return error.name;
  }
}"""
"""A request with cookies, as a script of the page makes it."""
LISTEN = """(address) => new Promise((done) => {
  const source = new EventSource(address, {withCredentials: true});
  source.addEventListener("snapshot", () => done("heard"));
  source.onerror = () => done("refused");
})"""


class _Foreign(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@contextmanager
def foreign_site() -> Iterator[str]:
    """An empty page of another site."""
    server = JoinedWebServer(_Foreign)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="foreign")
    thread.start()
    try:
        yield f"http://foreign.localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a dashboard, with the token."""
    file: Path = tmp_path_factory.mktemp("kubeconfig") / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "gone", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "user", "user": {"token": "none"}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "user"}}],
        "current-context": "gone",
    }
    file.write_text(yaml.safe_dump(config))
    with dashboard(file) as url:
        yield url


@pytest.fixture
def page(address: str, window: Window) -> Page:
    """The dashboard's own page, which has the cookie."""
    opened = window.open(address)
    expect(opened.locator("#link")).to_have_text("API server lost")
    return opened


@pytest.fixture
def root(page: Page) -> str:
    """The address of the page, without the token; it has the path that the cookie is for."""
    return page.url.partition("#")[0]


def beside(page: Page, url: str) -> Page:
    """Another tab of the same browser: it has the same cookies."""
    other = page.context.new_page()
    other.goto(url)
    return other


def test_the_page_itself_is_answered_and_keeps_its_secrets(page: Page, root: str) -> None:
    assert page.evaluate(ASK, f"{root}api/v1/jobs").startswith("answered {")
    assert page.evaluate(LISTEN, f"{root}api/v1/jobs/stream") == "heard"
    expect(page.get_by_role("heading", name="The API server does not answer")).to_be_visible()
    expect(page.locator(".empty", has=page.locator("h2"))).to_contain_text("does not answer: connection refused.")
    # The token is neither in the address nor with scripts, and no other server gets the cookie.
    assert page.url.startswith(root)
    assert "token" not in page.url
    assert page.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
    assert page.evaluate("performance.getEntriesByType('navigation')[0].name").partition("?")[0] == root
    assert len(page.context.cookies(root)) == 1
    assert page.context.cookies("http://127.0.0.1:9/") == []
    page.reload()
    expect(page.locator("#link")).to_have_text("API server lost")


def test_a_page_of_another_site_reads_frames_and_holds_nothing(page: Page, root: str) -> None:
    with foreign_site() as site:
        other = beside(page, site)
        for path in ("", "api/v1/jobs", "js/main.js", "api/v1/jobs/default/job/series"):
            assert other.evaluate(ASK, root + path) == "TypeError", path
        assert other.evaluate(LISTEN, f"{root}api/v1/jobs/stream") == "refused"
        load = """(address) => new Promise((done) => {
          const script = document.createElement("script");
          script.src = address;
          script.onload = () => done("loaded");
          script.onerror = () => done("refused");
          document.head.append(script);
        })"""
        assert other.evaluate(load, f"{root}js/early.js") == "refused"
        with page.context.expect_page() as opened:
            other.evaluate("(address) => { window.held = open(address); }", root)
        expect(opened.value.locator("#link")).to_be_visible()
        assert opened.value.evaluate("window.opener") is None
        assert other.evaluate("window.held.closed")
        with other.expect_event("framenavigated", lambda one: one.url not in {"", "about:blank", site}) as navigated:
            other.evaluate(
                "(address) => { const frame = document.createElement('iframe');"
                " frame.src = address; document.body.append(frame); }",
                root,
            )
        assert navigated.value.url.startswith("chrome-error:")


def test_another_name_for_this_machine_is_refused(page: Page, address: str) -> None:
    # As after DNS rebinding: a name of somebody else that resolves to 127.0.0.1, with the token even.
    rebound = address.replace("127.0.0.1", "rebound.localhost")
    other = beside(page, rebound)
    expect(other.locator("body")).to_contain_text("127.0.0.1")
    assert other.locator("#main").count() == 0
    assert "ForeignHost" in other.evaluate(ASK, rebound.partition("?")[0] + "api/v1/jobs")
    assert other.context.cookies(rebound.partition("?")[0]) == []


def test_what_is_injected_does_not_run(page: Page, window: Window) -> None:
    # As if text of the cluster had become HTML after all.
    with foreign_site() as site:
        done = page.evaluate(
            """async (site) => {
              const refused = new Map();
              const all = ["script-src-elem", "script-src-attr", "form-action", "base-uri", "connect-src"];
              const seen = new Promise((done) => document.addEventListener("securitypolicyviolation", (event) => {
                refused.set(event.effectiveDirective, event.blockedURI);
                if (all.every((directive) => refused.has(directive))) done();
              }));
              const inline = document.createElement("script");
              inline.textContent = "window.ran = 'inline'";
              const foreign = document.createElement("script");
              foreign.src = site;
              document.body.append(inline, foreign);
              const holder = document.createElement("div");
              holder.innerHTML = `<img src="data:," onerror="window.ran = 'handler'">
                <a id=injected href="javascript:window.ran = 'address'">x</a>
                <iframe srcdoc="<script>parent.ran = 'frame'</script>"></iframe>
                <form action=${site}><button id=send>x</button></form>
                <base href=${site}>`;
              document.body.append(holder);
              await new Promise((done) => { holder.querySelector("iframe").onload = done; });
              holder.querySelector("#injected").click();
              holder.querySelector("#send").click();
              const sent = await fetch(site).then(() => "sent", (error) => error.name);
              await seen;
              return [window.ran ?? null, sent, document.baseURI, location.href];
            }""",
            site,
        )
        assert done[:2] == [None, "TypeError"]
        assert site not in done[2]
        assert site not in done[3]
    page.close()
    assert any("Content Security Policy" in one for one in window.complaints)
    # What is left are notes of Chromium about what was refused.
    window.expects("Content Security|Failed to load")


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong"])
def test_without_the_token_there_is_nothing_but_what_to_do(root: str, window: Window, query: str) -> None:
    page = window.open(root + query)
    expect(page.locator("body")).to_contain_text("trainwright dashboard")
    assert page.locator("#main, script").count() == 0
    assert "NoToken" in page.evaluate(ASK, f"{root}api/v1/jobs")
    window.expects("403")
