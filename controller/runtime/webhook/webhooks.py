# SPDX-License-Identifier: Apache-2.0
"""All webhooks of one process: server, certificate, registration, readiness.

    certificates = SharedCertificates(secret="hooks-cert", namespace="system", hosts=["hooks.system.svc"])
    hooks = Webhooks(manager.client, manager.metrics.registry, "0.0.0.0:9443", configurations=documents,
                     certificates=certificates)
    hooks.server.validate(Web, validate)
    manager.add(hooks, Group.WEBHOOKS, "webhooks")
    manager.readyz.add("webhooks", hooks.unready)

There are three sources of the certificate: `SharedCertificates` (a Secret that the replicas keep together),
`CertificateFolder` (files that another program keeps), and outside a cluster `ByURL` (made for this process, which also
registers the configurations by URL for as long as it runs).
"""

import asyncio
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from trainwright.api.objects import Document, labels_of, uid_of
from trainwright.api.rights import READ, Rule
from trainwright.api.times import wall_clock
from trainwright.controller.runtime.certificates.authority import certificate_pem, key_pem
from trainwright.controller.runtime.certificates.configurations import (
    FIELD_MANAGER,
    fetch_configuration,
    injection_target_of,
    paths_of,
    webhooks_by_url,
)
from trainwright.controller.runtime.certificates.keeper import CertificateKeeper
from trainwright.controller.runtime.certificates.material import CertificateMaterial, CertificateVault
from trainwright.controller.runtime.certificates.rotation import RotationPolicy, made_for_process
from trainwright.controller.runtime.certificates.serving import PERIOD_SECONDS, CertificateFiles, ServingCertificate
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import SERVICE_ACCOUNT, ClusterConfig, is_in_cluster
from trainwright.controller.runtime.errors import ConfigurationError, Conflict, KubernetesError, NotControlled, NotFound
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.webhook.reach import Proof, Reach
from trainwright.controller.runtime.webhook.server import WebhookMetrics, WebhookServer

log = logging.getLogger(__name__)

LABEL = "trainwright.dev/registered-by-url"


class WebhookRegistration:
    def __init__(self, client: Client, documents: Sequence[Document], url: str, *, field_manager: str) -> None:
        """`documents`: as in an installation. `url`: scheme, host and port for the API server to call."""
        self._client = client
        self._documents = documents
        self._url = url
        self._field_manager = field_manager
        self._registered: list[tuple[Document, str]] = []

    async def register(self, bundle: bytes) -> None:
        """Create or take over the configurations. Raises NotControlled for that of an installation, KubernetesError."""
        for document in self._documents:
            target = injection_target_of(document)
            existing = await fetch_configuration(self._client, target)
            if existing is not None and labels_of(existing).get(LABEL) != "true":
                raise NotControlled(
                    f"{target} belongs to an installation in the cluster and was not changed: remove the installation,"
                    " or run without a webhook URL"
                )
            wanted = webhooks_by_url(document, self._url, bundle, {LABEL: "true"})
            # Noted before it is sent: it can be in force though its answer was lost, or the process was told to stop.
            self._registered.append((wanted, ""))
            applied = await self._client.apply(wanted, kind=target.kind, field_manager=self._field_manager, force=True)
            self._registered[-1] = (wanted, uid_of(applied))
            log.info("%s: registered at %s", target, self._url)

    async def unregister(self) -> None:
        """Remove the registered configurations, unless they were replaced. Raises KubernetesError."""
        while self._registered:
            document, uid = self._registered[-1]
            target = injection_target_of(document)
            try:
                uid = uid or await self._own(document)
                if uid:
                    await self._client.delete(target.kind, target.name, uid=uid)
            except (NotFound, Conflict):
                log.info("%s: was replaced by another program and is not removed", target)
            self._registered.pop()

    async def _own(self, document: Document) -> str:
        """The uid of a configuration whose registration had no answer; empty if it is not there, or another's."""
        found = await fetch_configuration(self._client, injection_target_of(document))
        if found is None or labels_of(found).get(LABEL) != "true" or _urls(found) != _urls(document):
            return ""
        return uid_of(found)


def _urls(configuration: Document) -> list[str]:
    return [webhook["clientConfig"].get("url", "") for webhook in configuration.get("webhooks") or ()]


