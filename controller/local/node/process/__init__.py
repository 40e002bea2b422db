# SPDX-License-Identifier: Apache-2.0
"""The processes of containers: start, guard, signals, order of exits. Begin with `supervision`.

`guard`, `spawner` and `launcher` are programs of their own, which run in a bare interpreter and share `lowlevel`.
"""
