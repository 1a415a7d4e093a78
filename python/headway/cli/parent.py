"""Ties a child's life to its parent's, so that a killed supervisor leaves nothing behind."""

import ctypes
import os
import signal
from typing import Final

from headway.errors import StartupError

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def end_with(parent_pid: int) -> None:
    """Has SIGTERM sent to this process when its parent ends, however that happens.

    Raises StartupError if `parent_pid` is not the parent, or no more.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise StartupError(f"prctl: {os.strerror(ctypes.get_errno())}")
    # The parent may have ended before the line above.
    if os.getppid() != parent_pid:
        raise StartupError(f"process {parent_pid} is not the parent; it may have ended")
