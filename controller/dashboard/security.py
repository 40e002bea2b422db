# SPDX-License-Identifier: Apache-2.0
"""Access: only the browser that opened the address with the token gets answers, and no page of another site.

Other programs and web pages of this machine can reach the port. The token keeps programs and other users out. Browsers
send a cookie to each port of 127.0.0.1, so another local server would be given it: the cookie is for a path that holds
a secret, to which browsers send it here alone, and where alone it counts. A page of another site has no cookie
(SameSite), may not read answers (Origin, Fetch Metadata), and cannot pretend to be this site by a name of its own that
resolves to 127.0.0.1 (Host; https://en.wikipedia.org/wiki/DNS_rebinding).

A request that changes something is a POST of this page itself: it must name its Origin, and bring a token that only
pages of this session can read.

While a local cluster does not run, another program may take its port, and a page that waits would send it the cookie.
So before a page that lost its server sends anything else, it asks `/proof` for something that only this server knows.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from trainwright.controller.dashboard.contract import PageProblem
from trainwright.controller.dashboard.keys import Keys

HOSTS = frozenset({"127.0.0.1", "localhost"})
"""The names under which it answers, on any port: ssh may forward another one."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
    "Server": "trainwright",
}
"""Of every answer."""
PROOF = "/proof"
"""Where a page asks whether this is the server that it knows."""
ACTION_HEADER = "X-Trainwright-Action"
_ACTION = re.compile(r"/api/v1/jobs/[^/]+/[^/]+/actions/[a-z]+")
"""What may be asked with POST, below the place."""
_OWN_SITES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site: this page, or the user's own doing. Older browsers send no such header."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    token: str | None


def refusal(keys: Keys, asked: PageRequest, cookie: str) -> PageProblem | None:
    """Why a request is not answered; None: it is. `cookie`: its name."""
    return _foreign(keys, asked) or _unknown(keys, asked, cookie)


def _foreign(keys: Keys, asked: PageRequest) -> PageProblem | None:
    """What comes from other sites, and under other names of this machine."""
    host = asked.headers.get("Host", "")
    if _name(host) not in HOSTS:
        return _refused("ForeignHost", "this server answers only under the names 127.0.0.1 and localhost")
    origin = asked.headers.get("Origin")
    if origin is not None and origin.lower() != f"http://{host}".lower():
        return _refused("ForeignOrigin", "this server answers no pages of other sites")
    is_entry = asked.path in ("/", f"{keys.place}/") and asked.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
    if not is_entry and asked.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
        return _refused("ForeignOrigin", "this server answers no pages of other sites")
    return None


def _unknown(keys: Keys, asked: PageRequest, cookie: str) -> PageProblem | None:
    """What lacks the token, or wants to change something and may not."""
    is_action = asked.method == "POST" and _ACTION.fullmatch(asked.path.removeprefix(keys.place)) is not None
    if asked.method != "GET" and not is_action:
        return PageProblem(code=405, reason="MethodNotAllowed", message="the dashboard only reads here: use GET")
    if asked.method == "GET" and asked.path == PROOF:
        return None  # it tells nothing
    is_inside = _same(asked.path[: len(keys.place) + 1], f"{keys.place}/")
    if not is_entering(keys, asked) and not (is_inside and _same(asked.cookies.get(cookie), keys.session)):
        return _refused(
            "NoToken", "open the address that the dashboard printed: it holds the token that this page lacks"
        )
    if is_action and ("Origin" not in asked.headers or not _same(asked.headers.get(ACTION_HEADER), keys.action)):
        return _refused("ForeignOrigin", "only the page of this dashboard itself may change something")
    return None


def is_entering(keys: Keys, asked: PageRequest) -> bool:
    return asked.method == "GET" and asked.path == "/" and _same(asked.token, keys.token)


def cookie_of(keys: Keys, name: str) -> str:
    """The value of Set-Cookie. Cookies do not know ports, so the name has to."""
    return f"{name}={keys.session}; Path={keys.place}; HttpOnly; SameSite=Strict"


def cookie_name(port: int) -> str:
    return f"trainwright-dashboard-{port}"


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "") if "@" not in host else ""
    except ValueError:
        return ""


def _same(given: str | None, expected: str) -> bool:
    return given is not None and secrets.compare_digest(given.encode(errors="replace"), expected.encode())


def _refused(reason: str, message: str) -> PageProblem:
    return PageProblem(code=403, reason=reason, message=message)
