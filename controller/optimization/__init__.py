# SPDX-License-Identifier: Apache-2.0
"""OptimizationJobs: searches for parameters, one TrainJob for each trial. A second operator beside the trainer.

It sees the API and the public names of `controller.runtime`, neither the trainer nor plugins. `operator` runs it,
`plan` decides, `trials` reads what there is. Optuna is used in a process of its own alone, whose program is `sampler`.
"""