UNREGISTER_SECONDS = 5.0
LINGER_SECONDS = 0.25
"""How long calls are still answered then: the API server learns by its watch that the configurations are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCertificates:
    """Certificates that the replicas make and share in a Secret."""

    secret: str
    namespace: str
    hosts: Sequence[str]
    """Host names of the server for the API server: `<service>.<namespace>.svc`."""
    policy: RotationPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFolder:
    """`tls.crt` and `tls.key` in a folder. The program that keeps them also sets the CA bundles."""

    path: Path
    period: float = PERIOD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ByURL:
    """A process outside the cluster that the API server can reach."""

    url: str
    """Scheme, host and port."""
    material: CertificateMaterial | None = None
    """The certificate for the host; None: one is made when the server starts."""
    policy: RotationPolicy | None = None
    """Of the certificate that is made."""


Certificates: TypeAlias = SharedCertificates | CertificateFolder | ByURL


class Webhooks:
    """A runnable. Add handlers to `server` before it runs."""

    def __init__(
        self,
        client: Client,
        registry: CollectorRegistry,
        address: str,
        *,
        configurations: Sequence[Document],
        certificates: Certificates,
        field_manager: str = FIELD_MANAGER,
        proof: Proof | None = None,
        serving: ServingCertificate | None = None,
    ) -> None:
        """`configurations`: the documents of an installation; their paths and names are used.

        `serving`: pass it to choose TLS versions and ciphers, or to share the certificate with other servers.
        `proof`: such as `reach.dry_run_proof`; only used with `ByURL`, see `reach`.
        Raises ConfigurationError for an invalid URL.
        """
        self.serving = serving or ServingCertificate(registry)
        self.server = WebhookServer(address, tls=self.serving.context, metrics=WebhookMetrics(registry))
        self._documents = configurations
        self._targets = [injection_target_of(document) for document in configurations]
        by_url = isinstance(certificates, ByURL)
        self._reach = Reach(client, self._targets, self._dialled, proof=proof if by_url else None)
        self.keeper: CertificateKeeper | None = None
        self._files: CertificateFiles | None = None
        self._registration: WebhookRegistration | None = None
        self._own: ByURL | None = None
        match certificates:
            case SharedCertificates():
                vault = CertificateVault(client, certificates.secret, certificates.namespace)
                self.keeper = CertificateKeeper(
                    client,
                    vault,
                    self.serving,
                    hosts=certificates.hosts,
                    targets=self._targets,
                    policy=certificates.policy,
                    field_manager=field_manager,
                )
            case CertificateFolder():
                self._files = CertificateFiles(certificates.path, self.serving, period=certificates.period)
            case ByURL():
                if urlsplit(certificates.url).scheme != "https" or not urlsplit(certificates.url).hostname:
                    raise ConfigurationError(f"{certificates.url!r} is not a webhook URL: write https://host:port")
                self._own = certificates
                self._registration = WebhookRegistration(
                    client, configurations, certificates.url, field_manager=field_manager
                )

    @staticmethod
    def rules(configurations: Sequence[Document], *, managed: bool, by_url: bool = False) -> tuple[Rule, ...]:
        """Rights on the configurations. `managed`: `SharedCertificates` sets their CA bundle. `by_url`: of `ByURL`."""
        verbs = (*READ, "patch") if managed else ("get", "patch", "delete") if by_url else ("get",)
        targets = [injection_target_of(document) for document in configurations]
        made = [Rule.on(target.kind, "create") for target in targets if by_url]  # RBAC cannot limit it to names
        return (*made, *(Rule.on(target.kind, *verbs, names=[target.name]) for target in targets))

    async def run(self) -> None:
        """Serve until cancelled. Raises ConfigurationError; with `ByURL` also NotControlled."""
        if missing := paths_of(self._documents) - self.server.paths:
            raise ConfigurationError(
                f"webhook server: the configurations call {', '.join(sorted(missing))}, which have no handler"
            )
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
            await tasks.first(serving, self.server.listening)
            try:
                await self._registration.register(bundle)
                await asyncio.wait(
                    {serving}
                )  # not `await serving`: the server runs until the configurations are removed
                serving.result()
            finally:
                await self._unregister(self._registration)

    def begin_drain(self) -> None:
        """See `WebhookServer.begin_drain`."""
        self.server.begin_drain()

    async def unready(self) -> str | None:
        """A readiness check: why the API server cannot call this server; None if it can."""
        if self.keeper is not None and not self.keeper.ready.is_set():
            return f"no certificate yet: {self.keeper.statistics.last_error or 'it is being made'}"
        if self._files is not None and not self._files.ready.is_set():
            return f"no certificate yet: {self._files.last_error}"
        if not self.server.listening.is_set():
            return "the webhook server is not listening yet"
        return await self._reach.check()

    def _make_own(self) -> bytes:
        assert self._own is not None
        host = urlsplit(self._own.url).hostname or ""
        material = self._own.material or made_for_process(self._own.policy or RotationPolicy(), [host], wall_clock())
        self.serving.load(certificate_pem(material.leaf.certificate), key_pem(material.leaf.key))
        return material.bundle

    async def _unregister(self, registration: WebhookRegistration) -> None:
        """Runs also when cancelled: configurations without a server would block every write of their kinds."""
        try:
            async with asyncio.timeout(UNREGISTER_SECONDS):
                await registration.unregister()
            await asyncio.sleep(LINGER_SECONDS)
        except (KubernetesError, TimeoutError) as error:
            names = ", ".join(map(str, self._targets))
            log.error("cannot remove %s; remove them by hand: %s", names, error)  # noqa: TRY400

    def _dialled(self) -> tuple[str, int]:
        everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here, only compared
        return everywhere.get(self.server.host, self.server.host), self.server.port


DEFAULT_FOLDER = Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs")
"""Default folder of mounted certificate files, as in controller-runtime."""


def certificates_for(
    config: ClusterConfig,
    *,
    service: str,
    secret: str,
    managed: bool = True,
    folder: Path | None = None,
    webhook_url: str = "",
    policy: RotationPolicy | None = None,
    account: Path = SERVICE_ACCOUNT,
) -> Certificates | None:
    """The certificates to serve admission with; None: do not serve. `managed` False: another program keeps `folder`.

    `service` and `secret` are names in the namespace of this process. A URL takes precedence, also in a cluster.
    """
    if webhook_url:
        return ByURL(url=webhook_url, policy=policy)
    if not is_in_cluster(config, account):
        return None
    if not managed:
        return CertificateFolder(path=folder or DEFAULT_FOLDER)
    host = f"{service}.{config.namespace}.svc"
    return SharedCertificates(secret=secret, namespace=config.namespace, hosts=[host], policy=policy)
