# SPDX-License-Identifier: Apache-2.0
"""Stand-in of lightning.pytorch."""

from typing import Any


class Callback:
    """The callbacks that are used; others exist."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None: ...

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None: ...

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None: ...

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None: ...

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None: ...

    def on_train_end(self, trainer: Any, pl_module: Any) -> None: ...


class Trainer:
    """Walks through the data."""

    is_global_zero = True
    sanity_checking = False

    def __init__(self, max_epochs: int, callbacks: list[Any]) -> None:
        self.max_epochs, self.callbacks = max_epochs, callbacks
        self.current_epoch = self.global_step = 0
        self.callback_metrics: dict[str, Any] = {}
        self.estimated_stepping_batches: float = 0

    def fit(self, model: Any, data: Any) -> None:
        """Train; what the model raises goes through on_exception."""
        self.estimated_stepping_batches = self.max_epochs * len(data)
        try:
            self._call("on_train_start", model)
            for epoch in range(self.max_epochs):
                self.current_epoch = epoch
                self._epoch(model, data)
            self._call("on_train_end", model)
        except BaseException as error:
            self._call("on_exception", model, error)
            raise

    def _epoch(self, model: Any, data: Any) -> None:
        for number, (inputs, targets) in enumerate(data):
            loss = (model(inputs) - targets) ** 2
            self.global_step += 1
            self._call("on_train_batch_end", model, {"loss": loss}, (inputs, targets), number)
        self.callback_metrics["val_accuracy"] = 0.5
        self._call("on_validation_epoch_end", model)
        self._call("on_train_epoch_end", model)

    def _call(self, name: str, model: Any, *more: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(self, model, *more)
