# SPDX-License-Identifier: Apache-2.0
"""The part of what the manager itself does as a process: it serves metrics and takes part in the election."""

from trainwright.controller.runtime import BearerAccess, LeaseLock
from trainwright.controller.trainer.assembly.parts import Assembly, Grants


def rights(grants: Grants) -> None:
    settings = grants.settings
    if settings.metrics_address is not None and settings.metrics_access:
        grants.on_jobs(*BearerAccess.RULES)
    if settings.election is not None:
        grants.on_own(*LeaseLock.rules(settings.election.name), namespace=settings.election.namespace)


def declare(assembly: Assembly) -> None:
    """Make the certificate of the metrics if no webhook server makes one; the manager serves them itself."""
    server = assembly.manager.servers.get("metrics")
    if server is not None and assembly.settings.metrics_tls and not assembly.is_reached:
        # Imported here, because the library that makes certificates costs memory and time.
        from trainwright.controller.trainer.assembly.serving import serve_self_signed  # noqa: PLC0415

        serve_self_signed(assembly.serving, server.host)
