"""The order of versions."""

import re


def natural(version: str) -> list[tuple[int, int, str]]:
    """Sort key that puts v2 before v10."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.split(r"(\d+)", version)
        if part
    ]
