# SPDX-License-Identifier: Apache-2.0
"""The processes of containers: start, guard, signals, memory and end."""
