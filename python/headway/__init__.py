"""Headway serves machine-learning models to a deadline. Importing it starts nothing."""

from headway._core import __version__

__all__ = ["__version__"]
