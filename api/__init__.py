# SPDX-License-Identifier: Apache-2.0
"""What a TrainJob is: one package per API group and version, schemas beside the modules made from them."""

if __name__ != "trainwright.api":
    raise ImportError("import trainwright.api, not api: a second path would load a second copy")
