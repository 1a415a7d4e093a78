"""How busy each version is."""

import numpy as np

from headway.rollout.decision import Load
from headway.rollout.rows import Mask, Real, Rows
from headway.rollout.tick import Arm


class LoadMeter(Rows):
    """Utilisation and cost of a request of one version; older ticks fade."""

    def __init__(self, num_rows: int, memory_s: float) -> None:
        """`memory_s`: after so long a tick counts for 1/e."""
        self._memory_s = memory_s
        # busy s, replica s, requests, seconds: of late, and since the step began
        self.sums: Real = np.zeros((num_rows, 4))
        self.step_sums: Real = np.zeros((num_rows, 4))

    def enter_step(self, rows: Mask) -> None:
        """Forgets the load of another share."""
        self.sums[rows] = 0
        self.step_sums[rows] = 0

    def count(self, arm: Arm, seconds: float) -> None:
        """Adds a tick."""
        self.sums *= np.exp(-seconds / self._memory_s)
        lasted = np.full(len(arm.requests), seconds)
        counts = np.stack((arm.busy_s, arm.replica_s, arm.requests, lasted), axis=1)
        self.sums += counts
        self.step_sums += counts

    def read(self, row: int, *, whole_step: bool = False) -> Load:
        """The load of one rollout, of late or since the step began."""
        sums = self.step_sums if whole_step else self.sums
        busy, replica, requests, seconds = (float(value) for value in sums[row])
        return Load(
            utilisation=min(1.0, busy / replica) if replica > 0 else 0.0,
            busy_s_per_request=busy / requests if requests > 0 else 0.0,
            replicas=replica / seconds if seconds > 0 else 0.0,
            requests_per_s=requests / seconds if seconds > 0 else 0.0,
        )


def busier(baseline: LoadMeter, canary: LoadMeter, row: int) -> tuple[Load, Load]:
    """Loads of both versions over the window in which the canary was the busier.

    Evidence gathers while a canary is saturated, and may cross its bound in a lull.
    """
    lately, ever = canary.read(row), canary.read(row, whole_step=True)
    whole_step = ever.utilisation > lately.utilisation
    return baseline.read(row, whole_step=whole_step), ever if whole_step else lately
