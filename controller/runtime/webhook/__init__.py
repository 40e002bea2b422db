# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks: validators and defaulters on models, their server, certificates and registration."""
