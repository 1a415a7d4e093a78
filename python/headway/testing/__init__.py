"""Time and network under a test's control. Shipped, so that code built on Headway can use them.

`ManualClock` moves when told to. `headway.testing.virtual` is an event loop whose time jumps to
the next timer; `headway.testing.network` and `headway.testing.memory` are processes and gRPC on it.
"""

from headway.testing.clock import SETTLE_PASSES, ManualClock

__all__ = ["SETTLE_PASSES", "ManualClock"]
