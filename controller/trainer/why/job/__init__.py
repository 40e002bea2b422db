# SPDX-License-Identifier: Apache-2.0
"""The checks, one module for each stage of a job. Each is a function from a picture to the causes that show in it."""
