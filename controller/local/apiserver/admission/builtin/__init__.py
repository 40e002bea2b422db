# SPDX-License-Identifier: Apache-2.0
"""Admission that is built in: what the plugins of kube-apiserver do that are on by default and matter here.

`mutate` runs before mutating webhooks and `validate` after them, in the order of kube-apiserver.
"""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.admission.builtin import (
    accounts,
    limits,
    namespaces,
    priorities,
    runtime_classes,
    storage_classes,
    tolerations,
    topology,
)
from trainwright.controller.local.apiserver.admission.builtin.write import Context, Write

__all__ = ["Context", "Write", "mutate", "validate"]

_MUTATING = (
    namespaces.check,
    limits.mutate,
    accounts.mutate,
    priorities.mutate,
    tolerations.mutate,
    runtime_classes.mutate,
    storage_classes.mutate,
    topology.mutate,
)
_VALIDATING = (limits.validate, accounts.validate, priorities.validate, runtime_classes.validate)


def mutate(document: Document, write: Write, context: Context, *, service_accounts: bool = True) -> None:
    """Fill in what an object gets from other objects. Raises StatusError where an object is refused."""
    for plugin in _MUTATING:
        if service_accounts or plugin is not accounts.mutate:
            plugin(document, write, context)


def validate(document: Document, write: Write, context: Context, *, service_accounts: bool = True) -> None:
    """Check again what webhooks could have changed. Raises StatusError where an object is refused."""
    for plugin in _VALIDATING:
        if service_accounts or plugin is not accounts.validate:
            plugin(document, write, context)
