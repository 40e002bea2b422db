# SPDX-License-Identifier: Apache-2.0
"""Credentials from exec plugins and auth providers (OIDC), through the `kubernetes` package.

That package implements the plugin protocol and the providers. It costs 0.6 s and 40 MB, so it is imported only for a
kubeconfig that needs it; its blocking calls run in a thread. The credential of an exec plugin is used until it expires
or is refused. A provider is asked again every few seconds, because only the provider knows when its token expires.

A plugin may wait for a login in a browser, for ever. A request waits for it for a limited time. The question goes on,
and a later request takes its answer.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from trainwright.api import times
from trainwright.controller.runtime.client.config import ExternalCredentials
from trainwright.controller.runtime.client.credentials import ClientCertificate, Credential
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.tasks import limited

log = logging.getLogger(__name__)

ASK_SECONDS = 45.0
"""How long one request waits for an answer: less than requests may take, so that their error names the plugin."""
_FRESH_SECONDS = 20.0
"""Time for which the token of a provider is used before the provider is asked again."""


class ExternalAuthorization:
    """Asks for a credential when the last one has expired or was refused. Concurrent requests share one question."""

    def __init__(self, source: ExternalCredentials) -> None:
        self._where = f"credentials of context {source.context!r}"
        self._ask: Callable[[], tuple[Credential, float]]
        if source.plugin is None:
            self._what, self._ask = "the auth provider", _AuthProvider(source).ask
        else:
            self._what = f"the plugin {source.plugin.get('command') or ''}".rstrip()
            self._ask = partial(_ask_plugin, source.plugin, source)
        self._lock = asyncio.Lock()
        self._credential = Credential()
        self._good_until = -math.inf
        self._asking: asyncio.Future[tuple[Credential, float]] | None = None

    async def credential(self) -> Credential:
        """The current credential. Raises ConfigurationError: the message of the plugin, or that it does not answer."""
        if time.time() >= self._good_until:
            async with self._asked(), self._lock:
                if time.time() >= self._good_until:
                    await self._renew()
        return self._credential

    async def renew(self, refused: Credential) -> Credential | None:
        """Ask again, unless another refused request has already done so."""
        async with self._asked(), self._lock:
            if self._credential == refused:
                await self._renew()
        return self._credential if self._credential != refused else None

    def _asked(self) -> AbstractAsyncContextManager[None]:
        """Limit the wait, also for a request that waits behind others."""
        text = (
            f"{self._where}: {self._what} has not answered within {ASK_SECONDS:g} s; if it waits for a login,"
            " log in and try again"
        )
        return limited(asyncio.timeout(ASK_SECONDS), lambda: ConfigurationError(text))

    async def _renew(self) -> None:
        try:
            # A request that is cancelled leaves the question to the next one: a thread cannot be cancelled, and of two
            # questions at once one could use up the refresh token of the other.
            if self._asking is None:
                self._asking = _in_thread(self._ask)
            asking = self._asking
            try:
                self._credential, self._good_until = await asyncio.shield(asking)
            finally:
                if asking.done():
                    self._asking = None
        except ImportError as error:
            raise ConfigurationError(
                f"{self._where}: exec plugins and auth providers need the package `kubernetes`: {error}"
            ) from error
        except Exception as error:  # the package raises many types; all mean the same here
            raise ConfigurationError(f"{self._where}: {error}") from error


def _in_thread(ask: Callable[[], tuple[Credential, float]]) -> "asyncio.Future[tuple[Credential, float]]":
    """Ask in a thread of its own. The end of the process does not wait for it, as it would for one of the executor."""
    answer: Future[tuple[Credential, float]] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # raised where the answer is awaited
            answer.set_exception(error)

    threading.Thread(target=run, name="credentials", daemon=True).start()
    return asyncio.wrap_future(answer)


def _ask_plugin(plugin: dict[str, Any], source: ExternalCredentials) -> tuple[Credential, float]:
    from kubernetes.config.exec_provider import ExecProvider  # noqa: PLC0415 - see the module's first paragraph
    from kubernetes.config.kube_config import ConfigNode  # noqa: PLC0415

    node: Any = ConfigNode  # the package has no types here
    provider: Any = ExecProvider
    try:
        made = provider(node("exec", plugin), source.folder, node("cluster", source.cluster))
        status = made.run()
    except FileNotFoundError as error:
        hint = plugin.get("installHint")
        raise ConfigurationError(f"{error}; {hint}" if hint else str(error)) from error
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if bool(certificate) != bool(key):
        raise ConfigurationError("the plugin returned only one of clientCertificateData and clientKeyData")
    token = status.get("token")
    if not (token or certificate):
        raise ConfigurationError("the plugin returned neither a token nor a client certificate")
    expiry = status.get("expirationTimestamp")
    return (
        Credential(
            f"Bearer {token}" if token else None,
            ClientCertificate(certificate.encode(), key.encode()) if certificate else None,
        ),
        times.parse(expiry).timestamp() if expiry else math.inf,
    )


class _AuthProvider:
    def __init__(self, source: ExternalCredentials) -> None:
        self._source = source
        self._loader: Any = None
        self._files: Any = None
        self._saved = True

    def ask(self) -> tuple[Credential, float]:
        from kubernetes.client import Configuration  # noqa: PLC0415 - see the module's first paragraph
        from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger  # noqa: PLC0415

        if self._loader is None or self._saved:  # another program may have renewed the tokens in the file
            merger: Any = KubeConfigMerger
            loader: Any = KubeConfigLoader
            self._files = merger(":".join(self._source.kubeconfig))
            self._loader = loader(
                self._files.config,
                active_context=self._source.context,
                config_base_path=None,
                config_persister=self._save,
            )
        configuration = Configuration()
        self._loader.load_and_set(configuration)
        # Under `authorization` until version 36 of the package.
        value = configuration.api_key.get("BearerToken") or configuration.api_key.get("authorization")
        if not value:  # the package ignores unknown providers and tokens
            raise ConfigurationError("the auth provider returned no token; only oidc and gcp are supported")
        return Credential(str(value)), time.time() + _FRESH_SECONDS

    def _save(self) -> None:
        """Write renewed tokens back, as kubectl does: an issuer may accept a refresh token only once."""
        try:
            self._files.save_changes()
            self._saved = True
        except OSError as error:
            self._saved = False
            log.warning(
                "renewed tokens are only kept in memory: cannot write %s: %s", error.filename, error.strerror or error
            )
