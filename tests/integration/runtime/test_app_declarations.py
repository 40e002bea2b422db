# SPDX-License-Identifier: Apache-2.0
"""Declarations that fit together, and those that do not."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret, Service
from trainwright.api.objects import Key, name_of
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime import App, ConfigurationError, Context, MetadataOnly
from trainwright.controller.runtime.testing import objects
from trainwright.controller.runtime.testing.operators import running
from trainwright.controller.runtime.testing.waiting import GaveUp, equals, eventually_sync

SELECTED = {"watch": "yes"}
FINALIZER = "example.com/outside"


config_map = partial(objects.config_map, labels=SELECTED)


async def owners(obj: Any) -> list[Key]:
    return []


async def works(obj: Any, ctx: Context) -> None: ...


def blocks(obj: Any, ctx: Context) -> None: ...


def twice(app: App) -> None:
    app.reconciles(ConfigMap, name="one")(works)
    app.reconciles(ConfigMap, name="two")(works)
    app.finalizes(ConfigMap, FINALIZER)(works)
    app.rules()


WRONG: dict[str, tuple[Callable[[App], object], str]] = {
    "a name with capitals": (lambda _: App("Web"), r"App\('Web'\): the name of an operator is that of its Service"),
    "a decorator without arguments": (lambda app: app.reconciles(works), "is not a kind"),  # type: ignore[arg-type]
    "a plain function": (lambda app: app.reconciles(ConfigMap)(blocks), r"write async def blocks\("),  # type: ignore[arg-type]
    "a plain clean-up": (lambda app: app.finalizes(ConfigMap, FINALIZER)(blocks), "async def blocks"),  # type: ignore[arg-type]
    "a kind in place of a list": (lambda app: app.reconciles(ConfigMap, owns=Service)(works), r"write owns=\["),  # type: ignore[arg-type]
    "a word in place of a kind": (lambda app: app.reconciles(ConfigMap, reads=["v1"])(works), "'v1' is not a kind"),  # type: ignore[list-item]
    "watches without a function": (
        lambda app: app.reconciles(ConfigMap, watches=[Service])(works),  # type: ignore[arg-type]
        "write watches={Kind: function}",
    ),
    "watches with a coroutine": (
        lambda app: app.reconciles(ConfigMap, watches={Service: owners})(works),  # type: ignore[dict-item]
        "the function of Service cannot be a coroutine",
    ),
    "labels of kopf": (lambda app: app.reconciles(ConfigMap, labels={"a": "b"})(works), "write a text such as"),  # type: ignore[arg-type]
    "labels that are no selector": (lambda app: app.reconciles(ConfigMap, labels="a b")(works), "is no term"),
    "a finalizer without a domain": (lambda app: app.finalizes(ConfigMap, "bucket")(works), "a domain and a name"),
    "no worker": (lambda app: app.reconciles(ConfigMap, workers=0)(works), "controller works: workers must be 1 or"),
    "no time": (lambda app: app.reconciles(ConfigMap, timeout=0)(works), "timeout must be more than 0 s, not 0"),
    "two that would clean up": (twice, "reconcilers one, two, which would clean up"),
}


@pytest.mark.parametrize(("declare", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_declaration_is_refused_where_it_is_made(declare: Callable[[App], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        declare(App("wrong"))


@pytest.mark.local_cluster(rbac=True)
def test_controllers_of_one_kind_have_labels_of_their_own(local_cluster: LocalCluster) -> None:
    app = App("two")
    seen: set[tuple[str, str, int]] = set()

    @app.reconciles(ConfigMap, labels="watch=yes")
    async def one(config: ConfigMap, ctx: Context) -> None:
        seen.add(("one", config.name, len(ctx.list(ConfigMap, labels="watch"))))

    @app.reconciles(ConfigMap, labels="watch=no")
    async def other(config: ConfigMap, ctx: Context) -> None:
        seen.add(("other", config.name, len(ctx.list(ConfigMap, labels="watch"))))

    local_cluster.apply(config_map("a"), config_map("b", labels={"watch": "no"}), config_map("c", labels={}))
    with running(app, local_cluster):
        eventually_sync(lambda: seen, equals({("one", "a", 2), ("other", "b", 2)}))


@pytest.mark.local_cluster(rbac=True)
def test_a_finalizer_goes_from_an_object_that_lost_its_label(local_cluster: LocalCluster) -> None:
    app = App("leaving")
    cleaned: list[str] = []

    @app.reconciles(ConfigMap, labels="watch=yes")
    async def keep(config: ConfigMap, ctx: Context) -> None: ...

    @app.finalizes(ConfigMap, FINALIZER)
    async def clean(config: ConfigMap, ctx: Context) -> None:
        cleaned.append(config.name)

    def finalizers() -> Any:
        return (local_cluster.stored.get("configmap", "a", "default") or {}).get("metadata", {}).get("finalizers")

    with running(app, local_cluster):
        local_cluster.apply(config_map("a"), config_map("b", labels={}, finalizers=["example.com/other"]))
        eventually_sync(finalizers, equals([FINALIZER]))
        local_cluster.apply(config_map("a", labels={"watch": "no"}))
        for name in "ba":
            local_cluster.stored.delete("configmap", name, "default", wait=False)
        eventually_sync(lambda: local_cluster.stored.get("configmap", "a", "default"), equals(None))
    assert cleaned == ["a"]


@pytest.mark.local_cluster(rbac=True)
def test_metadata_is_enough_for_children_and_events_and_deletion(local_cluster: LocalCluster) -> None:
    app = App("metadata")
    metadata = MetadataOnly(ConfigMap)

    @app.reconciles(metadata, labels="watch=yes", owns=[Secret], deletes=[ConfigMap], events=True)
    async def keep(config: Any, ctx: Context) -> None:
        if "old" in (config.metadata.annotations or {}):
            await ctx.delete(config)
            return
        await ctx.apply(Secret(metadata=ctx.child()))
        ctx.event("Kept", "The Secret is there.")

    def owner() -> Any:
        found = local_cluster.stored.get("secret", "a", "default")
        return found and {key: found["metadata"]["ownerReferences"][0][key] for key in ("kind", "name", "controller")}

    def events() -> list[str]:
        found = local_cluster.stored.list("events.events.k8s.io", "default")
        return [one["regarding"]["kind"] for one in found if one["reason"] == "Kept"]

    with running(app, local_cluster):
        local_cluster.apply(config_map("a"), config_map("b", annotations={"old": "yes"}))
        eventually_sync(owner, equals({"kind": "ConfigMap", "name": "a", "controller": True}))
        eventually_sync(lambda: local_cluster.stored.get("configmap", "b", "default"), equals(None))
        eventually_sync(events, equals(["ConfigMap"]))


@pytest.mark.local_cluster(rbac=True)
def test_a_kind_that_is_not_installed_ends_the_wait_with_its_name(
    local_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.controller.runtime.testing.operators.READY_SECONDS", 2.0)
    app = App("lost")
    app.reconciles(Resource(group="a.example.com", version="v1", kind="Lost", plural="losts", namespaced=True))(works)
    with pytest.raises(GaveUp, match=r"Lost: GET /apis/a\.example\.com/v1/losts: 404"), running(app, local_cluster):
        pass


@pytest.mark.local_cluster(rbac=True)
@pytest.mark.parametrize("answer", ["no name", ["no name"]], ids=["a sentence", "a list of it"])
def test_a_text_is_one_value_and_not_its_letters(local_cluster: LocalCluster, answer: str | list[str]) -> None:
    app = App("strict")

    @app.validates(ConfigMap, labels={"watch": "yes"})
    def check(config: ConfigMap, request: Any) -> str | list[str]:
        return answer if name_of(config) == "bad" else ""

    found: list[int] = []

    @app.reconciles(ConfigMap, labels="watch=yes")
    async def count(config: ConfigMap, ctx: Context) -> None:
        found.append(len(ctx.list(ConfigMap, index=("name", config.name))))

    @app.index(ConfigMap, "name")
    def by_name(config: ConfigMap) -> str:
        return config.name

    with running(app, local_cluster):
        local_cluster.apply(config_map("good"))
        with pytest.raises(Exception, match=r"denied the request: .*no name"):
            local_cluster.apply(config_map("bad"))
        eventually_sync(lambda: found, equals([1]))
