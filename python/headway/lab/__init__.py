"""Experiments that run the product's own decisions against models and exact references."""
