"""Chance, passed in: one root seed a process, one named child stream a consumer."""

import secrets

from headway import _core


class SeedTree:
    """Derives independent seeds by name, so that a new consumer moves no other's draws."""

    def __init__(self, root: int) -> None:
        """`root`: any 64-bit seed; log it, and the run can be replayed."""
        self.root = root

    def seed(self, name: str) -> int:
        """Seed of the stream `name`, in [0, 2**64)."""
        return _core.hash_key(name.encode(), self.root)

    def stream(self, name: str) -> _core.Rng:
        """A generator for the stream `name`."""
        return _core.Rng(self.seed(name))


def fresh_root() -> int:
    """A root seed from the operating system, for processes that were given none."""
    return secrets.randbits(64)
