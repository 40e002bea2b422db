# SPDX-License-Identifier: Apache-2.0
"""XGBoost, PyTorch and JAX train on the local cluster, through the variables of their plugins.

Each has an environment of its own, named in `images.yaml`: XGBoost that of `make run`, JAX one that the tests install
(550 MB, 10 s with the packages at hand), PyTorch the one that `TRAINWRIGHT_TORCH` names, such as that of Debian's
python3-torch. Without the variable the tests of PyTorch are left out.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.trainings import FRAMEWORKS, TORCH, alone, check, trained
from tests.unit.local.node.modes import MODES
from trainwright.controller.local.node.settings import Isolation

# Each trains twice, once to know the figures; a machine with much else to do takes minutes for one.
pytestmark = pytest.mark.timeout(900)
NEEDS = {"torch": [pytest.mark.needs_environment(TORCH)]}


@pytest.fixture
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The figures of a framework in one process; trained once."""
    return lambda name: alone(name, tmp_path_factory.getbasetemp())


def test_two_processes_train_one_model(tmp_path: Path, reference: Callable[[str], str]) -> None:
    check("xgboost", trained("xgboost", tmp_path, nodes=2), 2, reference("xgboost"))


@pytest.mark.parity
@pytest.mark.parametrize("isolation", MODES)
@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, [])) for name in FRAMEWORKS])
def test_all_processes_train_the_model_of_all_examples(
    name: str, nodes: int, isolation: Isolation, tmp_path: Path, reference: Callable[[str], str]
) -> None:
    check(name, trained(name, tmp_path, nodes=nodes, isolation=isolation), nodes, reference(name))


@pytest.mark.parity
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, [])) for name in FRAMEWORKS])
def test_without_a_variable_of_the_plugin_they_do_not(
    name: str, tmp_path: Path, reference: Callable[[str], str]
) -> None:
    """What shows that the tests above can fail."""
    lines = trained(name, tmp_path, nodes=2, without=FRAMEWORKS[name].variable)
    # The lines of torchrun are folded into one that ends with the exception.
    assert any(FRAMEWORKS[name].without in line for line in lines)
    with pytest.raises(AssertionError):
        check(name, lines, 2, reference(name))
