# SPDX-License-Identifier: Apache-2.0
"""The MPI plugin: a launcher starts processes over SSH on the nodes that a host file lists."""

from trainwright.plugins.mpi.plugin import MPIPlugin

__all__ = ["MPIPlugin"]
