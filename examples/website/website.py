# SPDX-License-Identifier: Apache-2.0
"""A website: HTML in a ConfigMap, nginx in a Deployment, a Service in front. `others/` has it for kopf and in Go."""

from pathlib import Path
from typing import Any

from trainwright.api.kubernetes.apps.v1 import Deployment
from trainwright.api.kubernetes.core.v1 import ConfigMap, Service
from trainwright.controller.runtime import App, Context, Resource

WEBSITE = Resource(group="pages.example.com", version="v1", kind="Website", plural="websites", namespaced=True)
app = App("website", crds=Path(__file__).parent / "crds")


@app.reconciles(WEBSITE, owns=[ConfigMap, Deployment, Service], status=True)
async def website(site: dict[str, Any], ctx: Context) -> None:
    """Keep the three children, and say how many replicas are ready."""
    name, spec = ctx.key.name, site["spec"]
    labels, metadata = {"website": name}, {"name": name, "namespace": ctx.key.namespace}
    volume = {"name": "html", "configMap": {"name": name}}
    container = {
        "name": "nginx",
        "image": "nginx",
        "volumeMounts": [{"name": "html", "mountPath": "/usr/share/nginx/html"}],
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": [volume]}}
    deployment = {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template}
    await ctx.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"index.html": spec["html"]}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 80}]},
        },
    )
    running = ctx.get(Deployment, name)
    await ctx.status({"ready": (running and running.status and running.status.ready_replicas) or 0})


if __name__ == "__main__":
    app.main()
