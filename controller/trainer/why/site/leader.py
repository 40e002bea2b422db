# SPDX-License-Identifier: Apache-2.0
"""Whether exactly one manager works, and has the rights that it needs."""

from collections.abc import Iterator
from datetime import timedelta

from trainwright.api.objects import Document, dig, namespace_of
from trainwright.api.times import parse
from trainwright.controller.trainer.why.site.survey import (
    DEFAULT_HOME,
    Probe,
    SiteFinding,
    SiteSurvey,
    problem,
    warning,
)

_PATIENCE = timedelta(seconds=5)
"""Clocks differ, and a renewal takes a moment."""


def leads(site: SiteSurvey) -> Iterator[SiteFinding]:
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


def one_manager(site: SiteSurvey) -> Iterator[SiteFinding]:
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


def rights(site: SiteSurvey) -> Iterator[SiteFinding]:
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


def clock(site: SiteSurvey) -> Iterator[SiteFinding]:
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
    configuration = site.configuration or {}
    section = configuration.get("leaderElection")
    return section is None or bool(section.get("leaderElect"))


def _is_held(site: SiteSurvey, lease: Document) -> bool:
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 15)
    return bool(parse(spec["renewTime"]) + lasts + _PATIENCE >= site.now)
