# SPDX-License-Identifier: Apache-2.0
"""MPI: a launcher that starts processes on the nodes over SSH, with a host file that lists them."""

from trainwright.plugins.mpi.plugin import MPIPlugin

__all__ = ["MPIPlugin"]
