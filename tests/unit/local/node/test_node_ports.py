# SPDX-License-Identifier: Apache-2.0
"""Ports: who holds them, who moves to another one, who waits."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.node.pods import Document, container, member, pod
from trainwright.controller.local.node import machine
from trainwright.controller.local.node.ports import (
    PortRewriter,
    Ports,
    can_rewrite,
    free_port,
    port_is_free,
)

CASES = cases(__file__)

PORTS = [{"containerPort": 29500}]


def trainer(index: int, jobset: str, *args: str, **variables: str) -> Document:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return member(index, container(ports=PORTS, env=env, args=list(args)), jobset=jobset)


_MADE: list[Ports] = []


@pytest.fixture(autouse=True)
def _clusters_of_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(machine, "PREFIX", secrets.token_hex(8))
    yield
    while _MADE:
        _MADE.pop().close()


def ports(*busy: int) -> Ports:
    numbers = iter(range(40000, 50000))
    made = Ports(is_free=lambda port: port not in busy, pick=lambda: next(numbers))
    _MADE.append(made)
    return made


@pytest.mark.parametrize(("args", "variables", "wanted"), CASES["what_can_be_rewritten"])
def test_what_can_be_rewritten(args: list[str], variables: dict[str, str], wanted: bool) -> None:
    one = trainer(0, "mnist", *args, **variables)
    assert can_rewrite(one, 29500, [one]) is wanted


def test_a_machine_without_locks_still_gives_ports(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine, "PREFIX", "x" * 200)  # longer than names of sockets are
    one = ports()
    assert one.admit(trainer(0, "mnist", MASTER_PORT="29500"), [])
    assert one.moved(trainer(0, "mnist")) == {}
    assert caplog.text.count("is not kept apart from those of other clusters") == 1
    one.release(trainer(0, "mnist"))
    assert one.admit(trainer(0, "other", MASTER_PORT="29500"), [])


def test_a_port_is_held_by_its_jobset_and_the_second_one_moves() -> None:
    one = ports()
    first = [trainer(index, "a", MASTER_PORT="29500") for index in (0, 1)]
    second = [trainer(index, "b", MASTER_PORT="29500") for index in (0, 1)]
    assert all(one.admit(each, []) for each in [*first, *second, *first])
    assert [one.moved(each) for each in first] == [{}, {}]
    assert [one.moved(each) for each in second] == [{29500: 40000}] * 2
    for each in first:
        one.release(each)
    third = trainer(0, "c")
    assert one.admit(third, [])
    assert one.moved(third) == {}


def test_what_cannot_move_waits_for_the_port() -> None:
    one = ports()
    first, second = trainer(0, "a"), trainer(0, "b")
    assert one.admit(first, [])
    assert not one.admit(second, [])
    one.release(second)
    assert not one.admit(second, [])
    one.release(first)
    assert one.admit(second, [])


def test_the_last_pod_of_a_jobset_gives_the_port_back() -> None:
    one = ports()
    first, second = trainer(0, "a"), trainer(1, "a")
    assert one.admit(first, [])
    assert one.admit(second, [])
    one.release(first)
    assert not one.admit(trainer(0, "b"), [])


def test_a_port_of_a_foreign_process_is_left_to_it() -> None:
    one = ports(29500)
    first = trainer(0, "a", MASTER_PORT="29500")
    assert one.admit(first, [])
    assert one.moved(first) == {29500: 40000}


def test_pods_without_a_group_hold_for_themselves_and_other_protocols_do_not_count() -> None:
    one = ports()
    first, second = pod(container(ports=PORTS), name="x"), pod(container(ports=PORTS), name="y")
    datagrams: dict[str, Any] = {"containerPort": 29500, "protocol": "UDP"}
    assert one.admit(first, [])
    assert not one.admit(second, [])
    assert one.admit(pod(container(ports=[datagrams]), name="z"), [])


def test_the_real_port_is_said_in_place_of_the_declared_one() -> None:
    one = trainer(0, "mnist")
    rewriter = PortRewriter(one, {29500: 40000}, [one])
    found = rewriter.variables(
        {
            "MASTER_PORT": "29500",
            "SEED": "29500",
            "URL": "tcp://mnist-node-0-0.mnist:29500/x",
            "OTHER": "elsewhere:29500",
            "LONG": "mnist-node-0-0.mnist:295001",
        }
    )
    assert found == {
        "MASTER_PORT": "40000",
        "SEED": "29500",
        "URL": "tcp://mnist-node-0-0.mnist:40000/x",
        "OTHER": "elsewhere:29500",
        "LONG": "mnist-node-0-0.mnist:295001",
    }


def test_ports_of_this_machine() -> None:
    import socket  # noqa: PLC0415 - for this one test

    port = free_port()
    assert port_is_free(port)
    with socket.create_server(("", port)):
        assert not port_is_free(port)


def test_a_port_that_another_cluster_of_the_machine_holds_is_left_to_it() -> None:
    one, other = ports(), ports()
    pod = trainer(0, "a", MASTER_PORT="29500")
    assert one.admit(pod, [pod])
    assert other.admit(pod, [pod])
    assert (one.moved(pod), other.moved(pod)) == ({}, {29500: 40000})
    one.close()
    other.release(pod)
    assert other.admit(pod, [pod])
    assert other.moved(pod) == {}


def test_two_clusters_that_choose_at_the_same_time_get_different_ports() -> None:
    assert len({free_port() for _ in range(50)}) > 40
