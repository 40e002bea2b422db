# SPDX-License-Identifier: Apache-2.0
"""Who gets an answer: the browser that opened the address with the token, and no page of another site.

Other programs and web pages of this machine can reach the port. The token keeps programs and other users out. Browsers
send a cookie to each port of 127.0.0.1, so another local server would be given it: the cookie is for a path that holds
a secret, to which browsers send it here alone, and where alone it counts. A page of another site has no cookie
(SameSite), may not read answers (Origin, Fetch Metadata), and cannot pretend to be this site by a name of its own that
resolves to 127.0.0.1 (Host; https://en.wikipedia.org/wiki/DNS_rebinding).
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from trainwright.controller.cli.dashboard.contract import Problem

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
_OWN_SITES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site: this page, or the user's own doing. Older browsers send no such header."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request counts here."""

    method: str
    path: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    token: str | None
    """The parameter `token` of `/`."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides about requests."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """In the address that the user opens."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """In the cookie that the token is exchanged for."""
    place: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}", repr=False)
    """The path below which the page and its data are, and to which the cookie goes."""

    def refusal(self, asked: Asked, cookie: str) -> Problem | None:
        """Why a request is not answered; None: it is. `cookie`: its name."""
        host = asked.headers.get("Host", "")
        if _name(host) not in HOSTS:
            return _refused("ForeignHost", "this server answers only under the names 127.0.0.1 and localhost")
        origin = asked.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host}".lower():
            return _refused("ForeignOrigin", "this server answers no pages of other sites")
        is_entry = (
            asked.path in ("/", f"{self.place}/") and asked.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        )
        if not is_entry and asked.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
            return _refused("ForeignOrigin", "this server answers no pages of other sites")
        if asked.method != "GET":
            return Problem(code=405, reason="MethodNotAllowed", message="the dashboard only reads: use GET")
        is_inside = _same(asked.path[: len(self.place) + 1], f"{self.place}/")
        if not self.is_entering(asked) and not (is_inside and _same(asked.cookies.get(cookie), self.session)):
            return _refused(
                "NoToken",
                "open the address that `trainwright dashboard` printed: it holds the token that this page lacks",
            )
        return None

    def is_entering(self, asked: Asked) -> bool:
        """Whether the request brings the token, for the cookie."""
        return asked.path == "/" and _same(asked.token, self.token)

    def cookie(self, name: str) -> str:
        """The value of Set-Cookie. Cookies do not know ports, so the name has to."""
        return f"{name}={self.session}; Path={self.place}; HttpOnly; SameSite=Strict"


def cookie_name(port: int) -> str:
    """The name of the cookie of the server on a port."""
    return f"trainwright-dashboard-{port}"


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "") if "@" not in host else ""
    except ValueError:
        return ""


def _same(given: str | None, expected: str) -> bool:
    return given is not None and secrets.compare_digest(given.encode(errors="replace"), expected.encode())


def _refused(reason: str, message: str) -> Problem:
    return Problem(code=403, reason=reason, message=message)
