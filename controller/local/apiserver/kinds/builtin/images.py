# SPDX-License-Identifier: Apache-2.0
"""Names of container images, as far as the pull policy depends on them."""

import re

_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
)


def pull_policy(image: str) -> str:
    """The default `imagePullPolicy`: Always for the tag `latest`, also when it is implied, else IfNotPresent."""
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    """The tag; `latest` if neither tag nor digest is given; empty if this is not the name of an image."""
    found = _REFERENCE.fullmatch(image)
    if found is None or _IDENTIFIER.fullmatch(image):
        return ""
    if found["tag"]:
        return found["tag"]
    return "" if found["digest"] else "latest"
