"""API keys: hw_<key id>_<secret>, kept as hashes, found by key id."""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.errors import PermissionDenied, Unauthenticated
from headway.rpc.interceptors import Caller

ROLES: Mapping[str, int] = {"none": 0, "viewer": 1, "operator": 2, "admin": 3}
_PREFIX = "hw_"
_KEY_ID_LENGTH = 8
_HOW = 'send it as metadata "authorization: Bearer hw_..."; `headway key new` makes one'


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as kept: never its secret."""

    key_id: str
    digest: bytes
    caller: Caller


class KeyAuthenticator:
    """Checks the key of every call. Constant work a call, whatever the number of keys."""

    def __init__(self, keys: Iterable[StoredKey], required_role: Mapping[str, int]) -> None:
        """`required_role`: least role by method path; 0 for methods not named."""
        self._keys = {key.key_id: key for key in keys}
        self._required_role = required_role

    def __call__(self, metadata: Callable[[], Iterable[Any]], method: str) -> Caller:
        """The caller.

        Raises:
          Unauthenticated: no key, or one that is not known.
          PermissionDenied: the key's role is too low for the method.
        """
        caller = self._caller(_presented(metadata()))
        required = self._required_role.get(method, 0)
        if caller.role < required:
            names = [name for name, rank in ROLES.items() if rank >= required]
            raise PermissionDenied(
                f"key {caller.key_id} may not call {method}; it needs the role "
                f"{' or '.join(names)}",
                metadata={"tenant": caller.tenant, "method": method},
            )
        return caller

    def _caller(self, presented: str) -> Caller:
        if not presented:
            raise Unauthenticated(f"no API key; {_HOW}")
        digest = hashlib.sha256(presented.encode()).digest()
        end = len(_PREFIX) + _KEY_ID_LENGTH
        stored = self._keys.get(presented[len(_PREFIX) : end])
        # An unknown key id costs the same comparison as a known one with a wrong secret.
        known = stored.digest if stored is not None else bytes(32)
        if not hmac.compare_digest(digest, known) or stored is None:
            raise Unauthenticated(f"the API key is not valid here; {_HOW}")
        return stored.caller


class OpenAuthenticator:
    """Lets everyone in, as one tenant. For trials on loopback."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __call__(self, metadata: Callable[[], Iterable[Any]], method: str) -> Caller:
        """The one caller there is."""
        return self._caller


def _presented(metadata: Iterable[Any]) -> str:
    for key, value in metadata:
        if key == "authorization" and isinstance(value, str):
            scheme, _, token = value.partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
        if key == "x-api-key" and isinstance(value, str):
            return value.strip()
    return ""
