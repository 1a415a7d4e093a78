"""Exit codes, and the one place where errors become messages for people."""

import functools
import json
import math
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NoReturn, ParamSpec

import typer

from headway import errors

Parameters = ParamSpec("Parameters")


class Exit(IntEnum):
    """What the command leaves with. 64, 69 and 75 are those of sysexits.h."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIG = 64
    UNAVAILABLE = 69
    TRY_LATER = 75
    INTERRUPTED = 130


EXIT_CODES_HELP: Final = (
    "[bold]Exit codes[/bold]  0 answered · 1 failed · 2 wrong usage · 64 bad configuration · "
    "69 nobody to answer · 75 try later · 130 interrupted"
)

_BY_REASON: Final[Mapping[str, Exit]] = {
    "UNREACHABLE": Exit.UNAVAILABLE,
    errors.NoCapacity.reason: Exit.UNAVAILABLE,
    errors.Draining.reason: Exit.UNAVAILABLE,
    errors.ModelLoading.reason: Exit.TRY_LATER,
    errors.Overloaded.reason: Exit.TRY_LATER,
    errors.QueueFull.reason: Exit.TRY_LATER,
    errors.QuotaExceeded.reason: Exit.TRY_LATER,
}


def code_of(error: Exception) -> Exit:
    """The exit code of an error."""
    if isinstance(error, errors.ConfigError):
        return Exit.CONFIG
    if isinstance(error, errors.StartupError):
        return Exit.UNAVAILABLE
    return _BY_REASON.get(getattr(error, "reason", ""), Exit.FAILED)


def command(function: Callable[Parameters, int | None]) -> Callable[Parameters, None]:
    """Makes a function a command: what it returns, raises or is interrupted by ends the process.

    Errors of Headway's own tree are told without a traceback; others are faults, and keep theirs.
    Numbers that are none, or beyond 64 bits, are wrong usage for every command.
    """

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        for name, value in kwargs.items():
            _check_number(name, value)
        try:
            code = function(*args, **kwargs) or Exit.OK
        except KeyboardInterrupt:
            code = Exit.INTERRUPTED
        except errors.HeadwayError as error:
            tell(error)
            code = code_of(error)
        raise typer.Exit(int(code))

    return run


def _check_number(name: str, value: object) -> None:
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, float) and not math.isfinite(value):
        usage(f"{option} is {value}; it must be a finite number")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        usage(f"{option} is {value}; it must be a whole number of at most 64 bits")


def tell(error: errors.HeadwayError) -> None:
    """Prints an error to standard error: its reason, its message, and when to try again."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    reason = getattr(error, "reason", "")
    for line in str(error).splitlines() or [type(error).__name__]:
        console.print(f"{reason}: {line}" if reason else line, style="red", markup=False)
        reason = ""
    retry_after_ns = getattr(error, "retry_after_ns", None)
    if retry_after_ns is not None:
        console.print(f"try again in {retry_after_ns / 1e6:.0f} ms", style="yellow")


def error_as_json(error: errors.HeadwayError) -> str:
    """An error for programs."""
    retry_after_ns = getattr(error, "retry_after_ns", None)
    return json.dumps(
        {
            "error": {
                "reason": getattr(error, "reason", type(error).__name__),
                "message": str(error),
                "field": getattr(error, "field", "") or None,
                "retry_after_ms": None if retry_after_ns is None else retry_after_ns / 1e6,
                "metadata": getattr(error, "metadata", {}),
            }
        }
    )


def usage(message: str) -> NoReturn:
    """Ends the command for wrong usage."""
    print(f"headway: {message}; see --help", file=sys.stderr)
    raise typer.Exit(int(Exit.USAGE))
