# SPDX-License-Identifier: Apache-2.0
"""Certificates that somebody else keeps in files, such as a mounted Secret of cert-manager (M-32, M-33).

The files are looked at every ten seconds and loaded when their content changed. A pair that cannot be used (half
written, wrong key) leaves the one before in use and is tried again.
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
        """Set once a usable pair was loaded."""
        self.last_error = ""

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(self._period)

    def look(self) -> None:
        """Load what is in the files now. No error leaves this."""
        try:
            certificate = (self._folder / "tls.crt").read_bytes()
            key = (self._folder / "tls.key").read_bytes()
        except OSError as error:
            self._serving.failed()
            self._complain(f"{self._folder}: {error.strerror or error}")
            return
        try:
            if self._serving.load(certificate, key):
                log.info("%s: serving a new certificate", self._folder)
        except CertificateError as error:
            self._complain(f"{self._folder}: {error}")
            return
        self.last_error = ""
        self.ready.set()

    def _complain(self, error: str) -> None:
        if error != self.last_error:
            log.error("%s", error)
        self.last_error = error
