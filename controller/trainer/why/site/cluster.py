# SPDX-License-Identifier: Apache-2.0
"""Whether Kubernetes, JobSet and the definitions are there and have versions that work; and whether exactly one manager
works, has the rights that it needs, and is reached by its webhooks.
"""

import datetime as dt
import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from trainwright.api.objects import Document, dig, name_of, namespace_of, wire
from trainwright.api.times import parse
from trainwright.controller.trainer.why.kinds import DEFAULT_HOME, SERVICE
from trainwright.controller.trainer.why.messages import WEBHOOK_FAILED
from trainwright.controller.trainer.why.site.survey import (
    JOBSET_DEFINITION,
    JOBSET_GROUP,
    TRAINER_GROUP,
    Probe,
    SiteSurvey,
    containers_of,
    groups_of,
    note,
    problem,
    services_of,
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


_PATIENCE = timedelta(seconds=5)
"""Clocks differ, and a renewal takes a moment."""
_SOON = dt.timedelta(days=7)


def leads(site: SiteSurvey) -> Iterator[Cause]:
    """A manager holds the Lease and renews it."""
    leases = site.leases
    if any(_is_held(site, lease) for lease in leases):
        return
    if leases:
        lease = max(leases, key=lambda one: dig(one, "spec.renewTime") or "")
        last = dig(lease, "spec.renewTime")
        renewed = f"was last renewed at {last}" if last else "was never renewed"
        yield problem(
            f"no manager works: Lease {namespace_of(lease)}/{lease['metadata']['name']} {renewed}",
            f"look whether the manager runs: {site.pods}",
        )
    elif not site.managers and _is_answered(site):
        return  # It runs elsewhere and alone, as that of a local cluster does.
    elif not site.managers:
        yield problem(
            "no manager is installed: there is neither its Deployment nor its Lease",
            "install it: make deploy, or helm install with charts/trainwright",
        )
    elif _elects(site):
        yield problem("no manager works: its Lease was never made", "look into the manager's log")


def one_manager(site: SiteSurvey) -> Iterator[Cause]:
    """Only one installation manages TrainJobs."""
    holders = [lease for lease in site.leases if _is_held(site, lease)]
    if len(holders) > 1:
        places = ", ".join(sorted(map(namespace_of, holders)))
        yield problem(
            f"two managers work on the same TrainJobs, in {places}",
            "remove one, or limit each to namespaces of its own",
        )
    elif len(site.managers) > 1:
        places = ", ".join(sorted(map(namespace_of, site.managers)))
        yield warning(f"there are managers of TrainJobs in {places}", "remove all but one")
    elif site.if_read("configuration") is not None and not _elects(site):
        replicas = sum(int(dig(manager, "spec.replicas") or 0) for manager in site.managers)
        if replicas > 1:
            yield problem(
                f"{replicas} replicas work on the same TrainJobs, since leaderElection.leaderElect is false",
                "turn the election on in the Configuration, or run a single replica",
            )


def rights(site: SiteSurvey) -> Iterator[Cause]:
    """The manager's service account has each right that its plugins and parts declare, where they declare it."""
    if not site.is_trainwright:
        return
    denied = [(site.only if rule.namespaced else "", rule, verb) for rule, verb in site.denied]
    denied += [(place, rule, verb) for place, lacking in site.denied_in.items() for rule, verb in lacking]
    by_resource: dict[str, list[str]] = {}
    for place, rule, verb in denied:
        resource = rule.resource if not rule.group else f"{rule.resource}.{rule.group}"
        named = f" {', '.join(rule.names)}" if rule.names else ""
        where = f" in namespace {place}" if place else ""
        by_resource.setdefault(f"{resource}{named}{where}", []).append(verb)
    for resource, verbs in sorted(by_resource.items()):
        yield problem(
            f"service account {site.account} may not {', '.join(sorted(set(verbs)))} {resource}, as the manager must",
            f"apply the roles that `trainwright rbac{_options(site)}` prints",
        )
    # Without its Configuration the rights of the default one were asked for.
    _ = site.configuration


def _options(site: SiteSurvey) -> str:
    """What `trainwright rbac` must be told to print the roles of this manager."""
    options = f" --namespace {site.home}" if site.home not in ("", DEFAULT_HOME) else ""
    if site.only:
        options += f" --only-namespace {site.only}"
    return options + (" --config FILE" if site.if_read("configuration") or site.feature_gates else "")


def clock(site: SiteSurvey) -> Iterator[Cause]:
    """The clock of this machine agrees with the API server's. Tokens and certificates depend on clocks."""
    if site.skew is not None and abs(site.skew) > 30:
        where = "ahead of" if site.skew > 0 else "behind"
        yield warning(
            f"the clock of this machine is {abs(site.skew):.0f} s {where} the API server's", "synchronise it (NTP)"
        )


def _is_answered(site: SiteSurvey) -> bool:
    """Whether webhooks refuse a TrainJob without a runtime, which a manager does."""
    probe: Probe | None = site.if_read("job_probe")
    return probe is not None and probe.code != 201 and "failed calling webhook" not in probe.message


def _elects(site: SiteSurvey) -> bool:
    section = (site.configuration or {}).get("leaderElection")
    return section is None or section.get("leaderElect") is not False


def _is_held(site: SiteSurvey, lease: Document) -> bool:
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 15)
    return bool(parse(spec["renewTime"]) + lasts + _PATIENCE >= site.now)


