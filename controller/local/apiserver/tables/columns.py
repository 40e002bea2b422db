# SPDX-License-Identifier: Apache-2.0
"""The columns of built-in kinds.

They have no descriptions, unlike those of Kubernetes, whose descriptions are its API documentation; kubectl shows none.
"""

from collections.abc import Iterable
from typing import Any

Column = dict[str, Any]


def column(name: str, type_: str = "string", *, format_: str = "", priority: int = 0, description: str = "") -> Column:
    """A column definition. Columns of priority 0 are shown, others only by `kubectl get -o wide`."""
    return {"name": name, "type": type_, "format": format_, "description": description, "priority": priority}


def columns(narrow: str, wide: str = "") -> tuple[Column, ...]:
    """Columns by their names, with commas between; `Name` is the name. A type other than string stands behind `:`."""
    return (*_columns(narrow, 0), *_columns(wide, 1))


def _columns(names: str, priority: int) -> Iterable[Column]:
    for word in names.split(",") if names else ():
        name, _, type_ = word.partition(":")
        yield column(name, type_ or "string", format_="name" if name == "Name" else "", priority=priority)


DEFAULT = columns("Name,Created At:date")
POD = columns("Name,Ready,Status,Restarts,Age", "IP,Node,Nominated Node,Readiness Gates")
JOB = columns("Name,Status,Completions,Duration,Age", "Containers,Images,Selector")
NODE = columns("Name,Status,Roles,Age,Version", "Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime")
NAMESPACE = columns("Name,Status,Age")
SERVICE = columns("Name,Type,Cluster-IP,External-IP,Port(s),Age", "Selector")
SECRET = columns("Name,Type,Data,Age")
CONFIG_MAP = columns("Name,Data,Age")
CLAIM = columns(
    "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age",
    "VolumeMode",
)
VOLUME = columns(
    "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age",
    "VolumeMode",
)
LEASE = columns("Name,Holder,Age")
SERVICE_ACCOUNT = columns("Name,Age")
STORAGE_CLASS = columns("Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age")
PRIORITY_CLASS = columns("Name,Value:integer,Global-Default:boolean,Age,PreemptionPolicy")
RUNTIME_CLASS = columns("Name,Handler,Age")
POLICY = columns("Name,Validations:integer,ParamKind,Age")
POLICY_BINDING = columns("Name,PolicyName,ParamRef,Age")
WEBHOOKS = columns("Name,Webhooks:integer,Age")
BINDING = columns("Name,Role,Age", "Users,Groups,ServiceAccounts")
REPLICAS = columns("Name,Desired:integer,Current:integer,Ready:integer,Age", "Containers,Images,Selector")
STATEFUL_SET = columns("Name,Ready,Age", "Containers,Images")
BUDGET = columns("Name,Min Available,Max Unavailable,Allowed Disruptions:integer,Age")
CSI_DRIVER = columns(
    "Name,AttachRequired:boolean,PodInfoOnMount:boolean,StorageCapacity:boolean,TokenRequests,"
    "RequiresRepublish:boolean,Modes,Age"
)
CSI_NODE = columns("Name,Drivers:integer,Age")
CSI_CAPACITY = columns("Name,StorageClassName,Capacity")
ATTACHMENT = (
    *columns("Name"),
    column("Attacher", format_="name"),
    *columns("PV,Node,Attached:boolean,Age"),
)
NAME_AND_AGE = columns("Name,Age")
RESOURCE_CLAIM = columns("Name,State,Age")
RESOURCE_SLICE = columns("Name,Node,Driver,Pool,Age")
EVENT = (
    *columns("Last Seen,Type,Reason,Object", "Subobject,Source"),
    *columns("Message", "First Seen,Count,Name"),
)
