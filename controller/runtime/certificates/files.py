# SPDX-License-Identifier: Apache-2.0
"""Certificates in files that another program keeps, such as a mounted Secret of cert-manager.

The files are read every ten seconds and loaded when their content has changed. An unusable pair (half written, wrong
key) leaves the previous one in use and is read again.
"""

import asyncio
import logging
from pathlib import Path

from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.errors import CertificateError

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0


class CertificateFiles:
    """A runnable that follows `tls.crt` and `tls.key` in a folder."""

    def __init__(self, folder: Path, serving: ServingCertificate, *, period: float = PERIOD_SECONDS) -> None:
        """`period` in seconds."""
        self._folder = folder
        self._serving = serving
        self._period = period
        self.ready = asyncio.Event()
        """Set once a usable pair is loaded."""
        self.last_error = ""

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(self._period)

    def look(self) -> None:
        """Load the files. Never raises; errors are logged."""
        try:
            certificate = (self._folder / "tls.crt").read_bytes()
            key = (self._folder / "tls.key").read_bytes()
        except OSError as error:
            self._serving.failed()
            self._complain(f"{self._folder}: {error.strerror or error}")
            return
        try:
            if self._serving.load(certificate, key):
                log.info("%s: loaded a new certificate", self._folder)
        except CertificateError as error:
            self._complain(f"{self._folder}: {error}")
            return
        self.last_error = ""
        self.ready.set()

    def _complain(self, error: str) -> None:
        if error != self.last_error:
            log.error("%s", error)
        self.last_error = error
