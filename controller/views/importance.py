# SPDX-License-Identifier: Apache-2.0
"""How much each parameter of a search matters, by Optuna; asked in a process, as the sampler is."""

import math
import sys

from trainwright.controller.optimization.sampler import Parameter, Question, complete, libraries, serve, study, usable

COMMAND = (sys.executable, "-m", "trainwright.controller.views.importance")


def importance(question: Question) -> dict[str, float]:
    """Shares of 1 of the differences between values by parameter; empty if that is unknown. Raises SamplerError."""
    (optuna,) = libraries("tpe")
    space = [Parameter.of(one) for one in question["parameters"]]
    history = complete(usable(question["trials"], space))
    if len({trial["value"] for trial in history}) < 2:
        return {}
    found = optuna.importance.get_param_importances(study(question, space, history, None))
    return {name: share for name, share in found.items() if math.isfinite(share)}


if __name__ == "__main__":
    sys.exit(serve(importance))
