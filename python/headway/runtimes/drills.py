"""Failure drills of the simulated device: what goes wrong with a batch, by seeded chance."""

from dataclasses import dataclass
from itertools import cycle

from headway._core import Rng
from headway.runtimes.base import Tampering
from headway.runtimes.settings import FailureSettings

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to one batch. Checked in the order of the fields."""

    busy: bool = False
    hangs: bool = False
    stall_ns: int = 0
    fails_fast: bool = False
    fails: bool = False
    tampering: Tampering | None = None


UNHARMED = Fate()


class Drills:
    """Draws the fate of each batch."""

    def __init__(self, settings: FailureSettings, rng: Rng) -> None:
        self._settings = settings
        self._rng = rng
        self._tamperings = cycle(Tampering)
        self._active = any(
            (
                settings.fail,
                settings.fail_fast,
                settings.hang,
                settings.slow,
                settings.busy,
                settings.garbage,
            )
        )

    def draw(self) -> Fate:
        """The next batch's fate. Each kind is drawn for itself, so that one's share moves no other.

        Six draws a batch where any drill is on, none otherwise.
        """
        if not self._active:
            return UNHARMED
        settings = self._settings
        return Fate(
            busy=self._strikes(settings.busy),
            hangs=self._strikes(settings.hang),
            stall_ns=round(settings.slow_ms * NS_PER_MS) if self._strikes(settings.slow) else 0,
            fails_fast=self._strikes(settings.fail_fast),
            fails=self._strikes(settings.fail),
            tampering=next(self._tamperings) if self._strikes(settings.garbage) else None,
        )

    def _strikes(self, share: float) -> bool:
        return self._rng.uniform() < share
