"""What names look like: models, versions, workers, tenants."""

from typing import Annotated

from pydantic import Field

NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"
"""1 to 64 of a-z, 0-9, dot, underscore and hyphen, with a letter or digit at both ends."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
