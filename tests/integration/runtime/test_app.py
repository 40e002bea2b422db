# SPDX-License-Identifier: Apache-2.0
"""Operators that are one module, with the rights of their declarations alone."""

import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret, Service
from trainwright.api.objects import Key, namespace_of
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime import App, Context, Forbidden, Terminal
from trainwright.controller.runtime.testing.objects import build, config_map
from trainwright.controller.runtime.testing.operators import ForbiddenRequests, running
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync

pytestmark = pytest.mark.local_cluster(rbac=True)


def data_of(cluster: LocalCluster, name: str) -> Any:
    return (cluster.stored.get("configmap", name, "default") or {}).get("data")


def test_children_follow_their_owner_and_come_back(local_cluster: LocalCluster) -> None:
    app = App("copies")

    @app.reconciles(ConfigMap, labels="copy=yes", owns=[Secret])
    async def copy(config: ConfigMap, ctx: Context) -> None:
        data = {key: text.upper() for key, text in (config.data or {}).items()}
        await ctx.apply(Secret(metadata=ctx.child("copy", labels={"a": "b"}), string_data=data))

    def copied() -> Any:
        found = local_cluster.stored.get("secret", "copy", "default")
        return found and (found["data"], found["metadata"]["labels"], found["metadata"]["ownerReferences"][0]["name"])

    with running(app, local_cluster):
        local_cluster.apply(
            config_map("a", data={"x": "one"}, labels={"copy": "yes"}), config_map("b", data={"x": "two"})
        )
        first = eventually_sync(copied)
        assert first == ({"x": "T05F"}, {"a": "b"}, "a")
        local_cluster.stored.delete("secret", "copy", "default", wait=False)
        assert eventually_sync(copied) == first


def test_what_is_left_over_is_pruned(local_cluster: LocalCluster) -> None:
    app = App("parts")

    @app.reconciles(ConfigMap, labels="parts=yes", owns=[Secret], deletes=[Secret])
    async def parts(config: ConfigMap, ctx: Context) -> None:
        wanted = [Secret(metadata=ctx.child(name)) for name in config.data or ()]
        await ctx.apply(*wanted, prune=[Secret])

    def names() -> list[str]:
        return sorted(one["metadata"]["name"] for one in local_cluster.stored.list("secret", "default"))

    with running(app, local_cluster):
        local_cluster.apply(config_map("a", data={"x": "", "y": ""}, labels={"parts": "yes"}))
        eventually_sync(names, equals(["x", "y"]))
        local_cluster.apply(config_map("a", data={"y": "", "z": ""}, labels={"parts": "yes"}))
        eventually_sync(names, equals(["y", "z"]))


def test_own_children_are_listed_by_namespace_and_a_time_that_has_passed_is_soon(local_cluster: LocalCluster) -> None:
    app = App("listing")
    found: list[tuple[int, int, int]] = []

    @app.reconciles(ConfigMap, labels="list=yes", owns=[Secret])
    async def listing(config: ConfigMap, ctx: Context) -> None:
        await ctx.apply(Secret(metadata=ctx.child()))
        here, other = (len(ctx.list(Secret, owned=True, namespace=one)) for one in ("default", "kube-system"))
        found.append((len(ctx.list(Secret, owned=True)), here, other))
        ctx.requeue_after(-1)

    with running(app, local_cluster):
        local_cluster.apply(config_map("a", labels={"list": "yes"}))
        eventually_sync(lambda: len(found) >= 3)
    assert found[-1] == (1, 1, 0)


def test_undeclared_calls_are_refused_with_what_to_declare(local_cluster: LocalCluster) -> None:
    app = App("careless")
    said: dict[str, str] = {}

    @app.reconciles(ConfigMap, labels="try=yes")
    async def careless(config: ConfigMap, ctx: Context) -> None:
        tries: dict[str, Callable[[], Awaitable[Any]]] = {
            "a list": lambda: ctx.apply([Service(metadata=ctx.child())]),  # type: ignore[arg-type]
            "apply": lambda: ctx.apply(Service(metadata=ctx.child())),
            "delete": lambda: ctx.delete(config),
            "status": lambda: ctx.status({}),
        }
        for name, make in tries.items():
            try:
                await make()
            except Exception as error:
                said[name] = str(error)
        try:
            ctx.event("Tried", "It tried.")
        except Exception as error:
            said["event"] = str(error)

    with running(app, local_cluster):
        local_cluster.apply(config_map("a", labels={"try": "yes"}))
        eventually_sync(lambda: len(said), equals(5))
    declared = "which is not declared: pass"
    assert said == {
        "a list": "apply takes objects, not list: write apply(*objects) for a list",
        "apply": f"careless writes Service, {declared} owns=[Service] or writes=[Service] to reconciles",
        "delete": f"careless deletes ConfigMap, {declared} deletes=[ConfigMap] to reconciles",
        "status": f"careless writes a status, {declared} status=True to reconciles",
        "event": f"careless records an event, {declared} events=True to reconciles",
    }


