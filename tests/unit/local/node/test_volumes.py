# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - the signatures of a protocol
"""Volumes: the files they hold, how these change, and where containers see them."""

import asyncio
import base64
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.node.pods import Document, container, pod
from trainwright.controller.local.node import volumes as atomic
from trainwright.controller.local.node.document import (
    ClusterSources,
    ConfigError,
    Token,
    VolumeError,
    references_of,
)
from trainwright.controller.local.node.volumes import Mount, ProjectedFile, Volumes
from trainwright.controller.runtime.testing.waiting import eventually

CASES = cases(__file__)


class Objects(ClusterSources):
    """What volumes are made from, without a cluster."""

    def __init__(self, claims: Mapping[str, str]) -> None:
        self.config_maps: dict[str, Document] = {
            "c": {"data": {"a": "1", "b": "2"}, "binaryData": {"raw": base64.b64encode(b"\xff").decode()}}
        }
        self.secrets: dict[str, Document] = {"s": {"data": {"key": base64.b64encode(b"hidden").decode()}}}
        self.asked: list[tuple[str, int]] = []
        self._claims = claims

    async def config_map(self, namespace: str, name: str) -> Document | None:
        return self.config_maps.get(name)

    async def secret(self, namespace: str, name: str) -> Document | None:
        return self.secrets.get(name)

    async def token(self, pod: Document, *, audience: str, seconds: int) -> Token:
        self.asked.append((audience, seconds))
        return Token(f"token-{len(self.asked)}", seconds * 0.8)

    async def claim_folder(self, namespace: str, claim: str) -> str:
        if claim not in self._claims:
            raise VolumeError(f'persistentvolumeclaim "{claim}" not found')
        return self._claims[claim]

    def allocatable(self) -> Mapping[str, str]:
        return {"cpu": "4"}


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects({"data": str(tmp_path)})


@pytest.fixture
def volumes(objects: Objects, tmp_path: Path) -> Volumes:
    return Volumes(tmp_path / "volumes", objects)


def files(volumes: Volumes, name: str = "v") -> dict[str, tuple[bytes, int]]:
    """Path, content and mode of the files that a container sees."""
    folder = Path(volumes.folders[name])
    found = {}
    for top in folder.iterdir():
        if not top.name.startswith(".."):
            for path in [top, *top.rglob("*")]:
                if path.is_file():
                    found[path.relative_to(folder).as_posix()] = (path.read_bytes(), path.stat().st_mode & 0o777)
    return found


def with_volume(**source: Any) -> Document:
    return pod(labels={"app": "x"}, volumes=[{"name": "v", **source}])


@pytest.mark.parametrize(("source", "wanted"), CASES["files"])
async def test_files(volumes: Volumes, source: Document, wanted: dict[str, list[str]]) -> None:
    """Content and mode of each, as people write them."""
    await volumes.prepare(with_volume(**source))
    found = {path: [data.decode("latin-1"), f"{mode:o}"] for path, (data, mode) in files(volumes).items()}
    assert found == wanted


@pytest.mark.parametrize(("source", "message"), CASES["what_cannot_be_mounted"])
async def test_what_cannot_be_mounted(volumes: Volumes, source: Document, message: str) -> None:
    with pytest.raises(VolumeError) as raised:
        await volumes.prepare(with_volume(**source))
    assert str(raised.value).startswith('MountVolume.SetUp failed for volume "v" : ')
    assert message in str(raised.value)


async def test_files_follow_their_source(volumes: Volumes, objects: Objects) -> None:
    one = with_volume(configMap={"name": "c"})
    await volumes.prepare(one)
    assert not await volumes.refresh(one)
    objects.config_maps["c"] = {"data": {"b": "3", "d": "4"}}
    assert await volumes.refresh(one)
    assert files(volumes) == {"b": (b"3", 0o644), "d": (b"4", 0o644)}


async def test_files_stay_when_their_source_goes(volumes: Volumes, objects: Objects) -> None:
    one = with_volume(secret={"secretName": "s"})
    await volumes.prepare(one)
    del objects.secrets["s"]
    with pytest.raises(VolumeError):
        await volumes.refresh(one)
    assert files(volumes) == {"key": (b"hidden", 0o644)}


async def test_an_api_server_that_does_not_answer_is_waited_for(volumes: Volumes, objects: Objects) -> None:
    async def fail(namespace: str, name: str) -> Document | None:
        raise ConfigError("connection refused")

    objects.config_map = fail  # type: ignore[method-assign]
    with pytest.raises(VolumeError, match="connection refused"):
        await volumes.prepare(with_volume(configMap={"name": "c"}))


