# SPDX-License-Identifier: Apache-2.0
"""Stand-in of Hugging Face Transformers: a Trainer that calls its callbacks as that of version 5.23 does."""

from types import SimpleNamespace
from typing import Any


class TrainerCallback:
    """The callbacks that are used; others exist."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...


class TrainingArguments:
    """What a training is told."""

    def __init__(self, output_dir: str, num_train_epochs: int = 3, max_steps: int = -1, logging_steps: int = 2) -> None:
        self.output_dir, self.num_train_epochs = output_dir, num_train_epochs
        self.max_steps, self.logging_steps = max_steps, logging_steps


class Trainer:
    """Walks through the data."""

    def __init__(self, model: Any, args: TrainingArguments, train_dataset: Any, callbacks: list[Any]) -> None:
        self.model, self.args, self.data, self.callbacks = model, args, train_dataset, callbacks

    def train(self) -> None:
        """Train."""
        epochs = self.args.num_train_epochs
        state = SimpleNamespace(max_steps=epochs * len(self.data), global_step=0, epoch=0.0, is_world_process_zero=True)
        self._call("on_train_begin", state)
        loss = 0.0
        for _ in range(epochs):
            for inputs, targets in self.data:
                loss = (self.model(inputs) - targets) ** 2
                state.global_step += 1
                state.epoch = state.global_step / len(self.data)
                self._call("on_step_end", state)
                if state.global_step % self.args.logging_steps == 0:
                    logs = {"loss": loss, "grad_norm": 1.5, "learning_rate": 5e-5, "epoch": state.epoch}
                    self._call("on_log", state, logs=logs)
        self._call("on_log", state, logs={"train_runtime": 1.0, "train_loss": loss, "epoch": state.epoch})
        self._call("on_train_end", state)

    def _call(self, name: str, state: Any, **more: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(self.args, state, SimpleNamespace(), model=self.model, **more)
