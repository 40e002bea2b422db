# SPDX-License-Identifier: Apache-2.0
"""Decides whether this process serves admission, and with which certificate.

In a cluster: with a Secret that the replicas share, or with certificate files. Outside a cluster: by URL if one is
given, otherwise not at all, because the API server could not reach the webhooks.
"""

import tempfile
from pathlib import Path

from trainwright.controller.runtime.certificates.rotation import RotationPolicy
from trainwright.controller.runtime.client.config import SERVICE_ACCOUNT, ClusterConfig, is_in_cluster
from trainwright.controller.runtime.webhook.webhooks import ByURL, CertificateFolder, Certificates, SharedCertificates

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
