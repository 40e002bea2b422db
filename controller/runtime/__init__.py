# SPDX-License-Identifier: Apache-2.0
"""How any controller runs: client, cache, work queue, controller, manager. Knows no TrainJob."""
