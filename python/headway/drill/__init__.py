"""Fault drills: a fleet of real processes, load, something that goes wrong, and what must hold."""
