# SPDX-License-Identifier: Apache-2.0
"""`make run`: a local cluster, and a training on it that is real. Needs nothing but Python.

The cluster stays up in the background when this has ended. Exit code 0 if the training completed, else 1 or that of the
process that failed.
"""

import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

# Before the check of the Python, which would be replaced for nothing. controller/cli/local/run.py says the same.
if platform.system() != "Linux":
    name = "macOS" if platform.system() == "Darwin" else platform.system()
    raise SystemExit(
        f"error: a local cluster runs on Linux only, and this is {name}: "
        "use a machine or a virtual machine with Linux, such as WSL"
    )

# This file runs as a script; hack is not a package.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import install  # type: ignore[import-not-found,unused-ignore]  # a script beside this one

SAMPLE = "config/samples/09-xgboost.yaml"
JOB = "xgboost-digits"
RUNTIME = "xgboost-distributed"


def main() -> int:
    """Set up, start, train, and say what to try next."""
    began = time.monotonic()
    install.provide(install.RUN)
    venv = install.RUN.venv
    # Containers without an environment of their own run in that of the cluster: the one with the sample's libraries.
    trainwright = venv / "bin" / "trainwright"
    up = subprocess.run(
        [trainwright, "local", "up", *sys.argv[1:]], cwd=install.ROOT, check=False, text=True, stdout=subprocess.PIPE
    )
    print(up.stdout, end="", flush=True)
    if up.returncode:
        return up.returncode
    print(f"training: {SAMPLE}", flush=True)
    done = subprocess.run(
        [trainwright, "local", "run", "--keep", "--file", SAMPLE, *_place(sys.argv[1:])], cwd=install.ROOT, check=False
    )
    if done.returncode:
        return done.returncode
    place = " ".join(["", *map(shlex.quote, _place(sys.argv[1:]))])
    kubeconfig = up.stdout.rpartition("export KUBECONFIG=")[2].strip()
    print(
        f"""
Two processes trained one model, in {time.monotonic() - began:.0f} s from the command on. The cluster stays up. Try:

  export PATH={shlex.quote(str(venv / "bin"))}:$PATH KUBECONFIG={kubeconfig}
  trainwright local status{place}
  trainwright local logs {JOB}{place}
  trainwright local run train.py --runtime {RUNTIME} --nodes 2{place}
  kubectl get trainjobs,jobsets,jobs,pods
  trainwright local down --delete{place}
"""
    )
    return 0


def _place(arguments: list[str]) -> list[str]:
    return [argument for argument in arguments if argument.startswith(("--name=", "--dir="))]


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
