# SPDX-License-Identifier: Apache-2.0
"""Where this process runs, and so whether it serves admission and with whose certificate.

In a cluster: with a Secret that replicas share, or with files where somebody else keeps them. Outside: by URL if one is
given, else not at all, which is no error: the API server could not reach a webhook there.
"""

import tempfile
from pathlib import Path

from trainwright.controller.runtime.certificates.rotation import Policy
from trainwright.controller.runtime.client.config import SERVICE_ACCOUNT, ClusterConfig, is_inside
from trainwright.controller.runtime.webhook.webhooks import ByURL, Certificates, Folder, Shared

DEFAULT_FOLDER = Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs")
"""Where certificate files are mounted unless said otherwise (M-32)."""


def certificates_for(
    config: ClusterConfig,
    *,
    service: str,
    secret: str,
    managed: bool = True,
    folder: Path | None = None,
    webhook_url: str = "",
    policy: Policy | None = None,
    account: Path = SERVICE_ACCOUNT,
) -> Certificates | None:
    """How to serve admission; None: do not. `managed` False: the files in `folder` are somebody else's to keep.

    `service` and `secret` are names in this process's namespace. A URL wins, in a cluster too.
    """
    if webhook_url:
        return ByURL(url=webhook_url)
    if not is_inside(config, account):
        return None
    if not managed:
        return Folder(path=folder or DEFAULT_FOLDER)
    host = f"{service}.{config.namespace}.svc"
    return Shared(secret=secret, namespace=config.namespace, hosts=[host], policy=policy)
