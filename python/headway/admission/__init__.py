"""Admission: what a request weighs, and what a refusal means."""
