# SPDX-License-Identifier: Apache-2.0
"""How any controller runs: client, cache, work queue, controller, apply, manager. Knows no TrainJob.

The names below are the public ones; each lives in a module that says more. They are loaded when first used, so that a
program that needs one of them does not pay for the HTTP stack.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.api.conditions import set_condition as set_condition
    from trainwright.api.objects import Key as Key
    from trainwright.controller.runtime.apply.applier import Action as Action
    from trainwright.controller.runtime.apply.applier import Applied as Applied
    from trainwright.controller.runtime.apply.applier import Applier as Applier
    from trainwright.controller.runtime.cache.cache import Cache as Cache
    from trainwright.controller.runtime.cache.events import Event as Event
    from trainwright.controller.runtime.cache.events import EventType as EventType
    from trainwright.controller.runtime.client.client import Client as Client
    from trainwright.controller.runtime.client.config import ClusterConfig as ClusterConfig
    from trainwright.controller.runtime.client.config import load_config as load_config
    from trainwright.controller.runtime.client.http import HTTPTransport as HTTPTransport
    from trainwright.controller.runtime.context import Reconcile as Reconcile
    from trainwright.controller.runtime.controller.builder import Builder as Builder
    from trainwright.controller.runtime.controller.controller import Controller as Controller
    from trainwright.controller.runtime.controller.results import Backoff as Backoff
    from trainwright.controller.runtime.controller.results import Done as Done
    from trainwright.controller.runtime.controller.results import Result as Result
    from trainwright.controller.runtime.controller.results import RetryAfter as RetryAfter
    from trainwright.controller.runtime.controller.sources import Trigger as Trigger
    from trainwright.controller.runtime.errors import ApiError as ApiError
    from trainwright.controller.runtime.errors import Cause as Cause
    from trainwright.controller.runtime.errors import Conflict as Conflict
    from trainwright.controller.runtime.errors import KubernetesError as KubernetesError
    from trainwright.controller.runtime.errors import NotControlled as NotControlled
    from trainwright.controller.runtime.errors import NotFound as NotFound
    from trainwright.controller.runtime.errors import NotLeading as NotLeading
    from trainwright.controller.runtime.errors import Terminal as Terminal
    from trainwright.controller.runtime.events.metrics import EventCollector as EventCollector
    from trainwright.controller.runtime.events.recorder import EventRecorder as EventRecorder
    from trainwright.controller.runtime.kinds import Kind as Kind
    from trainwright.controller.runtime.kinds import MetadataOnly as MetadataOnly
    from trainwright.controller.runtime.leaderelection.elector import LeaderElector as LeaderElector
    from trainwright.controller.runtime.leaderelection.timing import Timing as Timing
    from trainwright.controller.runtime.manager.manager import Manager as Manager
    from trainwright.controller.runtime.manager.process import run as run
    from trainwright.controller.runtime.manager.settings import NO_SERVERS as NO_SERVERS
    from trainwright.controller.runtime.manager.settings import ProcessSettings as ProcessSettings
    from trainwright.controller.runtime.manager.settings import ServerSettings as ServerSettings
    from trainwright.controller.runtime.manager.supervisor import Group as Group
    from trainwright.controller.runtime.webhook.admission import AdmissionRequest as AdmissionRequest
    from trainwright.controller.runtime.webhook.admission import AdmissionResponse as AdmissionResponse
    from trainwright.controller.runtime.webhook.admission import mutate_path as mutate_path
    from trainwright.controller.runtime.webhook.admission import validate_path as validate_path
    from trainwright.controller.runtime.webhook.placement import certificates_for as certificates_for
    from trainwright.controller.runtime.webhook.webhooks import Webhooks as Webhooks
    from trainwright.controller.runtime.workqueue.queue import WorkQueue as WorkQueue

_HOMES = {
    "Action": ".apply.applier",
    "AdmissionRequest": ".webhook.admission",
    "ApiError": ".errors",
    "Applied": ".apply.applier",
    "Applier": ".apply.applier",
    "Backoff": ".controller.results",
    "Builder": ".controller.builder",
    "Cache": ".cache.cache",
    "Cause": ".errors",
    "Client": ".client.client",
    "ClusterConfig": ".client.config",
    "Conflict": ".errors",
    "Controller": ".controller.controller",
    "Done": ".controller.results",
    "Event": ".cache.events",
    "EventCollector": ".events.metrics",
    "EventRecorder": ".events.recorder",
    "EventType": ".cache.events",
    "Group": ".manager.supervisor",
    "HTTPTransport": ".client.http",
    "Key": "trainwright.api.objects",
    "Kind": ".kinds",
    "KubernetesError": ".errors",
    "LeaderElector": ".leaderelection.elector",
    "Manager": ".manager.manager",
    "MetadataOnly": ".kinds",
    "NO_SERVERS": ".manager.settings",
    "NotControlled": ".errors",
    "NotFound": ".errors",
    "NotLeading": ".errors",
    "ProcessSettings": ".manager.settings",
    "Reconcile": ".context",
    "Result": ".controller.results",
    "RetryAfter": ".controller.results",
    "ServerSettings": ".manager.settings",
    "Terminal": ".errors",
    "Timing": ".leaderelection.timing",
    "Trigger": ".controller.sources",
    "AdmissionResponse": ".webhook.admission",
    "Webhooks": ".webhook.webhooks",
    "WorkQueue": ".workqueue.queue",
    "certificates_for": ".webhook.placement",
    "load_config": ".client.config",
    "mutate_path": ".webhook.admission",
    "run": ".manager.process",
    "set_condition": "trainwright.api.conditions",
    "validate_path": ".webhook.admission",
}

__all__ = [
    "NO_SERVERS",
    "Action",
    "AdmissionRequest",
    "AdmissionResponse",
    "ApiError",
    "Applied",
    "Applier",
    "Backoff",
    "Builder",
    "Cache",
    "Cause",
    "Client",
    "ClusterConfig",
    "Conflict",
    "Controller",
    "Done",
    "Event",
    "EventCollector",
    "EventRecorder",
    "EventType",
    "Group",
    "HTTPTransport",
    "Key",
    "Kind",
    "KubernetesError",
    "LeaderElector",
    "Manager",
    "MetadataOnly",
    "NotControlled",
    "NotFound",
    "NotLeading",
    "ProcessSettings",
    "Reconcile",
    "Result",
    "RetryAfter",
    "ServerSettings",
    "Terminal",
    "Timing",
    "Trigger",
    "Webhooks",
    "WorkQueue",
    "certificates_for",
    "load_config",
    "mutate_path",
    "run",
    "set_condition",
    "validate_path",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value
