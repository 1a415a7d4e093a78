"""Scheduling experiments, and references that no scheduler can beat."""
