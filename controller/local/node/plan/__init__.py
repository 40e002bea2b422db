# SPDX-License-Identifier: Apache-2.0
"""What a container becomes on this machine: program, environment, file system, devices."""
