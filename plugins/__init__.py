# SPDX-License-Identifier: Apache-2.0
"""The pipeline that turns a TrainJob and a runtime into the objects that run it, and the plugins that it calls."""

if __name__ != "trainwright.plugins":
    raise ImportError("import trainwright.plugins, not plugins: a second path would load a second copy")
