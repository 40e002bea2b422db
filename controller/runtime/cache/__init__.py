# SPDX-License-Identifier: Apache-2.0
"""Local copies of what the API server holds, kept current by watches, with our own writes visible at once."""
