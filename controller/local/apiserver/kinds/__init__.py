# SPDX-License-Identifier: Apache-2.0
"""What is served: resources, and the rules of their kinds."""
