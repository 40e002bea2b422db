# SPDX-License-Identifier: Apache-2.0
"""Whether Kubernetes and the CustomResourceDefinitions have a version that works."""

import re
from collections.abc import Iterator
from typing import Any

from trainwright.api.objects import dig
from trainwright.controller.trainer.why.site.survey import (
    TRAINER_GROUP,
    SiteFinding,
    SiteSurvey,
    note,
    problem,
    warning,
)
from trainwright.plugins.contract import condition_of

_PROSE = frozenset({"description", "example", "externalDocs", "title"})
OLDEST, NEWEST = (1, 31), (1, 36)
"""The minor versions that the tests run with, and those between them: docs/admins/versions.md."""


def kubernetes(site: SiteSurvey) -> Iterator[SiteFinding]:
    """Not older than the oldest that the tests run with."""
    found = re.match(r"v?(\d+)\.(\d+)", site.version)
    if found is None:
        return
    minor = (int(found[1]), int(found[2]))
    if minor < OLDEST:
        yield warning(
            f"Kubernetes {minor[0]}.{minor[1]} is not supported; the oldest that is tried is {OLDEST[0]}.{OLDEST[1]}",
            "upgrade the cluster",
        )
    elif minor > NEWEST:
        yield note(
            f"Kubernetes {minor[0]}.{minor[1]} was not tried; the newest that was is {NEWEST[0]}.{NEWEST[1]}",
            "nothing if jobs run; else report what fails",
        )


def definitions(site: SiteSurvey) -> Iterator[SiteFinding]:
    """Each definition is there and has the schema of this version."""
    found = site.definitions
    for name, shipped in sorted(site.shipped.items()):
        if not name.endswith("." + TRAINER_GROUP):
            continue
        if name not in found:
            yield problem(f"CustomResourceDefinition {name} is missing", "apply config/crd")
        elif (established := condition_of(found[name], "Established")) and established.get("status") != "True":
            yield problem(f"CustomResourceDefinition {name} is not established", f"kubectl describe crd {name}")
        elif site.is_trainwright and _schemas(found[name]) != _schemas(shipped):
            yield warning(f"CustomResourceDefinition {name} is of another version of Trainwright", "apply config/crd")


def _schemas(definition: dict[str, Any]) -> dict[str, Any]:
    versions = dig(definition, "spec.versions") or ()
    return {version["name"]: _structure(version.get("schema")) for version in versions}


def _structure(value: Any, *, in_properties: bool = False) -> Any:
    """The value without prose. Fields of an object may be called like prose, so they are kept."""
    if isinstance(value, list):
        return [_structure(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _structure(one, in_properties=name == "properties" and not in_properties)
        for name, one in value.items()
        if in_properties or name not in _PROSE
    }
