"""What every client does at the end of a `with` block."""

from abc import abstractmethod
from typing import Self


class Closing:
    """A client that `async with` closes."""

    @abstractmethod
    async def close(self) -> None:
        """Closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class BlockingClosing:
    """A client that `with` closes."""

    @abstractmethod
    def close(self) -> None:
        """Closes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
