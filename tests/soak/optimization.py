# SPDX-License-Identifier: Apache-2.0
"""Soak of searches: TPE against chance on Branin and Hartmann-6, as TrainJobs of a local cluster that compute them.

In each round both samplers get the seed of the round and 40 trials of each function, four at a time. Printed for each
round: the best values. Exit code 1 if TPE is not better in eight of ten rounds, or if a trial has another value than
the function at its parameters.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.functions import FUNCTIONS
from tests.repository import ROOT

TRAINWRIGHT = (sys.executable, "-m", "trainwright.controller.cli.main")
TRIALS = 40
SCRIPT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tests.functions import FUNCTIONS
from trainwright.progress import Reporter

function = FUNCTIONS[sys.argv[2]]
at = [float(os.environ[f"KUBEFLOW_TRAINER_OPT_X{place}"]) for place in range(len(function.bounds))]
with Reporter(total=1) as progress:
    progress.update(step=1, metrics={"value": function.value(at)})
"""


class Cluster:
    """A local cluster of this program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        (folder / "compute.py").write_text(SCRIPT)

    def call(self, *words: str) -> str:
        done = subprocess.run(
            [*TRAINWRIGHT, *words], cwd=self.folder, env=self._environ, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def best(self, function: str, sampler: str, seed: int) -> tuple[float, list[str]]:
        """The best value of a search, and what is wrong."""
        name = f"{function}-{sampler}-{seed}"
        bounds = FUNCTIONS[function].bounds
        space = [f"--param=x{place}=uniform:{low}:{high}" for place, (low, high) in enumerate(bounds)]
        how = [f"--sampler={sampler}", f"--seed={seed}", f"--trials={TRIALS}", "--parallel=4", f"--job-name={name}"]
        what = ["--runtime=xgboost-distributed", "compute.py", "--", str(ROOT), function]
        self.call("local", "tune", "--objective=value", *space, *how, *what)
        kubeconfig = self.folder / "state" / "trainwright" / "local" / "default" / "kubeconfig"
        found = json.loads(self.call("explain", name, "--output=json", f"--kubeconfig={kubeconfig}"))
        wrong = []
        for trial in found["trials"]:
            at = [float(trial["parameters"][f"x{place}"]) for place in range(len(bounds))]
            if trial["value"] is None or abs(FUNCTIONS[function].value(at) - trial["value"]) > 1e-3:
                wrong.append(f"{name}: trial {trial['number']} has {trial['value']}, {trial['message']}")
        return min(trial["value"] for trial in found["trials"] if trial["value"] is not None), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    won = dict.fromkeys(FUNCTIONS, 0)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        cluster.call("local", "up")
        try:
            for seed in range(arguments.rounds):
                for function in FUNCTIONS:
                    (tpe, bad), (chance, worse) = (cluster.best(function, one, seed) for one in ("tpe", "random"))
                    won[function] += tpe < chance
                    wrong += bad + worse
                    print(f"seed {seed} {function}: tpe {tpe:.4f}, random {chance:.4f}", flush=True)
                cluster.call("local", "delete", "--all")
        finally:
            cluster.call("local", "down", "--delete")
    for function, count in won.items():
        print(f"{function}: TPE is better in {count} of {arguments.rounds}")
    print(*wrong, sep="\n")
    return int(bool(wrong) or any(count * 10 < 8 * arguments.rounds for count in won.values()))


if __name__ == "__main__":
    sys.exit(main())
