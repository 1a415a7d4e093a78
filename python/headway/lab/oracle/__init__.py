"""Exact schedules of small episodes, to judge dispatch policies by."""
