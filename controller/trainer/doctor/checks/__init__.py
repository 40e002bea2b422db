# SPDX-License-Identifier: Apache-2.0
"""The checks, one module an area. Each is a pure function from the Site to its findings."""
