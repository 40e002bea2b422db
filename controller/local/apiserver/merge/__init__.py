# SPDX-License-Identifier: Apache-2.0
"""What a write makes of the object that is stored: server-side apply and patches."""
