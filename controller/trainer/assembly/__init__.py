# SPDX-License-Identifier: Apache-2.0
"""Assembles the trainer from its parts: settings, rights, servers, the manager of a process."""
