# SPDX-License-Identifier: Apache-2.0
"""What a builder refuses to declare, and the rights of what a controller uses."""

from typing import Any

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod, Secret
from trainwright.api.rights import Rule
from trainwright.controller.runtime import ConfigurationError, Done, Key, Result, Trigger, labels_match
from trainwright.controller.runtime.controller.builder import Builder
from trainwright.controller.runtime.controller.sources import own_key
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.testing.clock import jumping


async def nothing(_: Key) -> Result:
    return Done()


@jumping
async def test_wrong_declarations_are_refused(scenario_class: Any) -> None:
    cache = scenario_class().cache
    with pytest.raises(ConfigurationError, match="needs a source"):
        Builder(cache, "x").reconcile(nothing)
    with pytest.raises(ConfigurationError, match="needs a name"):
        Builder(cache).source(Trigger()).reconcile(nothing)
    with pytest.raises(ConfigurationError, match="call for_ first"):
        Builder(cache, "x").owns(Secret)
    with pytest.raises(ConfigurationError, match="already called for ConfigMap"):
        Builder(cache).for_(ConfigMap).for_(Secret)
    with pytest.raises(ConfigurationError, match="must be an async function"):
        Builder(cache).for_(ConfigMap).reconcile(lambda _: Done())  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigurationError, match="workers must be 1 or more"):
        Builder(cache).for_(ConfigMap).reconcile(nothing, workers=0)
    uses = Uses(kind=ConfigMap, watches=(Secret,))
    with pytest.raises(ConfigurationError, match="controller x watches Pod, which its role does not allow"):
        Builder(cache, "x", uses=uses).for_(ConfigMap).owns(Secret).owns(Pod)


def test_rights_follow_from_what_a_controller_uses() -> None:
    log = Rule.on(Pod.RESOURCE, "get", subresource="log")
    uses = Uses(kind=ConfigMap, owns=(Secret,), watches=(Pod,), deletes=(Secret,), status=True, more=(log,))
    assert [(rule.resource, *rule.verbs) for rule in uses.rules()] == [
        ("configmaps", "list", "watch"),
        ("configmaps/finalizers", "update"),
        ("configmaps/status", "patch"),
        ("pods", "list", "watch"),
        ("pods/log", "get"),
        ("secrets", "create", "delete", "list", "patch", "watch"),
    ]


@jumping
async def test_reads_from_another_cache_than_the_events_are_refused(scenario_class: Any) -> None:
    """What an event shows, a read would not find yet, and the reconcile would take the object for deleted."""

    def declared(*declare: Any) -> Any:
        cache = scenario_class().cache
        for number, one in enumerate(declare):
            one(Builder(cache, f"c{number}")).reconcile(nothing)
        return cache

    def some(builder: Builder) -> Builder:
        return builder.for_(ConfigMap, label_selector="web=yes")

    def of_one_namespace(builder: Builder) -> Builder:
        return builder.for_(ConfigMap, namespace="n")

    def every(builder: Builder) -> Builder:
        return builder.watches(ConfigMap, own_key)

    text = r"c0 gets its events from the cache of configmaps \(all namespaces, web=yes\), and would read from that of"
    with pytest.raises(ConfigurationError, match=text):
        declared(lambda one: some(one).owns(ConfigMap))
    for wrong in ((some, every), (every, some), (every, of_one_namespace)):
        with pytest.raises(ConfigurationError, match="and use predicates, such"):
            declared(*wrong)
    declared(lambda one: some(one).owns(Secret))
    declared(some, some)
    declared(of_one_namespace, lambda one: one.for_(ConfigMap, namespace="m"))
    declared(lambda one: one.for_(ConfigMap, predicates=[labels_match("web=yes")]).owns(ConfigMap), every)
    # A cache that no controller reconciles from is read by whoever holds its informer.
    declared(every).informer(ConfigMap, label_selector="web=yes")
