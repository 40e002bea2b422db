# SPDX-License-Identifier: Apache-2.0
"""Controllers: `runtime` runs any of them, `trainer` is the TrainJob controller, `cli` the command.

`local` is a Kubernetes cluster in one process, and `simulation` runs an operator on it in virtual time.
"""

if __name__ != "trainwright.controller":
    raise ImportError("import trainwright.controller, not controller: a second path would load a second copy")
