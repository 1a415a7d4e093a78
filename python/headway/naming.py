"""What names look like: models, versions, workers, tenants."""

import re
from typing import Annotated

from pydantic import Field

from headway.errors import InvalidRequest

NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"
NAME_RULE = "lower-case letters, digits, . _ and -, at most 64, a letter or digit at both ends"
"""The pattern in words."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]

_NAME = re.compile(NAME_PATTERN)


def is_name(text: str) -> bool:
    """True if it may name something."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str, field: str) -> None:
    """Raises InvalidRequest, naming `field`, for what is no name."""
    if not is_name(name):
        raise InvalidRequest(f"{field} is {name[:80]!r}; use {NAME_RULE}", field=field)
