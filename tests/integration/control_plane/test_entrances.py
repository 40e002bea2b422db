# SPDX-License-Identifier: Apache-2.0
"""The three entrances to a cluster, in virtual time, in the process and of programs, have the same surface."""

from contextlib import closing

import pytest

from trainwright.api.kubernetes.core.v1 import Namespace
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.objects import build, config_map
from trainwright.controller.runtime.testing.stored import StoredObjects
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import GaveUp
from trainwright.controller.simulation.virtual import VirtualCluster

SPACE = "team"


class Surface:
    """What each of them does."""

    def test_what_is_created_is_read_listed_patched_and_deleted(self, stored: StoredObjects) -> None:
        stored.create(config_map("a", SPACE, data={"key": "1"}))
        assert stored.patch("configmap", "a", {"data": {"more": "2"}}, SPACE)["data"] == {"key": "1", "more": "2"}
        assert [one["kind"] for one in stored.list("configmaps", SPACE) if one["metadata"]["name"] == "a"] == [
            "ConfigMap"
        ]
        stored.delete("configmap", "a", SPACE)
        assert stored.get("configmap", "a", SPACE) is None

    def test_a_refusal_says_what_the_api_server_says(self, stored: StoredObjects) -> None:
        with pytest.raises(
            ControlPlaneError, match=r'ConfigMap in version "v1" cannot be handled.*unknown field "wrong"'
        ):
            stored.create({**config_map("a", SPACE), "wrong": 1})
        with pytest.raises(ControlPlaneError, match="does not serve nonsense"):
            stored.get("nonsense", "a")

    def test_a_watch_tells_of_what_is_there_and_of_what_changes(self, stored: StoredObjects) -> None:
        stored.create(config_map("a", SPACE))
        with closing(stored.watch("configmaps", SPACE, seconds=20)) as events:
            seen = (one for one in events if one["object"]["metadata"]["name"] == "a")
            assert next(seen)["type"] == "ADDED"
            stored.patch("configmap", "a", {"data": {"key": "1"}}, SPACE)
            assert next(seen)["object"]["data"] == {"key": "1"}
            stored.delete("configmap", "a", SPACE)
            assert next(seen)["type"] == "DELETED"

    def test_a_wait_returns_the_object_or_shows_what_it_saw(self, stored: StoredObjects) -> None:
        stored.create(config_map("a", SPACE, data={"key": "1"}))
        assert stored.wait("configmap", "a", lambda found: "data" in found, SPACE)["data"] == {"key": "1"}
        with pytest.raises(GaveUp, match=r"configmap a did not hold after 0\.1 s; last seen: .*'key': '1'"):
            stored.wait("configmap", "a", lambda found: "more" in found["data"], SPACE, seconds=0.1)


def empty(stored: StoredObjects) -> StoredObjects:
    """With a namespace that has no ConfigMap `a`."""
    if stored.get("namespace", SPACE) is None:
        stored.create(build(Namespace.RESOURCE, SPACE))
    stored.delete("configmap", "a", SPACE)
    return stored


class TestInVirtualTime(Surface):
    @pytest.fixture
    def stored(self, virtual_cluster: VirtualCluster) -> StoredObjects:
        return empty(virtual_cluster.stored)


class TestInTheProcess(Surface):
    @pytest.fixture
    def stored(self, local_cluster: LocalCluster) -> StoredObjects:
        return empty(local_cluster.stored)


class TestOfPrograms(Surface):
    @pytest.fixture
    def stored(self, control_plane: ControlPlane) -> StoredObjects:
        return empty(control_plane.stored)


def test_time_passes_only_when_the_test_lets_it(virtual_cluster: VirtualCluster) -> None:
    began = virtual_cluster.now
    virtual_cluster.stored.create(config_map("a", "default"))
    assert virtual_cluster.now == began
    virtual_cluster.stored.advance(3600)
    assert (virtual_cluster.now - began).total_seconds() == 3600
