# SPDX-License-Identifier: Apache-2.0
"""Certificates of the webhook server: made here and shared by replicas, or read from files of another program."""
