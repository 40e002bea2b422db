# SPDX-License-Identifier: Apache-2.0
"""Gives each PersistentVolumeClaim a folder of its own.

Known differences to a cluster: sizes and access modes are not enforced, and a volume that somebody made beforehand is
used only by the claim that names it.
"""
