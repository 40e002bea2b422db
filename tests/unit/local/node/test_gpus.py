# SPDX-License-Identifier: Apache-2.0
"""GPUs: found in a planted /proc tree and by a planted nvidia-smi, and given to pods."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.local.node import machine
from trainwright.controller.local.node.document import CreateError
from trainwright.controller.local.node.machine import Gpus, discover

INFORMATION = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 18
GPU UUID: \t GPU-{0}
Video BIOS: \t 96.00.61.00.01
Device Minor: \t 0
"""


@pytest.fixture(autouse=True)
def _clusters_of_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made, make = [], machine.MachineLocks

    def locks() -> machine.MachineLocks:
        made.append(make())
        return made[-1]

    monkeypatch.setattr(machine, "PREFIX", secrets.token_hex(8))
    monkeypatch.setattr(machine, "MachineLocks", locks)
    yield
    for one in made:
        one.close()


def plant(folder: Path, text: str) -> str:
    """An nvidia-smi that runs a script."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def test_devices_of_the_driver(tmp_path: Path) -> None:
    for place, uuid in (("0000:1b:00.0", "b"), ("0000:0a:00.0", "a")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text(INFORMATION.format(uuid))
    assert discover(tmp_path, "/no/nvidia-smi") == ("GPU-a", "GPU-b")


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ('[ "$1" = --query-gpu=uuid ] && printf "GPU-1\\nGPU-2\\n"', ("GPU-1", "GPU-2")),
        ("echo No devices were found; exit 6", ()),
        ("echo NVIDIA-SMI has failed", ()),
    ],
)
def test_devices_of_nvidia_smi(tmp_path: Path, script: str, wanted: tuple[str, ...]) -> None:
    assert discover(tmp_path / "absent", plant(tmp_path, script)) == wanted


def test_a_machine_without_any(tmp_path: Path) -> None:
    assert discover(tmp_path / "absent", str(tmp_path / "nvidia-smi")) == ()


def container(name: str, count: int = 0, **more: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(count)}} if count else {}
    return {"name": name, "resources": resources, **more}


def pod(uid: str, *main: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"containers": list(main), "initContainers": list(init)}}


def visible(gpus: Gpus, one: dict[str, Any]) -> dict[str, str | None]:
    every = [*one["spec"]["initContainers"], *one["spec"]["containers"]]
    return {each["name"]: gpus.variables(one, each).get("CUDA_VISIBLE_DEVICES") for each in every}


def test_pods_never_share_and_give_back() -> None:
    gpus = Gpus(["a", "b", "c"])
    first, second = pod("1", container("main", 2)), pod("2", container("main", 2))
    assert visible(gpus, first) == {"main": "a,b"}
    assert visible(gpus, first) == {"main": "a,b"}
    with pytest.raises(CreateError, match="the pod needs 2 GPUs, 1 of 3 are free"):
        visible(gpus, second)
    gpus.release("1")
    assert visible(gpus, second) == {"main": "c,a"}


def test_two_clusters_never_give_one_device_to_two_pods() -> None:
    here, there = Gpus(["a", "b", "c"]), Gpus(["a", "b", "c"])
    first, second = pod("1", container("main", 2)), pod("2", container("main", 2))
    assert visible(here, first) == {"main": "a,b"}
    with pytest.raises(CreateError, match="needs 2 GPUs, 1 of 3 are free; 2 more are in use by other clusters"):
        visible(there, second)
    assert visible(here, pod("3", container("main", 1))) == {"main": "c"}, "a refused pod holds nothing"
    here.release("1")
    assert visible(there, second) == {"main": "a,b"}
    there.close()
    assert visible(here, pod("4", container("main", 2))) == {"main": "a,b"}
    here.close()


def test_containers_of_a_pod_have_their_own_and_init_containers_use_them_before() -> None:
    gpus = Gpus(["a", "b", "c", "d"])
    init = (container("init", 2), container("side", 1, restartPolicy="Always"))
    found = visible(gpus, pod("1", container("x", 1), container("none"), container("y", 1), init=init))
    assert found == {"init": "a,b", "side": "a", "x": "b", "none": "", "y": "c"}
    assert visible(gpus, pod("2", container("z", 1))) == {"z": "d"}


def test_a_pod_that_asks_for_none_sees_none() -> None:
    assert visible(Gpus(["a"]), pod("1", container("main"))) == {"main": ""}


def test_shared_devices_stay_visible() -> None:
    assert visible(Gpus(["a"], share=True), pod("1", container("main", 1))) == {"main": None}


def test_nothing_is_set_without_devices() -> None:
    assert visible(Gpus(), pod("1", container("main", 1))) == {"main": None}
