"""How busy each version is, with a short memory."""

import numpy as np

from headway.rollout.decision import Load
from headway.rollout.rows import Mask, Real, Rows
from headway.rollout.tick import Arm


class LoadMeter(Rows):
    """Utilisation and cost of a request of one version; older ticks fade."""

    def __init__(self, num_rows: int, memory_s: float) -> None:
        """`memory_s`: after so long a tick counts for 1/e."""
        self._memory_s = memory_s
        # busy s, replica s, requests, seconds
        self.sums: Real = np.zeros((num_rows, 4))

    def enter_step(self, rows: Mask) -> None:
        """Forgets the load of another share."""
        self.sums[rows] = 0

    def count(self, arm: Arm, seconds: float) -> None:
        """Adds a tick."""
        self.sums *= np.exp(-seconds / self._memory_s)
        lasted = np.full(len(arm.requests), seconds)
        self.sums += np.stack((arm.busy_s, arm.replica_s, arm.requests, lasted), axis=1)

    def read(self, row: int) -> Load:
        """The load of one rollout."""
        busy, replica, requests, seconds = (float(value) for value in self.sums[row])
        return Load(
            utilisation=min(1.0, busy / replica) if replica > 0 else 0.0,
            busy_s_per_request=busy / requests if requests > 0 else 0.0,
            replicas=replica / seconds if seconds > 0 else 0.0,
            requests_per_s=requests / seconds if seconds > 0 else 0.0,
        )
