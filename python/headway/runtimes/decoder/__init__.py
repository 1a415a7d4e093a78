"""A small transformer decoder in numpy, made to be scheduled step by step."""
