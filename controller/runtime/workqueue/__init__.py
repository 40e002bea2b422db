# SPDX-License-Identifier: Apache-2.0
"""What is to be done, each key once, in a fair order."""
