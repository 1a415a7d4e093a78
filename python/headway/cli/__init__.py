"""The ``headway`` command."""

from headway.cli.app import main

__all__ = ["main"]
