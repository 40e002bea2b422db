# SPDX-License-Identifier: Apache-2.0
"""From a TrainJob to its objects: the runtime, the facts, and what was built."""
