"""Dispatch by useful work: one execution resource, prepared graphs, policies under study."""
