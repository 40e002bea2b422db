# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# pyright: reportMissingImports=false
"""The website with kopf and the official client. `kopf run -A website_kopf.py`; its rights are written by hand."""

import kopf
import kubernetes

APPLY = {"_content_type": "application/apply-patch+yaml", "field_manager": "website", "force": True}


@kopf.on.startup()
def load(**_):
    """As `kubectl` finds the cluster."""
    kubernetes.config.load_config()


@kopf.on.create("pages.example.com", "v1", "websites")
@kopf.on.update("pages.example.com", "v1", "websites")
@kopf.on.resume("pages.example.com", "v1", "websites")
def website(name, namespace, spec, **_):
    """Apply the three children."""
    labels, metadata = {"website": name}, {"name": name}
    volume = {"name": "html", "configMap": {"name": name}}
    container = {
        "name": "nginx",
        "image": "nginx",
        "volumeMounts": [{"name": "html", "mountPath": "/usr/share/nginx/html"}],
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": [volume]}}
    deployment = {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template}
    children = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"index.html": spec["html"]}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 80}]},
        },
    ]
    kopf.adopt(children)
    core, apps = kubernetes.client.CoreV1Api(), kubernetes.client.AppsV1Api()
    core.patch_namespaced_config_map(name, namespace, children[0], **APPLY)
    apps.patch_namespaced_deployment(name, namespace, children[1], **APPLY)
    core.patch_namespaced_service(name, namespace, children[2], **APPLY)


@kopf.on.event("apps", "v1", "deployments", labels={"website": kopf.PRESENT})
def ready(name, namespace, status, **_):
    """Say how many replicas are ready."""
    patch = {"status": {"ready": status.get("readyReplicas") or 0}}
    custom = kubernetes.client.CustomObjectsApi()
    custom.patch_namespaced_custom_object_status("pages.example.com", "v1", namespace, "websites", name, patch)
