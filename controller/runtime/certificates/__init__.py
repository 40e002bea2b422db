# SPDX-License-Identifier: Apache-2.0
"""The webhook server's certificate: made here and shared by replicas, or read from files that somebody else keeps."""
