# SPDX-License-Identifier: Apache-2.0
"""What each kind adds to the rules that hold for all: defaults, what a write may change, what is valid."""
