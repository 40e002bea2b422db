# SPDX-License-Identifier: Apache-2.0
"""What goes into and comes out of containers: logs, attach, exec, termination messages."""
