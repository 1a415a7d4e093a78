"""API keys: hw_<key id>_<secret>, kept as hashes, found by key id."""

import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.apikey import KEY_ID_LENGTH, PREFIX, digest_of
from headway.clock import Clock
from headway.errors import PermissionDenied, StoreUnavailable, Unauthenticated
from headway.rpc.interceptors import NEVER_NS, Caller

ROLES: Mapping[str, int] = {"none": 0, "viewer": 1, "operator": 2, "admin": 3}
_RETRY_NS = 1_000_000_000
_HOW = 'send it as metadata "authorization: Bearer hw_..."; `headway key new` makes one'


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as kept: never its secret."""

    key_id: str
    digest: bytes
    caller: Caller


class KeyAuthenticator:
    """Checks the key of every call. Constant work a call, whatever the number of keys."""

    def __init__(
        self,
        keys: Mapping[str, StoredKey],
        required_role: Mapping[str, int],
        clock: Clock,
        *,
        complete: Callable[[], bool] = lambda: True,
    ) -> None:
        """Looks keys up where they are kept up to date.

        Args:
          keys: by key id; changes are seen at the next call.
          required_role: least role by method path; 0 for methods not named.
          complete: False while there may be keys that are not known yet.
        """
        self._keys = keys
        self._required_role = required_role
        self._clock = clock
        self._complete = complete

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
        if required and caller.terms.disabled:
            raise PermissionDenied(
                f"tenant {caller.tenant} is disabled; another admin can enable it",
                metadata={"tenant": caller.tenant, "method": method},
            )
        return caller

    def _caller(self, presented: str) -> Caller:
        if not presented:
            raise Unauthenticated(f"no API key; {_HOW}")
        digest = digest_of(presented)
        end = len(PREFIX) + KEY_ID_LENGTH
        stored = self._keys.get(presented[len(PREFIX) : end])
        # An unknown key id costs the same comparison as a known one with a wrong secret.
        known = stored.digest if stored is not None else bytes(32)
        matches = hmac.compare_digest(digest, known)
        if stored is None and not self._complete():
            raise StoreUnavailable(
                "this gateway has just started and has not read its keys yet; retry",
                retry_after_ns=_RETRY_NS,
            )
        if stored is None or not matches:
            raise Unauthenticated(f"the API key is not valid here; {_HOW}")
        caller = stored.caller
        if caller.expires_at_ns != NEVER_NS and caller.expires_at_ns <= self._clock.now_ns():
            raise Unauthenticated(f"API key {caller.key_id} has expired; {_HOW}")
        return caller


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
