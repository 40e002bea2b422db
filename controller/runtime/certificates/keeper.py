# SPDX-License-Identifier: Apache-2.0
"""Keeps a server's certificate, its Secret and the CA in webhook configurations right, on every replica at once.

Runs without leader election, because a replica that does not lead serves admission too. Each pass looks at the Secret,
makes the configurations trust what it says, takes the steps that are due, one by one, and serves the certificate. A
pass follows every event of the Secret and the configurations, and every date at which something falls due. Where
nothing is to be done a pass writes nothing.

Guarantees: replicas that start at once end with one authority. An authority signs only when the configurations held it
for `overlap`; while they cannot be made right, nothing is renewed and the last certificate stays.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.controller.runtime.cache.events import Event
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.cache.scope import Scope
from trainwright.controller.runtime.certificates.authority import certificate_pem, key_pem
from trainwright.controller.runtime.certificates.injection import Target, bundles, fetch, inject
from trainwright.controller.runtime.certificates.material import Material
from trainwright.controller.runtime.certificates.rotation import Policy, next_due, next_step
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.certificates.vault import Vault
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.errors import AlreadyExists, CertificateError, Conflict, KubernetesError
from trainwright.controller.runtime.kinds import MetadataOnly
from trainwright.controller.runtime.objects import AnyObject
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)

LONGEST_SECONDS = 12 * 3600.0
"""Between two passes, whatever falls due."""
SHORTEST_SECONDS = 0.5
RETRY_SECONDS = (1.0, 60.0)
"""First and longest pause after a pass that failed."""


@dataclass
class KeeperStatistics:
    """What the keeper did since it was made."""

    passes: int = 0
    writes: int = 0
    """Of the Secret, by this replica."""
    injections: int = 0
    loads: int = 0
    last_error: str = ""
    trusted: dict[str, bytes] = field(default_factory=dict)
    """By configuration and webhook: the CA bundle that the API server has, when last looked at."""


class CertificateKeeper:
    """A runnable for one Secret, one serving certificate and any number of configurations."""

    def __init__(
        self,
        client: Client,
        vault: Vault,
        serving: ServingCertificate,
        *,
        hosts: Sequence[str],
        targets: Sequence[Target] = (),
        policy: Policy | None = None,
        field_manager: str = "webhook-certificates",
        now: Now = wall_clock,
    ) -> None:
        """`hosts`: the names under which the API server reaches this server."""
        self._client = client
        self._vault = vault
        self._serving = serving
        self._hosts = list(hosts)
        self._targets = list(targets)
        self._policy = policy or Policy()
        self._field_manager = field_manager
        self._now = now
        self._wake = asyncio.Event()
        self.ready = asyncio.Event()
        """Set once a certificate is served."""
        self.material: Material | None = None
        self.statistics = KeeperStatistics()

    async def run(self) -> None:
        """Keep until cancelled. What the API server refuses is logged and tried again."""
        async with TaskScope("certificates") as tasks:
            for informer in self._informers():
                informer.add_handler(self._woken)
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

    async def look(self) -> Material:
        """One pass. Raises KubernetesError."""
        self.statistics.passes += 1
        while True:
            held = await self._vault.read()
            if isinstance(held.material, Material):
                self.material = held.material
                await self._inject_or_serve_the_first(held.material)
            step = await asyncio.to_thread(
                next_step, held.material, self._policy, self._hosts, self._now(), last=self.material
            )
            if step is None:
                assert isinstance(held.material, Material)
                self._serve(held.material)
                return held.material
            try:
                await self._vault.write(step.material, held)
            except (Conflict, AlreadyExists):
                continue  # another replica was faster; see what it did
            self.statistics.writes += 1
            log.info("Secret %s/%s: %s", self._vault.namespace, self._vault.name, step.why)

    async def _inject_or_serve_the_first(self, material: Material) -> None:
        """Nothing moves on while the configurations cannot be made right; but something must be served."""
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

    async def _inject_one(self, target: Target) -> bool:
        """Make one configuration right; False to look again."""
        configuration = await fetch(self._client, target)
        if configuration is None:
            for known in [known for known in self.statistics.trusted if known.startswith(f"{target}/")]:
                del self.statistics.trusted[known]
            return True
        held = await self._vault.read()  # after the configuration: never older than what it says
        if not isinstance(held.material, Material):
            raise CertificateError(f"Secret {self._vault.namespace}/{self._vault.name}: {held.material}")
        bundle = held.material.bundle
        try:
            changed = await inject(self._client, configuration, bundle, field_manager=self._field_manager)
        except Conflict:
            return False
        if changed:
            self.statistics.injections += 1
            log.info("%s: the CA bundle was renewed", target)
        for name in bundles(configuration):
            self.statistics.trusted[f"{target}/{name}"] = bundle
        return True

    def _serve(self, material: Material) -> None:
        leaf = material.leaf
        if self._serving.load(certificate_pem(leaf.certificate), key_pem(leaf.key)):
            self.statistics.loads += 1
            log.info("serving a certificate that is valid until %s", leaf.certificate.not_valid_after_utc)
        self.ready.set()

    async def _rest(self, due: timedelta) -> None:
        seconds = min(max(due.total_seconds(), SHORTEST_SECONDS), LONGEST_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            log.debug("certificates: something may have fallen due")

    def _informers(self) -> list[Informer]:
        """Watches that only wake: what they bring is read again."""
        secret = Scope(self._vault.namespace, "", f"metadata.name={self._vault.name}")
        watched = [(MetadataOnly(Secret), secret)]
        watched += [(MetadataOnly(t.kind), Scope("", "", f"metadata.name={t.name}")) for t in self._targets]
        return [Informer(self._client, kind, scope) for kind, scope in watched]

    def _woken(self, _: Event[AnyObject]) -> None:
        self._wake.set()

    def _complain(self, error: str) -> None:
        if error != self.statistics.last_error:
            log.error("certificates: %s", error)
        self.statistics.last_error = error
