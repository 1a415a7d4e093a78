"""Channels that follow their certificates: new calls show the renewed one, old calls finish."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headway.errors import ConfigError
from headway.rpc.channels import MIB, aio, open_channel
from headway.rpc.tls import ChannelTls

Calls = TypeVar("Calls")


@dataclass(eq=False)
class Held(Generic[Calls]):
    """A channel with the calls that are on it. Give it back when the call is over.

    Attributes:
      calls: what was made of the channel.
      generation: of the identity that the channel shows.
    """

    calls: Calls
    generation: int
    _channel: aio.Channel
    _give_back: Callable[["Held[Calls]"], None]
    num_calls: int = 0

    def release(self) -> None:
        """Counts one call off. Each `take` needs one."""
        self._give_back(self)

    async def close(self) -> None:
        """Closes the channel; calls that are still on it are cancelled."""
        await self._channel.close(None)


class RenewedChannel(Generic[Calls]):
    """A channel that is opened anew when the files of its certificate change.

    A call keeps the channel on which it began; a channel that was replaced is closed after the
    last of them. So there are at most as many channels as calls, and one.

    Bound to the event loop in which it is first used.
    """

    def __init__(
        self,
        address: str,
        tls: ChannelTls | None,
        calls: Callable[[aio.Channel], Calls],
        *,
        max_message_bytes: int = 64 * MIB,
    ) -> None:
        """Connects when first used.

        Args:
          address: host:port.
          tls: None for plaintext; the channel is then never replaced.
          calls: makes of a channel what is called, a stub for example; once for each channel.
          max_message_bytes: largest message sent or taken.
        """
        self._address = address
        self._tls = tls
        self._make_calls = calls
        self._max_message_bytes = max_message_bytes
        self._replaced: set[Held[Calls]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._current = self._open()

    @property
    def problem(self) -> ConfigError | None:
        """Why the files as they are now cannot be used; None if they can, or in plaintext."""
        return None if self._tls is None else self._tls.identity.problem

    def take(self) -> Held[Calls]:
        """The channel for one call; shows the certificate in force. Its `release` is owed.

        Raises:
          CertificateExpired: the certificate in force is no longer valid, and its files hold none
            that is.
        """
        tls = self._tls
        if tls is not None:
            tls.identity.check()
            if tls.identity.generation != self._current.generation:
                self._replace()
        held = self._current
        held.num_calls += 1
        return held

    async def close(self) -> None:
        """Closes all channels; calls in flight are cancelled."""
        for held in (self._current, *self._replaced):
            await held.close()
        self._replaced.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    def _open(self) -> Held[Calls]:
        tls = self._tls
        # The channel may show what came right after this generation: it is then replaced once more.
        generation = 0 if tls is None else tls.identity.generation
        channel = open_channel(self._address, tls, max_message_bytes=self._max_message_bytes)
        return Held(self._make_calls(channel), generation, channel, self._give_back)

    def _replace(self) -> None:
        old, self._current = self._current, self._open()
        self._replaced.add(old)
        self._close_if_unused(old)

    def _give_back(self, held: Held[Calls]) -> None:
        held.num_calls -= 1
        self._close_if_unused(held)

    def _close_if_unused(self, held: Held[Calls]) -> None:
        if held.num_calls == 0 and held in self._replaced:
            self._replaced.discard(held)
            task = asyncio.ensure_future(held.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
