# SPDX-License-Identifier: Apache-2.0
"""Stand-in of PyTorch: as much of it as docs/users/progress.md uses. A tensor is one number."""

from types import SimpleNamespace
from typing import Any


class Tensor:
    """A number on a device that must not be read on the training thread."""

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        """Read it."""
        return self.value

    def detach(self) -> "Tensor":
        """Leave the graph."""
        return self

    def clone(self) -> "Tensor":
        """Copy it."""
        return Tensor(self.value)

    def backward(self) -> None:
        """Compute gradients."""


class SGD:
    """An optimizer that does nothing."""

    def __init__(self, parameters: Any, lr: float) -> None:
        self.parameters, self.lr = parameters, lr

    def zero_grad(self) -> None:
        """Forget gradients."""

    def step(self) -> None:
        """Apply gradients."""


def mse_loss(given: float, wanted: float) -> Tensor:
    """The squared error."""
    return Tensor((given - wanted) ** 2)


optim = SimpleNamespace(SGD=SGD)
nn = SimpleNamespace(functional=SimpleNamespace(mse_loss=mse_loss))
