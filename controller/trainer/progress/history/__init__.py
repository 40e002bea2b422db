# SPDX-License-Identifier: Apache-2.0
"""The course of a training over its whole run.

`ring` keeps points and thins them, `stored` is the ConfigMap that a ring is kept in; both are pure, and views import
them. `keeper` is the runnable of the manager that writes the ConfigMaps.
"""
