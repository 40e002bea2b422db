# SPDX-License-Identifier: Apache-2.0
"""The pipeline from a TrainJob and a runtime to the objects that run them, and the plugins that extend it."""

if __name__ != "trainwright.plugins":
    raise ImportError("import trainwright.plugins, not plugins: a second path would load a second copy")
