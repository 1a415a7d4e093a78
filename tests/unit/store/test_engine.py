"""Which URLs name a store, and what is shown of them."""

from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.store.engine import parse

ROWS = [
    ("sqlite:///control.db", False, Path("control.db"), "sqlite:///control.db"),
    ("sqlite:////var/lib/c.db", False, Path("/var/lib/c.db"), "sqlite:////var/lib/c.db"),
    ("sqlite://", False, None, "sqlite://"),
    ("postgresql://u:secret@h:5/d", True, None, "postgresql://u:***@h:5/d"),
    ("postgresql+asyncpg://u@h/d", True, None, "postgresql://u@h/d"),
]


@pytest.mark.parametrize(("url", "is_postgresql", "file", "shown"), ROWS)
def test_urls(url: str, is_postgresql: bool, file: Path | None, shown: str) -> None:
    address = parse(url)
    assert (address.is_postgresql, address.file, address.shown) == (is_postgresql, file, shown)


@pytest.mark.parametrize("url", ["mysql://h/d", "control.db", "", "redis://h"])
def test_what_is_no_store_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError, match="use sqlite:///path"):
        parse(url)


def test_a_uri_of_sqlite_is_refused() -> None:
    with pytest.raises(ConfigError, match="give its path"):
        parse("sqlite:///file:control.db?mode=rwc&uri=true")