def test_a_request_without_its_right_fails_the_test(local_cluster: LocalCluster) -> None:
    app = App("direct")
    tried = threading.Event()

    @app.reconciles(ConfigMap, labels="try=yes")
    async def direct(config: ConfigMap, ctx: Context) -> None:
        try:
            await ctx.manager.client.get(Secret, "s", config.namespace)
        except Forbidden as error:
            tried.set()
            raise Terminal("no") from error

    def run() -> None:
        with running(app, local_cluster):
            local_cluster.apply(config_map("a", labels={"try": "yes"}))
            assert tried.wait(60)

    with pytest.raises(ForbiddenRequests, match="GET /api/v1/namespaces/default/secrets/s"):
        run()


@pytest.mark.local_cluster(rbac=False)
def test_a_cluster_without_roles_proves_no_rights(local_cluster: LocalCluster) -> None:
    app = App("any")

    @app.reconciles(ConfigMap)
    async def nothing(config: ConfigMap, ctx: Context) -> None: ...

    with pytest.raises(ControlPlaneError, match="mark the test local_cluster"), running(app, local_cluster):
        pass


def test_an_owner_that_is_being_deleted_is_left_alone(local_cluster: LocalCluster) -> None:
    app = App("leaving")
    seen: list[str] = []

    @app.reconciles(ConfigMap, owns=[Secret])
    async def leaving(config: ConfigMap, ctx: Context) -> None:
        seen.append(config.name)

    with running(app, local_cluster):
        local_cluster.apply(config_map("a", finalizers=["example.com/held"]), config_map("b"))
        eventually_sync(lambda: {"a", "b"} <= set(seen))
        seen.clear()
        local_cluster.stored.delete("configmap", "a", "default", wait=False)
        local_cluster.apply(
            config_map("a", data={"x": "y"}, finalizers=["example.com/held"]), config_map("b", data={"x": "y"})
        )
        eventually_sync(lambda: "b" in seen)
        assert "a" not in seen


def test_changes_of_other_kinds_reach_those_that_they_concern(local_cluster: LocalCluster) -> None:
    app = App("counter")

    @app.index(ConfigMap, "of")
    def of(config: ConfigMap) -> list[str]:
        return [(config.data or {}).get("of", "")]

    def concerned(secret: Secret) -> list[Key]:
        return [Key(namespace_of(secret), "count")]

    @app.reconciles(ConfigMap, watches={Secret: concerned}, writes=[ConfigMap])
    async def counter(config: ConfigMap, ctx: Context) -> None:
        if config.name == "count":
            secrets = ctx.list(Secret, labels="counts=yes")
            others = ctx.list(ConfigMap, index=("of", "count"))
            text = {"secrets": str(len(secrets)), "others": ",".join(sorted(one.name for one in others))}
            await ctx.apply(config_map("result", data=text))

    def secret(name: str, counts: str) -> dict[str, Any]:
        return build(Secret.RESOURCE, name, labels={"counts": counts})

    with running(app, local_cluster):
        local_cluster.apply(
            config_map("count"), config_map("x", data={"of": "count"}), config_map("y", data={"of": "z"})
        )
        local_cluster.apply(secret("a", "yes"), secret("b", "no"), secret("c", "yes"))
        eventually_sync(lambda: data_of(local_cluster, "result"), equals({"secrets": "2", "others": "x"}))


def test_a_finalizer_needs_a_reconciler() -> None:
    app = App("buckets")

    @app.finalizes(ConfigMap, "example.com/bucket")
    async def empty(config: ConfigMap, ctx: Context) -> None: ...

    with pytest.raises(Exception, match=r"ConfigMap has the finalizer example\.com/bucket and no reconciler"):
        app.rules()


WEB = Path(__file__).parents[3] / "examples" / "web" / "web.py"


def test_a_role_without_a_cluster_takes_no_kinds_without_namespace(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, WEB, "rbac", "--only-namespace", "shop"], capture_output=True, text=True, check=True
    )
    assert "kind: Role\n" in found.stdout
    assert "kind: ClusterRole\n" not in found.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rbac", "--namespace", "Web"], "--namespace is 'Web': a lowercase RFC 1123 label"),
        (["run", "--only-namespace", "my_web"], "--only-namespace is 'my_web': a lowercase RFC 1123 label"),
        (["render-manifests", "--image", "web:1", "--replicas", "-1"], "--replicas is -1: write 0 or more"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], said: str) -> None:
    found = subprocess.run([sys.executable, WEB, *arguments], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr.startswith(f"error: {said}")


def test_what_the_environment_says_is_checked_as_an_option_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_LOG_LEVEL", "loud")
    found = subprocess.run([sys.executable, WEB, "run"], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr == "error: --log-level is 'loud': write one of debug, info, warning, error\n"
