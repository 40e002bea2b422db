# SPDX-License-Identifier: Apache-2.0
"""What may be wrong with an installation before the first job: gathered once from a cluster, then judged.

`gathering` reads; the checks are pure functions of what was read. What could not be read is part of the result.
"""
