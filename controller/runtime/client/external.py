# SPDX-License-Identifier: Apache-2.0
"""Credentials from exec plugins and auth providers (OIDC), through the `kubernetes` package.

That package knows the plugin protocol and the providers; it costs 0.6 s and 40 MB, so only a kubeconfig that needs it
imports it, and its blocking work runs in a thread. Its synchronous half renews what has expired whenever it is asked;
after a 401 the configuration is loaded from the file anew, which runs the plugin again.
"""

import asyncio
from typing import Any

from trainwright.controller.runtime.client.config import ExternalCredentials
from trainwright.controller.runtime.errors import ConfigurationError

_FRESH_SECONDS = 20.0
"""How long an answer of the plugin is used before the package is asked whether it is still good."""


class ExternalAuthorization:
    """Asks the `kubernetes` package for the current bearer token; one question at a time however many requests wait."""

    def __init__(self, source: ExternalCredentials) -> None:
        self._source = source
        self._lock = asyncio.Lock()
        self._configuration: Any = None
        self._value: str | None = None
        self._asked_at = float("-inf")

    async def header(self) -> str | None:
        """The current value. Raises ConfigurationError with the plugin's own message if there is none."""
        loop = asyncio.get_running_loop()
        if self._configuration is None or loop.time() - self._asked_at >= _FRESH_SECONDS:
            async with self._lock:
                if self._configuration is None or loop.time() - self._asked_at >= _FRESH_SECONDS:
                    self._value = await asyncio.to_thread(self._ask)
                    self._asked_at = loop.time()
        return self._value

    async def renew(self) -> bool:
        """Run the plugin again; True if it gave another credential."""
        before = self._value
        async with self._lock:
            if self._value != before:
                return True  # another request renewed it while this one waited
            self._configuration = None
            self._value = await asyncio.to_thread(self._ask)
            self._asked_at = asyncio.get_running_loop().time()
        return self._value != before

    def _ask(self) -> str | None:
        try:
            from kubernetes import client, config  # noqa: PLC0415 - see the module's first paragraph
        except ImportError as error:
            raise ConfigurationError(
                "this kubeconfig uses an exec plugin or an auth provider, which needs the package `kubernetes`"
            ) from error
        try:
            if self._configuration is None:
                configuration = client.Configuration()
                load: Any = config.load_kube_config  # the package has no types here
                load(
                    config_file=":".join(self._source.kubeconfig),
                    context=self._source.context,
                    client_configuration=configuration,
                    persist_config=False,
                )
                self._configuration = configuration
            value = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except Exception as error:  # the package raises many kinds; all mean the same here
            raise ConfigurationError(f"credentials of context {self._source.context!r}: {error}") from error
        if not value:  # the package logs what went wrong and goes on without a credential
            raise ConfigurationError(
                f"credentials of context {self._source.context!r}: the plugin gave no bearer token, see the log;"
                " client certificates from plugins are not supported"
            )
        return str(value)
