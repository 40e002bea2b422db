# SPDX-License-Identifier: Apache-2.0
"""Whether the API server reaches the webhooks of TrainJobs and trusts them, and whether none is left over."""

import datetime as dt
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from trainwright.api.objects import dig, name_of
from trainwright.controller.trainer.why.kinds import SERVICE
from trainwright.controller.trainer.why.site.survey import (
    TRAINER_GROUP,
    SiteFinding,
    SiteSurvey,
    note,
    problem,
    services_of,
    warning,
)

_SOON = dt.timedelta(days=7)


def answer(site: SiteSurvey) -> Iterator[SiteFinding]:
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


def targets(site: SiteSurvey) -> Iterator[SiteFinding]:
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


def certificates(site: SiteSurvey) -> Iterator[SiteFinding]:
    """The authorities in the webhook configurations are valid for a while."""
    for configuration in site.webhooks:
        for hook in configuration.get("webhooks") or ():
            if not _concerns_us(hook):
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


def _concerns_us(hook: dict[str, Any]) -> bool:
    return any(TRAINER_GROUP in (rule.get("apiGroups") or ()) for rule in hook.get("rules") or ())
