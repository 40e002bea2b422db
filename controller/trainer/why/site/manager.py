# SPDX-License-Identifier: Apache-2.0
"""Whether exactly one manager works, has the rights that it needs, and is reached by its webhooks."""

import datetime as dt
from base64 import b64decode
from collections.abc import Iterator
from datetime import timedelta

from trainwright.api.objects import Document, dig, name_of, namespace_of
from trainwright.api.times import parse
from trainwright.controller.trainer.why.kinds import DEFAULT_HOME, SERVICE
from trainwright.controller.trainer.why.site.survey import (
    TRAINER_GROUP,
    Probe,
    SiteSurvey,
    groups_of,
    note,
    problem,
    services_of,
    warning,
)
from trainwright.plugins.contract.picture import Cause

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
