# SPDX-License-Identifier: Apache-2.0
"""The built-in plugins, by name, and where each is.

They are listed and not discovered, so that a broken installation cannot lose one; modules are imported when the
registry is built. Plugins of other distributions come as entry points.
"""

from collections.abc import Mapping

BUILT_IN: Mapping[str, str] = {
    "CoScheduling": "trainwright.plugins.coscheduling:CoSchedulingPlugin",
    "Flux": "trainwright.plugins.flux:FluxPlugin",
    "JAX": "trainwright.plugins.jax:JAXPlugin",
    "JobSet": "trainwright.plugins.jobset:JobSetPlugin",
    "MPI": "trainwright.plugins.mpi:MPIPlugin",
    "PlainML": "trainwright.plugins.plainml:PlainMLPlugin",
    "Torch": "trainwright.plugins.torch:TorchPlugin",
    "Volcano": "trainwright.plugins.volcano:VolcanoPlugin",
    "XGBoost": "trainwright.plugins.xgboost:XGBoostPlugin",
}
"""Plugin name to `module:class`. Names are those of the original, so that a Configuration moves over."""
