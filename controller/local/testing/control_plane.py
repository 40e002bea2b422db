# SPDX-License-Identifier: Apache-2.0
"""The local API server in a process of its own, behind the interface of the test kit's `ControlPlane`."""

import functools
from collections.abc import Sequence
from pathlib import Path

from trainwright.controller.local.credentials import write_private
from trainwright.controller.local.interpreter import isolated_python
from trainwright.controller.runtime.testing import programs
from trainwright.controller.runtime.testing.build import Binaries, provide
from trainwright.controller.runtime.testing.component import Components, answers
from trainwright.controller.runtime.testing.control_plane import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port

_MODULE = "trainwright.controller.local.testing.server"


class LocalControlPlane(ControlPlane):
    """The local API server in place of kube-apiserver and etcd; a context manager.

    The controllers, if any, are the real ones, as with `ControlPlane`, and so is authorization: by roles and bindings.
    The objects of `kube-apiserver` outlive a restart. kubectl is provided by the first call of it.
    """

    def __init__(
        self,
        *,
        controller_manager: bool = False,
        scheduler: bool = False,
        jobset: bool = False,
        kwok_nodes: int = 0,
        crds: Sequence[Path] = (),
        audit: bool = False,
        port: int | None = None,
        assets: Path | None = None,
    ) -> None:
        """Configure it; `start` starts it. See `ControlPlane` for the arguments."""
        super().__init__(
            controller_manager=controller_manager,
            scheduler=scheduler,
            jobset=jobset,
            kwok_nodes=kwok_nodes,
            crds=crds,
            audit=audit,
            port=port,
            assets=assets,
        )
        self._wanted |= {"etcd": False, "kube-apiserver": False, "kubectl": False}

    @property
    def kubectl_path(self) -> Path:
        """kubectl, which most tests do without; built if it is missing."""
        return provide(["kubectl"], assets=self._assets)["kubectl"]

    def _launch_api(
        self, files: programs.Files, binaries: Binaries, components: Components, token: str, audit_log: Path | None
    ) -> str:
        """Start the API server with the authority and the token of the test kit. Returns its URL."""
        del binaries
        state = files.folder / "state"
        pki = state / "pki"
        pki.mkdir(mode=0o700, parents=True, exist_ok=True)
        state.chmod(0o700)
        write_private(pki / "ca.crt", files.authority.pem)
        write_private(pki / "ca.key", files.authority.key_pem)
        write_private(pki / "admin.token", token.encode())
        port = self._port or free_port()
        command = [*isolated_python(), "-m", _MODULE, f"--folder={state}", f"--port={port}", "--rbac"]
        if audit_log is not None:
            command.append(f"--request-log={audit_log}")
        url = f"https://127.0.0.1:{port}"
        ready = functools.partial(answers, f"{url}/readyz", authority=files.authority.pem, token=token)
        components.launch("kube-apiserver", command, ready, ports=(port,))
        return url
