# SPDX-License-Identifier: Apache-2.0
"""Searches: what a question to the sampler costs at 100 trials, and how long `local tune` takes beside its trainings.

A question is a process, as the manager starts it: its own CPU and its largest resident memory, start included. The
ratio of `local tune` is the time of the whole command over half of the sum of the trainings, which run two at a time;
a training is the time between the first and the last line of the script, and of its Python before that.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwright.controller.optimization.question import COMMAND
from trainwright.controller.views import importance

TRIALS = 100
SCRIPT = """
import os, time
began = time.time() - time.process_time()
from trainwright.progress import Reporter

rate = float(os.environ["KUBEFLOW_TRAINER_OPT_LR"])
with Reporter(total=10) as progress:
    for step in range(1, 11):
        time.sleep(0.1)
        progress.update(step=step, loss=abs(rate - 0.3))
with open(TIMES, "a") as file:
    file.write(f"{time.time() - began}\\n")
"""


def question(sampler: str) -> dict[str, Any]:
    """Ten parameters, a hundred trials, one more."""
    space = {"uniform": {"min": "0", "max": "1", "type": "Float"}}
    names = [f"x{place}" for place in range(10)]
    chance = random.Random(1)
    trials = []
    for number in range(1, TRIALS + 1):
        values = {name: chance.random() for name in names}
        state = {"number": number, "state": "complete", "value": sum(values.values()), "intermediate": []}
        trials.append({**state, "parameters": {name: repr(value) for name, value in values.items()}})
    return {
        "objective": {"metric": "loss", "direction": "Minimize"},
        "sampler": sampler,
        "seed": 1,
        "pruner": None,
        "parameters": [{"name": name, "searchSpace": space} for name in names],
        "trials": trials,
        "numbers": [TRIALS + 1],
    }


def ask(command: Sequence[str], asked: dict[str, Any]) -> tuple[float, float]:
    """CPU seconds and MiB of the process that answers."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked).encode())
        process.stdin.close()
        process.stdout.read()
        _, code, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        sys.exit(f"the sampler {asked['sampler']} ended with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def tune(folder: Path, trials: int) -> tuple[float, float]:
    """Seconds of the command, and half the sum of its trainings."""
    times = folder / "times"
    (folder / "train.py").write_text(SCRIPT.replace("TIMES", repr(str(times))))
    local = [sys.executable, "-m", "trainwright.controller.cli.main", "local"]
    search = ["--runtime=xgboost-distributed", "--param=lr=uniform:0:1", "--objective=loss", f"--trials={trials}"]
    environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    began = time.monotonic()
    subprocess.run([*local, "tune", *search, "--parallel=2", "train.py"], cwd=folder, env=environ, check=True)
    took = time.monotonic() - began
    return took, sum(map(float, times.read_text().split())) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=20, help="of `local tune`")
    arguments = parser.parse_args()
    for name in ("random", "tpe", "qmc", "cmaes", "importance"):
        command = importance.COMMAND if name == "importance" else COMMAND
        found = [ask(command, question(name)) for _ in range(arguments.rounds)]
        cpu, memory = (statistics.median(one) for one in zip(*found, strict=True))
        print(f"{name:10} {cpu:5.2f} s CPU {memory:5.0f} MiB at {TRIALS} trials", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        took, least = tune(Path(folder), arguments.trials)
    print(
        f"local tune of {arguments.trials} trials, 2 at once: {took:.1f} s, {took / least:.2f} times half the trainings"
    )


if __name__ == "__main__":
    main()
