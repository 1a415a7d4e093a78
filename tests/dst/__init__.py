"""Deterministic simulation of whole fleets: the product's own wiring in virtual time, with faults.

`python -m tests.dst --help` runs seeds; docs/drills.md says what is simulated and what is checked.
"""
