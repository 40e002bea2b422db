# SPDX-License-Identifier: Apache-2.0
"""Operators for Kubernetes. These are the names that most of them need; everything else is imported from its module.

- **An operator as one module**: `App` collects decorated functions, each gets the object and a `Context`. Begin here;
  docs/runtime/operator.md is the tutorial.
- **What a function may return or raise**: `Done`, `RetryAfter` and `Backoff`, which are a `Result`; `Terminal` where
  only a change can help.
- **Kinds**: a `Kind` is a model (`Object`), a `Resource` (dictionaries) or `MetadataOnly`. A `Key` finds an object.
- **The process below**: a `Manager` has client, cache, controllers and servers; `run` runs it until SIGTERM,
  with the logs of `configure_logging`.
  `ServerSettings` (or `NO_SERVERS`) and `ProcessSettings` say how. `LeaderElector` elects one replica.
- **The API server**: `load_config` finds it (`ClusterConfig`); a `Client` on an `HTTPTransport` asks it; `Discovery`
  knows what it serves.
- **Controllers of a manager**: `Trigger` queues keys of your own; `generation_changed`, `labels_changed`,
  `annotations_changed`, `labels_match`, `all_of` and `any_of` say which `Event` counts. `finalizer` cleans up;
  `Applied` is what the applier did; `set_condition` edits a status.
- **Errors**: `KubernetesError` and below it `NotFound`, `Conflict`, `AlreadyExists`, `Forbidden`; the others are in
  `errors`. `ConfigurationError` is a mistake in a program or its settings.
- **Admission**: a webhook gets an `AdmissionRequest` and gives an `AdmissionResponse` with an `ErrorCause` for each
  field; `certificates_for` says what it is served with.

Names are loaded when they are first used, so that a program that needs one does not pay for the HTTP stack.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.api.base import Object, Resource
    from trainwright.api.conditions import set_condition
    from trainwright.api.objects import Key
    from trainwright.controller.runtime.app.app import App
    from trainwright.controller.runtime.app.context import Context
    from trainwright.controller.runtime.apply.applier import Applied
    from trainwright.controller.runtime.cache.store import Event
    from trainwright.controller.runtime.client.client import Client
    from trainwright.controller.runtime.client.config import ClusterConfig, load_config
    from trainwright.controller.runtime.client.discovery import Discovery
    from trainwright.controller.runtime.client.http import HTTPTransport
    from trainwright.controller.runtime.controller.controller import Backoff, Done, Result, RetryAfter
    from trainwright.controller.runtime.controller.finalizer import finalizer
    from trainwright.controller.runtime.controller.sources import (
        Trigger,
        all_of,
        annotations_changed,
        any_of,
        generation_changed,
        labels_changed,
        labels_match,
    )
    from trainwright.controller.runtime.errors import (
        AlreadyExists,
        ConfigurationError,
        Conflict,
        ErrorCause,
        Forbidden,
        KubernetesError,
        NotFound,
        Terminal,
    )
    from trainwright.controller.runtime.kinds import Kind, MetadataOnly
    from trainwright.controller.runtime.leaderelection.elector import LeaderElector
    from trainwright.controller.runtime.manager.logs import configure_logging
    from trainwright.controller.runtime.manager.manager import NO_SERVERS, Manager, ProcessSettings, ServerSettings
    from trainwright.controller.runtime.manager.process import run
    from trainwright.controller.runtime.webhook.admission import AdmissionRequest, AdmissionResponse
    from trainwright.controller.runtime.webhook.webhooks import certificates_for
else:
    from trainwright.api.facade import lazy

    __getattr__, __dir__ = lazy(
        __name__,
        {
            "trainwright.api.base": (
                "Object",
                "Resource",
            ),
            "trainwright.api.conditions": ("set_condition",),
            "trainwright.api.objects": ("Key",),
            "trainwright.controller.runtime.app.app": ("App",),
            "trainwright.controller.runtime.app.context": ("Context",),
            "trainwright.controller.runtime.apply.applier": ("Applied",),
            "trainwright.controller.runtime.cache.store": ("Event",),
            "trainwright.controller.runtime.client.client": ("Client",),
            "trainwright.controller.runtime.client.config": (
                "ClusterConfig",
                "load_config",
            ),
            "trainwright.controller.runtime.client.discovery": ("Discovery",),
            "trainwright.controller.runtime.client.http": ("HTTPTransport",),
            "trainwright.controller.runtime.controller.controller": (
                "Backoff",
                "Done",
                "Result",
                "RetryAfter",
            ),
            "trainwright.controller.runtime.controller.finalizer": ("finalizer",),
            "trainwright.controller.runtime.controller.sources": (
                "Trigger",
                "all_of",
                "annotations_changed",
                "any_of",
                "generation_changed",
                "labels_changed",
                "labels_match",
            ),
            "trainwright.controller.runtime.errors": (
                "AlreadyExists",
                "ConfigurationError",
                "Conflict",
                "ErrorCause",
                "Forbidden",
                "KubernetesError",
                "NotFound",
                "Terminal",
            ),
            "trainwright.controller.runtime.kinds": (
                "Kind",
                "MetadataOnly",
            ),
            "trainwright.controller.runtime.leaderelection.elector": ("LeaderElector",),
            "trainwright.controller.runtime.manager.logs": ("configure_logging",),
            "trainwright.controller.runtime.manager.manager": (
                "Manager",
                "NO_SERVERS",
                "ProcessSettings",
                "ServerSettings",
            ),
            "trainwright.controller.runtime.manager.process": ("run",),
            "trainwright.controller.runtime.webhook.admission": (
                "AdmissionRequest",
                "AdmissionResponse",
            ),
            "trainwright.controller.runtime.webhook.webhooks": ("certificates_for",),
        },
    )

__all__ = [
    "NO_SERVERS",
    "AdmissionRequest",
    "AdmissionResponse",
    "AlreadyExists",
    "App",
    "Applied",
    "Backoff",
    "Client",
    "ClusterConfig",
    "ConfigurationError",
    "Conflict",
    "Context",
    "Discovery",
    "Done",
    "ErrorCause",
    "Event",
    "Forbidden",
    "HTTPTransport",
    "Key",
    "Kind",
    "KubernetesError",
    "LeaderElector",
    "Manager",
    "MetadataOnly",
    "NotFound",
    "Object",
    "ProcessSettings",
    "Resource",
    "Result",
    "RetryAfter",
    "ServerSettings",
    "Terminal",
    "Trigger",
    "all_of",
    "annotations_changed",
    "any_of",
    "certificates_for",
    "configure_logging",
    "finalizer",
    "generation_changed",
    "labels_changed",
    "labels_match",
    "load_config",
    "run",
    "set_condition",
]
