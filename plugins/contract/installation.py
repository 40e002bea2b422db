# SPDX-License-Identifier: Apache-2.0
"""Where the manager of this process is installed, for plugins whose objects lead pods back to it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Installation:
    """How pods reach the servers of the manager. The defaults are those of an installation as shipped.

    A plugin that declares `uses_installation = True` gets it in its constructor.
    """

    host: str = "kubeflow-trainer-controller-manager.kubeflow-system.svc"
    """Host name of the status server: that of the Service, or of this process where it runs outside of a cluster."""
    port: int = 10443
    """Port of the status server, at `host`."""
    namespace: str = "kubeflow-system"
    """Namespace of the manager."""
    secret: str = "kubeflow-trainer-webhook-cert"  # noqa: S105 - the name of a Secret
    """The Secret in `namespace` whose `ca.crt` verifies the certificate of the servers."""
    authority: str = ""
    """The CA certificates (PEM) of a process that makes its own; empty: they are in the Secret."""
