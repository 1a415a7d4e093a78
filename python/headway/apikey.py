"""API keys: hw_<key id>_<secret>. Only their hash is kept anywhere."""

import hashlib
import secrets
import string
from typing import Final

PREFIX: Final = "hw_"
KEY_ID_LENGTH: Final = 8
SECRET_LENGTH: Final = 43
"""43 characters of 62 hold 256 bits."""

_BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


def new_key() -> tuple[str, str]:
    """A fresh API key, and its id."""
    key_id = _draw(KEY_ID_LENGTH)
    return f"{PREFIX}{key_id}_{_draw(SECRET_LENGTH)}", key_id


def digest_of(key: str) -> bytes:
    """What is kept of a key: random enough for one plain SHA-256 to hide it."""
    return hashlib.sha256(key.encode()).digest()


def _draw(length: int) -> str:
    return "".join(secrets.choice(_BASE62) for _ in range(length))
