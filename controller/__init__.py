# SPDX-License-Identifier: Apache-2.0
"""Controllers: `runtime` runs any of them, `trainer` is the TrainJob controller, `cli` the command."""

if __name__ != "trainwright.controller":
    raise ImportError("import trainwright.controller, not controller: a second path would load a second copy")
