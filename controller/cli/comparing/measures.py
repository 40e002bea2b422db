# SPDX-License-Identifier: Apache-2.0
"""What the metrics of a run came to: last, lowest and highest. And which of the two is the best one. Pure."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from trainwright.controller.cli.progress.reports import KeptReport
from trainwright.controller.cli.progress.view import COUNTERS

Direction: TypeAlias = Literal["low", "high"]
"""Which value of a metric is the best one."""
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LOW = re.compile(
    "loss|losses|error|err|perplexity|ppl|mse|mae|rmse|mape|wer|cer|fid|nll|ce|bce|entropy|kl|"
    "divergence|distance|latency|regret|bpb|bpc"
)
_HIGH = re.compile(
    "accuracy|acc|f1|fscore|auc|auroc|auprc|precision|recall|map|miou|iou|dice|jaccard|bleu|"
    "rouge|meteor|cider|score|reward|return|psnr|ssim|r2|throughput|top1|top5|success|win|"
    "correct|pass|mrr|ndcg|specificity|sensitivity|mfu|hfu"
)


def finite(text: str | None) -> float | None:
    """The number that a metric's value says; None for no number, NaN and the infinities, which JSON does not have."""
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class Measure(msgspec.Struct, kw_only=True, rename="camel"):
    last: str = ""
    """As it was reported: may be `NaN`, `Infinity`, or no number."""
    last_number: float | None = None
    """The same, if it is a finite number."""
    lowest: float | None = None
    """Over all attempts. Null: there was no finite number."""
    lowest_step: float | None = None
    """At about which step. Null: the training told no steps."""
    highest: float | None = None
    highest_step: float | None = None

    def best(self, direction: Direction | None) -> float | None:
        """The best value; None if it is not known which one that is."""
        return {"low": self.lowest, "high": self.highest, None: None}[direction]

    def best_step(self, direction: Direction | None) -> float | None:
        """At about which step it was reached."""
        return {"low": self.lowest_step, "high": self.highest_step, None: None}[direction]


def direction_of(metric: str) -> Direction | None:
    """Which value of a metric is the best one, by the words of its name; None: the name does not say.

    A loss, an error or a perplexity is best when it is low; an accuracy, a score or a throughput when it is high. A
    word of the first kind counts more: `accuracy_loss` is a loss.
    """
    parts = [part for part in _WORDS.split(metric) if part]
    words = [word.lower() for part in parts for word in (*_HUMPS.split(part), part, part.rstrip("0123456789"))]
    if any(_LOW.fullmatch(word) or word.endswith(("loss", "error")) for word in words):
        return "low"
    if any(_HIGH.fullmatch(word) or word.endswith(("accuracy", "score")) for word in words) or parts[-2:] == [
        "per",
        "second",
    ]:
        return "high"
    return None


def measures_of(reports: Iterable[KeptReport], last: Mapping[str, str]) -> dict[str, Measure]:
    """The metrics of a run. `last`: those of its last report, as they were reported."""
    found: dict[str, Measure] = {}
    for report in reports:
        for name, value in report.values.items():
            if name in COUNTERS:
                continue
            low, high = report.lows.get(name, value), report.highs.get(name, value)
            _take(found, name, repr(value), low, high, report.step)
    step = finite(last.get("current_step"))
    for name, text in last.items():
        if name not in COUNTERS:
            number = finite(text)
            _take(found, name, text, number, number, step)
    return found


def sorted_metrics(names: Iterable[str]) -> list[str]:
    """As charts are: the loss first, then other losses, then the others by name."""
    return sorted(names, key=lambda name: (name != "loss", not name.endswith("loss"), name))


def _take(
    found: dict[str, Measure], name: str, text: str, low: float | None, high: float | None, step: float | None
) -> None:
    measure = found.setdefault(name, Measure())
    # The history keeps six digits; the last report repeats a value with all of them.
    measure.last, measure.last_number = text, finite(text)
    if low is not None and (measure.lowest is None or low < measure.lowest):
        measure.lowest, measure.lowest_step = low, step
    if high is not None and (measure.highest is None or high > measure.highest):
        measure.highest, measure.highest_step = high, step