def answer(site: SiteSurvey) -> Iterator[Cause]:
    """A TrainJob passes the webhooks as a dry run: they refuse it, since its runtime does not exist."""
    if not site.has_group(TRAINER_GROUP):
        return
    probe = site.job_probe
    if probe.code == 201 and site.only not in {"", site.tried_in}:
        yield note(
            f"the manager manages the TrainJobs of namespace {site.only} only; nothing checks those of {site.tried_in}",
            f"look at that namespace: trainwright doctor --namespace {site.only}",
        )
    elif probe.code == 201:
        yield problem(
            "no webhook checks TrainJobs: one whose runtime does not exist would be accepted",
            "start the manager, and apply config/webhook where the manager does not register its webhooks itself",
        )
    elif "failed calling webhook" not in probe.message:
        return
    elif "x509" in probe.message or "certificate" in probe.message:
        yield problem(
            f"the API server does not trust the certificate of a webhook: {probe.message}",
            "the manager writes its CA into the webhook configurations: look into its log, and check its rights",
        )
    else:
        yield problem(
            f"a webhook of TrainJobs does not answer, so no TrainJob can be created: {probe.message}",
            f"look whether the manager is ready: {site.pods}",
        )


def targets(site: SiteSurvey) -> Iterator[Cause]:
    """The Service of each webhook exists. Webhooks of a removed installation refuse everything."""
    for configuration in site.webhooks:
        missing = {key for key in services_of(configuration) if site.one(SERVICE, key[1], key[0]) is None}
        for namespace, name in sorted(missing):
            kind = configuration.get("kind") or "WebhookConfiguration"
            yield problem(
                f"{kind} {name_of(configuration)} leads to Service {namespace}/{name}, which does not exist: what it "
                "checks cannot be created",
                f"kubectl delete {kind.lower()} {name_of(configuration)}, or install what it belongs to again",
            )


def certificates(site: SiteSurvey) -> Iterator[Cause]:
    """The authorities in the webhook configurations are valid for a while."""
    for configuration in site.webhooks:
        for hook in configuration.get("webhooks") or ():
            if TRAINER_GROUP not in groups_of([hook]):
                continue
            bundle = dig(hook, "clientConfig.caBundle")
            ends = latest_end(b64decode(bundle)) if bundle else None
            where = f"{configuration.get('kind')} {name_of(configuration)}, webhook {hook.get('name')}"
            if bundle and ends is None:
                yield problem(
                    f"{where}: caBundle holds no certificate", "delete the field; the manager writes it again"
                )
            elif ends is not None and ends < site.now:
                yield problem(f"{where}: its CA certificate ended at {ends:%Y-%m-%d %H:%M}", "restart the manager")
            elif ends is not None and ends < site.now + _SOON:
                yield warning(
                    f"{where}: its CA certificate ends at {ends:%Y-%m-%d %H:%M}",
                    "look whether the manager, or cert-manager, renews it: their logs say",
                )


def latest_end(pem: bytes) -> dt.datetime | None:
    """When the last certificate of a bundle ends; None if it holds none."""
    # Imported here: it costs a tenth of a second.
    from cryptography import x509  # noqa: PLC0415

    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return None
    return max(one.not_valid_after_utc for one in found)
