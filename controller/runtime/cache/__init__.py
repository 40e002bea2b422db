# SPDX-License-Identifier: Apache-2.0
"""Local copies of objects on the API server, kept current by watches; own writes are visible at once."""
