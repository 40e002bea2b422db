# SPDX-License-Identifier: Apache-2.0
"""Discovery: which resources there are. Pure functions from a description and the header `Accept` to a document.

- `DiscoveryResource` and `Subresource` describe, `groups_of` sorts them.
- `core_versions`, `groups`, `group`, `resources` and `version` answer `/api`, `/apis`, `/apis/<group>`, a group version
  and `/version`.

The aggregated form is served as v2. Kubernetes 1.36 does not serve v2beta1 any more; clients that ask for it accept the
other form too.
"""

from trainwright.controller.local.apiserver.views.discovery.documents import (
    DiscoveryDocument,
    core_versions,
    etag,
    group,
    groups,
    resources,
    version,
)
from trainwright.controller.local.apiserver.views.discovery.resources import (
    CUSTOM_VERBS,
    READ_AND_WRITE,
    STATUS_VERBS,
    DiscoveryGroup,
    DiscoveryResource,
    Subresource,
    groups_of,
)

__all__ = [
    "CUSTOM_VERBS",
    "READ_AND_WRITE",
    "STATUS_VERBS",
    "DiscoveryDocument",
    "DiscoveryGroup",
    "DiscoveryResource",
    "Subresource",
    "core_versions",
    "etag",
    "group",
    "groups",
    "groups_of",
    "resources",
    "version",
]
