# SPDX-License-Identifier: Apache-2.0
"""What a request asks for: its path, query, headers and body."""
