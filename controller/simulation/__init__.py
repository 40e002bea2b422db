# SPDX-License-Identifier: Apache-2.0
"""Deterministic simulation of an operator and its cluster, from one seed: docs/runtime/simulation.md.

A `World` (world.py) runs an API server, controllers, a pretended node and the replicas of an operator in one event loop
with virtual time, a `ScenarioPlan` (plan.py) says what happens to them, and rules (rules.py) say what must hold. Begin
with `simulate` in simulate.py, which runs the scenario of a seed; the pytest fixture `simulated` calls it.
"""
