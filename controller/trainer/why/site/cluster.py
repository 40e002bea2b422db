# SPDX-License-Identifier: Apache-2.0
"""Whether Kubernetes, JobSet and the definitions are there and have versions that work."""

import re
from collections.abc import Iterator
from typing import Any

from trainwright.api.objects import Document, dig, wire
from trainwright.controller.trainer.why.messages import WEBHOOK_FAILED
from trainwright.controller.trainer.why.site.survey import (
    JOBSET_DEFINITION,
    JOBSET_GROUP,
    TRAINER_GROUP,
    SiteSurvey,
    containers_of,
    note,
    problem,
    warning,
)
from trainwright.controller.trainer.why.words import listed
from trainwright.plugins.contract.picture import Cause, condition_of

_PROSE = frozenset({"description", "example", "externalDocs", "title"})
OLDEST, NEWEST = (1, 31), (1, 36)
"""The minor versions that the tests run with, and those between them: docs/admins/versions.md."""
_JOBSET_VERSION = "v1alpha2"
_TRIED = ((0, 10), (0, 12))
"""The minor versions that the tests run with: docs/admins/versions.md."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_TAG = re.compile(r":v?(\d+)\.(\d+)\.\d+")


def kubernetes(site: SiteSurvey) -> Iterator[Cause]:
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


def definitions(site: SiteSurvey) -> Iterator[Cause]:
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


def jobset(site: SiteSurvey) -> Iterator[Cause]:
    """JobSet is installed, in a version that was tried, and knows what the runtimes set."""
    versions = site.groups.get(JOBSET_GROUP)
    if versions is None:
        yield problem(
            "JobSet is not installed, and TrainJobs run as JobSets", "install JobSet (https://jobset.sigs.k8s.io)"
        )
        return
    if _JOBSET_VERSION not in versions:
        yield problem(
            f"JobSet serves {', '.join(sorted(versions))} and not {JOBSET_GROUP}/{_JOBSET_VERSION}",
            "install a newer JobSet",
        )
        return
    if _is_too_old(site):
        yield problem(
            "JobSet is too old: its definition lacks replicatedJobs[].groupName, which each runtime sets, so every "
            "JobSet of a TrainJob is refused",
            "install JobSet 0.10 or later",
        )
        return
    yield from _unknown_to_it(site)
    for deployment in site.jobset_managers:
        for container in containers_of(deployment):
            found = _TAG.search(container.get("image") or "")
            if found and (int(found[1]), int(found[2])) not in _TRIED:
                tried = ", ".join(f"{major}.{minor}" for major, minor in _TRIED)
                yield note(
                    f"JobSet {found[1]}.{found[2]} is installed; tried is {tried}",
                    "nothing if jobs run; else install the version that was tried",
                )


def _is_too_old(site: SiteSurvey) -> bool:
    """As JobSet 0.8. A dry run of an apply would tell the same, but needs the right to change JobSets."""
    fields = _properties(_spec_schema(site), "replicatedJobs")
    return bool(fields) and "groupName" not in (dig(fields, "items.properties") or {})


def _unknown_to_it(site: SiteSurvey) -> Iterator[Cause]:
    """What runtimes set and this JobSet does not know: it refuses their JobSets, since the manager applies them."""
    schema = _spec_schema(site)
    if not schema:
        return
    by_field: dict[str, list[str]] = {}
    for one in site.if_read("rendered") or ():
        template = dig(wire(one.runtime), "spec.template") or {}
        for field in dict.fromkeys(_unknown(schema, template.get("spec"), "")):
            by_field.setdefault(field, []).append(one.title)
    for field, titles in by_field.items():
        yield problem(
            f"JobSet does not know the field {field} of {listed(titles)}, and refuses their jobs",
            "install a newer JobSet, or take the field out of the runtime",
        )


def _unknown(schema: Document, value: object, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _unknown(schema.get("items") or {}, each, f"{path}[]")
    elif isinstance(value, dict) and schema.get("properties") and not schema.get(_PRESERVE):
        for name, each in value.items():
            where = f"{path}.{name}" if path else name
            if name not in schema["properties"]:
                yield where
            else:
                yield from _unknown(schema["properties"][name], each, where)


def _spec_schema(site: SiteSurvey) -> Document:
    """Of a JobSet; empty if it cannot be read. Who may not read definitions is told so by the check of definitions."""
    definition = (site.if_read("definitions") or {}).get(JOBSET_DEFINITION)
    for version in dig(definition, "spec.versions") or ():
        if version["name"] == _JOBSET_VERSION:
            return _properties(version["schema"]["openAPIV3Schema"], "spec")
    return {}


def _properties(schema: Document, name: str) -> Document:
    found: Document = (schema.get("properties") or {}).get(name) or {}
    return found


def jobset_answer(site: SiteSurvey) -> Iterator[Cause]:
    """JobSet's webhooks answer: a JobSet passes as a dry run."""
    if not site.has_group(JOBSET_GROUP):
        return
    probe = site.jobset_probe
    if probe.code == 201:
        return
    failed = WEBHOOK_FAILED.search(probe.message)
    if failed:
        yield problem(
            f"JobSet's webhook {failed[1]} does not answer, so no JobSet can be made: {probe.message}",
            f"look whether JobSet's controller runs: {site.jobset_pods}",
        )
    else:
        yield problem(f"a JobSet is refused: {probe.message}", "correct what the message names")
