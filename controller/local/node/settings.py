# SPDX-License-Identifier: Apache-2.0
"""Settings of a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from trainwright.controller.local.node.images import Images


class Isolation(StrEnum):
    """How the process of a container gets its names and paths."""

    AUTO = "auto"
    """Namespaces if they work here, else rewriting."""
    NAMESPACES = "namespaces"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    name: str
    """Name of the Node object: a DNS subdomain."""
    folder: Path
    """The state folder; `pods` in it belongs to the node."""
    images: Images = field(default_factory=Images)
    isolation: Isolation = Isolation.AUTO
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Overrides what the machine has: quantities by resource."""
    inherit: Sequence[str] = ()
    """Further variables of this process that containers inherit; `PREFIX_*` stands for all with a prefix."""
    share_gpus: bool = False
    """Leave all GPUs visible to every container."""

    @property
    def pods(self) -> Path:
        return self.folder / "pods"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"
