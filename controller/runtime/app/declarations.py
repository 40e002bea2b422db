# SPDX-License-Identifier: Apache-2.0
"""What an operator says of itself: what it reconciles, owns, watches, reads and writes. Its rights follow from that."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from trainwright.api.base import Object, Resource
from trainwright.api.objects import Document, deletion_timestamp_of, finalizers_of
from trainwright.api.rights import Rule, merged
from trainwright.controller.runtime.cache.store import Event
from trainwright.controller.runtime.controller.controller import Result
from trainwright.controller.runtime.controller.sources import Mapper, Predicate
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import DEFINITION, Kind, MetadataOnly, resource_of
from trainwright.controller.runtime.leaderelection.candidate import LeaseLock
from trainwright.controller.runtime.webhook.admission import mutate_path, validate_path
from trainwright.controller.runtime.webhook.conversion import CONVERT_PATH
from trainwright.controller.runtime.workqueue.limiters import Limiter

Handler: TypeAlias = Callable[[Any, Any], Awaitable[Result]]
"""A reconciler or a clean-up: takes the object, as the cache has it, and the `Context` of the call."""


def check_handler(function: Handler, decorator: str) -> None:
    """Raises ConfigurationError for a plain function, whose result could not be awaited."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 - bound
    if not (inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(called)):
        name = getattr(function, "__name__", repr(function))
        raise ConfigurationError(f"{decorator} needs a coroutine function: write async def {name}(…)")


def check_kinds(argument: str, kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """The kinds. Raises ConfigurationError for one that is not in a list, and for what is no kind."""
    if isinstance(kinds, type | Resource | MetadataOnly | str):
        raise ConfigurationError(f"{argument}={kinds!r} is not a list: write {argument}=[…]")
    found = tuple(kinds)
    for kind in found:
        resource_of(kind)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionHook:
    """A defaulting or validating webhook of one kind."""

    kind: type[Object]
    handle: Callable[..., Any]
    mutates: bool
    labels: Mapping[str, str]
    """Of the objects that it is called for; empty: all."""

    @property
    def path(self) -> str:
        return mutate_path(self.kind) if self.mutates else validate_path(self.kind)

    def configured(self, service: Document) -> Document:
        """Its entry in a configuration."""
        resource = self.kind.RESOURCE
        rule = {"apiGroups": [resource.group], "apiVersions": [resource.version], "resources": [resource.plural]}
        selector = {"objectSelector": {"matchLabels": dict(self.labels)}} if self.labels else {}
        return {
            "name": f"{'default' if self.mutates else 'validate'}.{resource.plural}.{resource.group or 'core'}",
            "clientConfig": {"service": {**service, "path": self.path}},
            "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
            **selector,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What an installation needs to know of an operator."""

    name: str
    rules: tuple[Rule, ...]
    """In the namespaces of its objects, and on objects without one."""
    hooks: tuple[AdmissionHook, ...] = ()
    converted: tuple[Resource, ...] = ()
    """The versions of kinds that its webhook converts."""
    crds: Path | None = None
    """Folder of the CustomResourceDefinitions of its own kinds."""

    @property
    def serves(self) -> bool:
        """Whether it serves webhooks."""
        return bool(self.hooks or self.converted)

    def configurations(self, namespace: str) -> list[Document]:
        """The webhook configurations of an installation, which call the Service of this operator."""
        service = {"name": self.name, "namespace": namespace}
        found: list[Document] = []
        for mutates in (True, False):
            hooks = [hook.configured(service) for hook in self.hooks if hook.mutates is mutates]
            if hooks:
                kind = f"{'Mutating' if mutates else 'Validating'}WebhookConfiguration"
                metadata = {"name": self.name}
                api_version = "admissionregistration.k8s.io/v1"
                found.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, "webhooks": hooks})
        return found

    def conversions(self, namespace: str) -> list[Document]:
        """What the definitions of converted kinds say of the conversion, in the form of definitions."""
        client = {"service": {"name": self.name, "namespace": namespace, "path": CONVERT_PATH}}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        names = dict.fromkeys(f"{one.plural}.{one.group}" for one in self.converted)
        return [
            {
                "apiVersion": DEFINITION.api_version,
                "kind": DEFINITION.kind,
                "metadata": {"name": name},
                "spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}},
            }
            for name in names
        ]

    def own_rules(self) -> tuple[Rule, ...]:
        """The rights in its own namespace: those of the election, and of the Secret of its certificates."""
        if not self.serves:
            return LeaseLock.rules(self.name)
        # Certificates need a library that operators without webhooks need not have.
        from trainwright.controller.runtime.certificates.material import CertificateVault  # noqa: PLC0415

        return merged((*LeaseLock.rules(self.name), *CertificateVault.rules(self.secret)))

    def hook_rules(self, namespace: str, *, by_url: bool = False) -> tuple[Rule, ...]:
        """The rights on its webhook configurations, of which it keeps the CA bundles, or which it makes by URL."""
        if not self.serves:
            return ()
        from trainwright.controller.runtime.webhook.webhooks import Webhooks  # noqa: PLC0415 - as above

        if by_url:
            return Webhooks.rules(self.configurations(namespace), managed=False, by_url=True)
        return Webhooks.rules([*self.configurations(namespace), *self.conversions(namespace)], managed=True)

    @property
    def secret(self) -> str:
        """Name of the Secret of its certificates."""
        return f"{self.name}-webhook-certificates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalization:
    """What is cleaned up before an object is deleted."""

    finalizer: str
    cleanup: Handler


@dataclass(slots=True, kw_only=True)
class Reconciled:
    """One controller of an operator. Each field is as the argument of `App.reconciles` says."""

    name: str
    uses: Uses
    reconcile: Handler
    labels: str = ""
    watches: Mapping[Kind, Mapper] = field(default_factory=dict)
    when: tuple[Predicate, ...] = ()
    workers: int = 4
    limiter: Limiter | None = None
    timeout: float | None = None
    finalization: Finalization | None = None

    def holds_back(self, event: Event[Any]) -> bool:
        """Whether the object of an event is being deleted, and waits for the clean-up, whatever its labels are."""
        obj = event.obj
        waits_for = self.finalization.finalizer if self.finalization is not None else None
        return deletion_timestamp_of(obj) is not None and waits_for in finalizers_of(obj)

    def rules(self) -> Iterable[Rule]:
        """The rights that follow."""
        return replace(self.uses, finalizes=self.finalization is not None).rules()

    def check_applies(self, resource: Resource) -> bool:
        """Whether objects of this kind are children of the object. Raises ConfigurationError if it is not declared."""
        if resource in map(resource_of, self.uses.owns):
            return True
        if resource in map(resource_of, self.uses.writes):
            return False
        raise self.undeclared(f"writes {resource.kind}", f"owns=[{resource.kind}] or writes=[{resource.kind}]")

    def check_deletes(self, resource: Resource) -> None:
        """Raises ConfigurationError if it is not declared."""
        if resource not in map(resource_of, self.uses.deletes):
            raise self.undeclared(f"deletes {resource.kind}", f"deletes=[{resource.kind}]")

    def undeclared(self, what: str, missing: str) -> ConfigurationError:
        """The error for a call that needs a right that is not declared."""
        return ConfigurationError(f"{self.name} {what}, which is not declared: pass {missing} to reconciles")
