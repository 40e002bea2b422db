# SPDX-License-Identifier: Apache-2.0
"""The built-in plugins by name, with the class of each.

They are listed here and not found through entry points, so that a broken installation cannot lose one. Their modules
are imported when the registry is built. Plugins of other distributions are entry points.
"""

from collections.abc import Mapping

BUILT_IN: Mapping[str, str] = {
    "CoScheduling": "trainwright.plugins.coscheduling:CoSchedulingPlugin",
    "Flux": "trainwright.plugins.flux:FluxPlugin",
    "JAX": "trainwright.plugins.jax:JAXPlugin",
    "JobSet": "trainwright.plugins.jobset:JobSetPlugin",
    "MPI": "trainwright.plugins.mpi:MPIPlugin",
    "PlainML": "trainwright.plugins.plainml:PlainMLPlugin",
    "ProgressFile": "trainwright.plugins.progressfile:ProgressFilePlugin",
    "Recovery": "trainwright.plugins.recovery:RecoveryPlugin",
    "Torch": "trainwright.plugins.torch:TorchPlugin",
    "TrainJobStatus": "trainwright.plugins.trainjobstatus:TrainJobStatusPlugin",
    "Volcano": "trainwright.plugins.volcano:VolcanoPlugin",
    "XGBoost": "trainwright.plugins.xgboost:XGBoostPlugin",
}
"""Plugin name to `module:class`. The names are those of Kubeflow Trainer, so that its Configuration keeps working."""
