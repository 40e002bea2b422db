# SPDX-License-Identifier: Apache-2.0
"""The parts of `trainwright render`: reading inputs, printing outputs."""
