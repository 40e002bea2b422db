# SPDX-License-Identifier: Apache-2.0
"""The name of one object of the cluster: of a fact that a plugin asks for, and of an object that it builds."""

from typing import NamedTuple

from trainwright.api.base import Resource


class Reference(NamedTuple):
    """One object of the cluster, whether it exists or not."""

    resource: Resource
    namespace: str
    """Empty for kinds without namespaces."""
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {where}{self.name}"
