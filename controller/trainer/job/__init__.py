# SPDX-License-Identifier: Apache-2.0
"""One TrainJob: its memory, its state, and the decision what to do."""
