"""Rollouts tried out for real: a fleet of processes, load, a canary of a known kind, a report."""