async def test_tokens_are_renewed_in_time(objects: Objects, tmp_path: Path) -> None:
    now = 100.0
    volumes = Volumes(tmp_path, objects, clock=lambda: now)
    token = {"path": "token", "expirationSeconds": 1000}
    one = with_volume(projected={"sources": [{"serviceAccountToken": token}]})
    await volumes.prepare(one)
    assert objects.asked == [("", 1000)]
    assert volumes.renew_after == 800
    now += 799
    assert not await volumes.refresh(one)
    assert volumes.renew_after == 1
    now += 1
    assert await volumes.refresh(one)
    assert files(volumes)["token"] == (b"token-2", 0o644)
    assert volumes.renew_after == 800


@pytest.mark.only_where(hasattr(time, "CLOCK_BOOTTIME"), "a monotonic clock that stops while the machine sleeps")
async def test_tokens_are_due_after_a_sleep_of_the_machine(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = {time.CLOCK_BOOTTIME: 100.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    volumes = Volumes(tmp_path, objects)
    one = with_volume(projected={"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 1000}}]})
    await volumes.prepare(one)
    clocks[time.CLOCK_BOOTTIME] += 8 * 3600
    assert volumes.renew_after is not None
    assert volumes.renew_after <= 0
    assert await volumes.refresh(one)
    assert files(volumes)["token"] == (b"token-2", 0o644)


def test_the_objects_that_a_pod_refers_to() -> None:
    sources = [{"secret": {"name": "b"}}, {"serviceAccountToken": {"path": "t"}}]
    one = pod(
        container(
            envFrom=[{"configMapRef": {"name": "c"}}],
            env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k"}}}],
        ),
        volumes=[
            {"name": "v", "configMap": {"name": "a"}},
            {"name": "w", "secret": {"secretName": "e"}},
            {"name": "p", "projected": {"sources": sources}},
        ],
    )
    assert references_of(one) == {"a", "b", "c", "d", "e"}


def test_an_update_is_one_rename(tmp_path: Path) -> None:
    atomic.write(tmp_path, {"a": ProjectedFile(b"1", 0o644), "x/y": ProjectedFile(b"1", 0o644)})
    before = (tmp_path / "..data").resolve()
    atomic.write(tmp_path, {"a": ProjectedFile(b"2", 0o644)})
    assert (tmp_path / "..data").resolve() != before
    assert not before.exists()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["a"]
    atomic.write(tmp_path, {"a": ProjectedFile(b"2", 0o600)})
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


async def test_who_removes_the_files_waits_for_the_thread_that_writes_them(
    volumes: Volumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, write = threading.Event(), threading.Event(), atomic.write

    def slow(folder: Path, files: Mapping[str, ProjectedFile]) -> None:
        began.set()
        go_on.wait()
        write(folder, files)

    monkeypatch.setattr(atomic, "write", slow)
    preparing = asyncio.create_task(volumes.prepare(with_volume(secret={"secretName": "s"})))
    await eventually(began.is_set)
    preparing.cancel()
    await asyncio.wait({preparing}, timeout=0.01)
    is_over = preparing.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await preparing
    assert not is_over


async def test_mounts(volumes: Volumes, tmp_path: Path) -> None:
    one = pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    await volumes.prepare(one)
    mounts = [
        {"name": "v", "mountPath": "/a/"},
        {"name": "v", "mountPath": "/b", "subPath": "x/y", "readOnly": True},
        {"name": "v", "mountPath": "/c", "subPathExpr": "run-$(RANK)"},
        {"name": "d", "mountPath": "/d"},
    ]
    folder = f"{tmp_path}/volumes/v"
    assert volumes.mounts_of(container(volumeMounts=mounts), {"RANK": "3"}) == [
        Mount("/a", folder, read_only=False),
        Mount("/b", f"{folder}/x/y", read_only=True),
        Mount("/c", f"{folder}/run-3", read_only=False),
        Mount("/d", str(tmp_path), read_only=False),
    ]
    assert (tmp_path / "volumes" / "v" / "x" / "y").is_dir()


@pytest.mark.parametrize(("mount", "message"), CASES["mounts_that_are_refused"])
async def test_mounts_that_are_refused(volumes: Volumes, mount: Document, message: str) -> None:
    await volumes.prepare(with_volume(emptyDir={}))
    with pytest.raises(ConfigError, match=message):
        volumes.mounts_of(container(volumeMounts=[mount]), {})


async def test_folders_of_the_machine_are_made_when_asked_for(volumes: Volumes, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder"
    await volumes.prepare(with_volume(hostPath={"path": str(path), "type": "DirectoryOrCreate"}))
    assert volumes.folders == {"v": str(path)}
    assert path.is_dir()
