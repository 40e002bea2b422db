# SPDX-License-Identifier: Apache-2.0
"""The part that answers the webhooks for TrainJobs and runtimes."""

import logging

from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.controller.trainer.admission.trainjobs import TrainJobAdmission
from trainwright.controller.trainer.assembly.features import RECOVERY, TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.installation import LOOPBACK
from trainwright.controller.trainer.assembly.parts import Assembly, Grants

log = logging.getLogger(__name__)


def rights(grants: Grants) -> None:
    # Imported here and below, because the library that makes certificates costs 8 MiB of memory, and time.
    from trainwright.controller.runtime import CertificateVault, Webhooks  # noqa: PLC0415

    settings = grants.settings
    grants.on_jobs(*Webhooks.rules(webhook_configurations(), managed=settings.own_certificates))
    if settings.own_certificates:
        grants.on_own(*CertificateVault.rules(settings.secret))


async def declare(assembly: Assembly) -> None:
    if not assembly.is_reached:
        log.info("not serving webhooks: this process runs outside of the cluster and has no --webhook-url")
        return
    from trainwright.controller.trainer.assembly.serving import handlers_of, keep_local_certificate, serve_webhooks  # noqa: PLC0415

    manager, settings = assembly.manager, assembly.settings
    admission = TrainJobAdmission(
        manager.client,
        manager.cache,
        assembly.pipeline,
        assembly.facts,
        assembly.snapshots.runtimes,
        assembly.snapshots,
        assembly.events.defects,
        cleans_up=settings.cleanup is not None,
        recovers=RECOVERY in settings.features,
    )
    if assembly.answer_here is not None:
        assembly.answer_here(handlers_of(admission))
        if TRAIN_JOB_STATUS in settings.features:
            keep_local_certificate(assembly, LOOPBACK)
        return
    await serve_webhooks(assembly, admission)
