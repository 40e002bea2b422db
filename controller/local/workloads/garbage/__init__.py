# SPDX-License-Identifier: Apache-2.0
"""The garbage collector: objects whose owners are gone are deleted, in the background, in the foreground or not at all.

Source: https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""
