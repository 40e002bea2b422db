# SPDX-License-Identifier: Apache-2.0
"""Keeps the server certificate, its Secret and the CA bundle of the webhook configurations current, on every replica.

It runs without leader election, because replicas that do not lead also serve admission. Each pass reads the Secret,
sets the CA bundle of the configurations, takes the steps that are due one by one, and loads the certificate. A pass
follows every event of the Secret and the configurations, and every due date. If nothing is due, a pass writes nothing.

Guarantees: replicas that start at the same time agree on one authority. An authority signs only after the
configurations have trusted it for `overlap`. While the configurations cannot be updated, nothing is renewed and the
last certificate stays in use.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.times import Now, wall_clock
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.cache.reflector import CacheScope
from trainwright.controller.runtime.certificates.authority import key_pem, strict_defects
from trainwright.controller.runtime.certificates.configurations import (
    FIELD_MANAGER,
    InjectionTarget,
    bundles,
    fetch_configuration,
    inject,
)
from trainwright.controller.runtime.certificates.material import CertificateMaterial, CertificateVault
from trainwright.controller.runtime.certificates.rotation import RotationPolicy, next_due, next_step
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import AlreadyExists, CertificateError, Conflict, KubernetesError
from trainwright.controller.runtime.kinds import MetadataOnly
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)

LONGEST_SECONDS = 12 * 3600.0
"""Longest time between two passes."""
SHORTEST_SECONDS = 0.5
RETRY_SECONDS = (1.0, 60.0)
"""First and longest pause after a failed pass."""


@dataclass
class KeeperStatistics:
    """What the keeper has done since its start."""

    passes: int = 0
    writes: int = 0
    """Writes of the Secret by this replica."""
    injections: int = 0
    loads: int = 0
    last_error: str = ""
    trusted: dict[str, bytes] = field(default_factory=dict)
    """The last seen CA bundle, by configuration and webhook."""


class CertificateKeeper:
    """A runnable for one Secret, one serving certificate and any number of configurations."""

    def __init__(
        self,
        client: Client,
        vault: CertificateVault,
        serving: ServingCertificate,
        *,
        hosts: Sequence[str],
        targets: Sequence[InjectionTarget] = (),
        policy: RotationPolicy | None = None,
        field_manager: str = FIELD_MANAGER,
        now: Now = wall_clock,
    ) -> None:
        """`hosts`: the host names of this server for the API server."""
        self._client = client
        self._vault = vault
        self._serving = serving
        self._hosts = list(hosts)
        self._targets = list(targets)
        self._policy = policy or RotationPolicy()
        self._field_manager = field_manager
        self._now = now
        self._wake = asyncio.Event()
        self.ready = asyncio.Event()
        """Set once a certificate is loaded."""
        self.material: CertificateMaterial | None = None
        self.statistics = KeeperStatistics()

    async def run(self) -> None:
        """Run passes until cancelled. Errors of the API server are logged and retried."""
        async with TaskScope("certificates") as tasks:
            for informer in self._informers():
                informer.add_handler(lambda _: self._wake.set())
                tasks.start(f"watch:{informer.resource.plural}", informer.run())
            pause = RETRY_SECONDS[0]
            while True:
                self._wake.clear()
                try:
                    material = await self.look()
                except KubernetesError as error:
                    self._complain(str(error))
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, RETRY_SECONDS[1])
                    continue
                self.statistics.last_error = ""
                pause = RETRY_SECONDS[0]
                await self._rest(next_due(material, self._policy) - self._now())

    async def look(self) -> CertificateMaterial:
        """One pass. Raises KubernetesError."""
        self.statistics.passes += 1
        while True:
            held = await self._vault.read()
            if isinstance(held.material, CertificateMaterial):
                self.material = held.material
                await self._inject_or_serve_the_first(held.material)
            step = await asyncio.to_thread(
                next_step, held.material, self._policy, self._hosts, self._now(), last=self.material
            )
            if step is None:
                assert isinstance(held.material, CertificateMaterial)
                self._serve(held.material)
                return held.material
            try:
                await self._vault.write(step.material, held)
            except (Conflict, AlreadyExists):
                continue  # another replica was faster; read again
            self.statistics.writes += 1
            log.info("Secret %s/%s: %s", self._vault.namespace, self._vault.name, step.why)

    async def _inject_or_serve_the_first(self, material: CertificateMaterial) -> None:
        """Stop the pass if the configurations cannot be updated, but load a certificate if none is loaded yet."""
        try:
            await self._inject()
        except KubernetesError:
            if not self._serving.fingerprint:
                self._serve(material)
            raise

    async def _inject(self) -> None:
        for target in self._targets:
            while not await self._inject_one(target):
                pass

    async def _inject_one(self, target: InjectionTarget) -> bool:
        """Update one configuration; False if it has changed and must be read again."""
        configuration = await fetch_configuration(self._client, target)
        if configuration is None:
            for known in [known for known in self.statistics.trusted if known.startswith(f"{target}/")]:
                del self.statistics.trusted[known]
            return True
        held = await self._vault.read()  # read after the configuration, so the Secret is not older
        if not isinstance(held.material, CertificateMaterial):
            raise CertificateError(f"Secret {self._vault.namespace}/{self._vault.name}: {held.material}")
        bundle = held.material.bundle
        try:
            changed = await inject(self._client, configuration, bundle, field_manager=self._field_manager)
        except Conflict:
            return False
        if changed:
            self.statistics.injections += 1
            log.info("%s: set the CA bundle", target)
        for name in bundles(configuration):
            self.statistics.trusted[f"{target}/{name}"] = bundle
        return True

    def _serve(self, material: CertificateMaterial) -> None:
        leaf = material.leaf
        if self._serving.load(material.served, key_pem(leaf.key)):
            self.statistics.loads += 1
            log.info("loaded a certificate that is valid until %s", leaf.certificate.not_valid_after_utc)
            self._warn_of(material)
        self.ready.set()

    def _warn_of(self, material: CertificateMaterial) -> None:
        """An authority that another program made may lack what strict clients want; this program's have it."""
        if defects := strict_defects(material.signing.certificate):
            log.warning(
                "Secret %s/%s: clients that verify strictly, such as Python 3.13 and later, refuse certificates of this"
                " authority, because %s; delete the Secret while the manager runs to replace the authority",
                self._vault.namespace,
                self._vault.name,
                " and ".join(defects),
            )

    async def _rest(self, due: timedelta) -> None:
        seconds = min(max(due.total_seconds(), SHORTEST_SECONDS), LONGEST_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            log.debug("certificates: a step may be due")

    def _informers(self) -> list[Informer]:
        """Watches that only wake this task; the objects are read again."""
        secret = CacheScope(self._vault.namespace, "", f"metadata.name={self._vault.name}")
        watched = [(MetadataOnly(Secret), secret)]
        watched += [(MetadataOnly(t.kind), CacheScope("", "", f"metadata.name={t.name}")) for t in self._targets]
        return [Informer(self._client, kind, scope) for kind, scope in watched]

    def _complain(self, error: str) -> None:
        if error != self.statistics.last_error:
            log.error("certificates: %s", error)
        self.statistics.last_error = error
