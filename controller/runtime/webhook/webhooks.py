# SPDX-License-Identifier: Apache-2.0
"""Admission of one process, put together: server, certificate, registration, readiness.

    hooks = Webhooks(manager.client, manager.metrics.registry, "0.0.0.0:9443", configurations=documents,
                     service=("hooks", "system"), certificates=Shared("hooks-cert", "system"))
    hooks.server.validate(Web, validate)
    manager.add(hooks, Group.WEBHOOKS, "webhooks")
    manager.readyz.add("webhooks", hooks.unready)

Three ways to a certificate: `Shared` (a Secret that the replicas keep together), `Folder` (files that somebody else
keeps), and outside of the cluster `ByURL` (made for this process, configurations registered and removed by it).
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from trainwright.controller.runtime.certificates.authority import certificate_pem, key_pem
from trainwright.controller.runtime.certificates.files import PERIOD_SECONDS, CertificateFiles
from trainwright.controller.runtime.certificates.keeper import CertificateKeeper
from trainwright.controller.runtime.certificates.material import Material
from trainwright.controller.runtime.certificates.rotation import Policy, next_step
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.certificates.vault import Vault
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.clock import wall_clock
from trainwright.controller.runtime.errors import ConfigurationError, KubernetesError
from trainwright.controller.runtime.objects import Document
from trainwright.controller.runtime.rights import READ, Rule
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.webhook.configurations import paths_of, target_of
from trainwright.controller.runtime.webhook.metrics import WebhookMetrics
from trainwright.controller.runtime.webhook.reach import Proof, Reach
from trainwright.controller.runtime.webhook.registration import Registration
from trainwright.controller.runtime.webhook.server import WebhookServer

log = logging.getLogger(__name__)

UNREGISTER_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Certificates of our own making, in a Secret that the replicas share."""

    secret: str
    namespace: str
    hosts: Sequence[str]
    """Names under which the API server reaches the server: `<service>.<namespace>.svc`."""
    policy: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """`tls.crt` and `tls.key` in a folder; whoever keeps them also puts the CA into the configurations."""

    path: Path
    period: float = PERIOD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ByURL:
    """A process outside of the cluster that the API server can reach."""

    url: str
    """Scheme, host and port."""


Certificates: TypeAlias = Shared | Folder | ByURL


class Webhooks:
    """A runnable. Functions are given to `server` before it runs."""

    def __init__(
        self,
        client: Client,
        registry: CollectorRegistry,
        address: str,
        *,
        configurations: Sequence[Document],
        certificates: Certificates,
        field_manager: str = "webhook-certificates",
        proof: Proof | None = None,
        serving: ServingCertificate | None = None,
    ) -> None:
        """`configurations`: the documents of an installation, which is where paths and names are taken from.

        `serving`: given to choose TLS versions and ciphers, or to let other servers use the same certificate.
        `proof`: such as `reach.dry_run`; asked for readiness with `ByURL` only, see there.
        Raises ConfigurationError for a URL that is none.
        """
        self.serving = serving or ServingCertificate(registry)
        self.server = WebhookServer(address, tls=self.serving.context, metrics=WebhookMetrics(registry))
        self._documents = configurations
        self._targets = [target_of(document) for document in configurations]
        by_url = isinstance(certificates, ByURL)
        self._reach = Reach(client, self._targets, self._dialled, proof=proof if by_url else None)
        self.keeper: CertificateKeeper | None = None
        self._files: CertificateFiles | None = None
        self._registration: Registration | None = None
        self._own: ByURL | None = None
        match certificates:
            case Shared():
                vault = Vault(client, certificates.secret, certificates.namespace)
                self.keeper = CertificateKeeper(
                    client,
                    vault,
                    self.serving,
                    hosts=certificates.hosts,
                    targets=self._targets,
                    policy=certificates.policy,
                    field_manager=field_manager,
                )
            case Folder():
                self._files = CertificateFiles(certificates.path, self.serving, period=certificates.period)
            case ByURL():
                if urlsplit(certificates.url).scheme != "https" or not urlsplit(certificates.url).hostname:
                    raise ConfigurationError(f"{certificates.url!r} is no webhook URL: write https://host:port")
                self._own = certificates
                self._registration = Registration(client, configurations, certificates.url, field_manager=field_manager)

    @staticmethod
    def rules(configurations: Sequence[Document], *, managed: bool) -> tuple[Rule, ...]:
        """What it needs on the configurations in a cluster; `managed`: it puts the CA there, with `Shared`."""
        verbs = (*READ, "patch") if managed else ("get",)
        targets = [target_of(document) for document in configurations]
        return tuple(Rule.on(target.kind.RESOURCE, *verbs, names=[target.name]) for target in targets)

    async def run(self) -> None:
        """Serve until cancelled. Raises ConfigurationError, and by URL NotControlled."""
        if missing := paths_of(self._documents) - self.server.handlers.keys():
            raise ConfigurationError(f"webhook: the configurations name {', '.join(sorted(missing))}; nothing answers")
        async with TaskScope("webhooks") as tasks:
            if self.keeper is not None:
                tasks.start("webhooks/certificates", self.keeper.run())
                await self.keeper.ready.wait()
            if self._files is not None:
                tasks.start("webhooks/certificates", self._files.run())
                await self._files.ready.wait()
            bundle = await asyncio.to_thread(self._make_own) if self._own is not None else b""
            serving = tasks.start("webhooks/server", self.server.run())
            if self._registration is None:
                await serving
                return
            listening = tasks.start("webhooks/listening", _wait(self.server.listening))
            await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
            try:
                await self._registration.register(bundle)
                await asyncio.wait({serving})  # not `await serving`: it goes on serving until all is removed
                serving.result()
            finally:
                await self._unregister(self._registration)

    async def unready(self) -> str | None:
        """A readiness check: why the API server cannot be admitted by this server."""
        if self.keeper is not None and not self.keeper.ready.is_set():
            return f"no certificate yet: {self.keeper.statistics.last_error or 'being made'}"
        if self._files is not None and not self._files.ready.is_set():
            return f"no certificate yet: {self._files.last_error}"
        if not self.server.listening.is_set():
            return "the webhook server does not listen yet"
        return await self._reach.check()

    def _make_own(self) -> bytes:
        assert self._own is not None
        host = urlsplit(self._own.url).hostname or ""
        step = next_step("made for this process", Policy(), [host], wall_clock())
        assert step is not None
        material: Material = step.material
        self.serving.load(certificate_pem(material.leaf.certificate), key_pem(material.leaf.key))
        return material.bundle

    async def _unregister(self, registration: Registration) -> None:
        """Also when cancelled: configurations that lead nowhere would refuse every write of their kinds."""
        try:
            async with asyncio.timeout(UNREGISTER_SECONDS):
                await registration.unregister()
        except (KubernetesError, TimeoutError) as error:
            names = ", ".join(map(str, self._targets))
            log.error("%s could not be removed, remove them by hand: %s", names, error)  # noqa: TRY400

    def _dialled(self) -> tuple[str, int]:
        everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here, only recognised
        return everywhere.get(self.server.host, self.server.host), self.server.port


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
