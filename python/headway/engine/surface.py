"""What graphs cost on simulated devices: a CPU-like one and a GPU-like one."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.engine.frame import GraphShape

NS_PER_MS = 1_000_000


class CostSurface(Protocol):
    """A device's graphs and their times."""

    @property
    def graphs(self) -> Sequence[GraphShape]:
        """The catalogue."""
        ...

    def cost_ns(self, graph: GraphShape, prompt_tokens: int, rows: int) -> int:
        """Device time of a graph with so much in it."""
        ...


def _graphs(
    chunks: Sequence[int], rows: Sequence[int], widths: Sequence[int], prompt_rows: int
) -> list[GraphShape]:
    decode = [
        GraphShape(f"d{n}" if width == 1 else f"d{n}x{width}", decode_rows=n, width=width)
        for width in widths
        for n in rows
    ]
    prefill = [GraphShape(f"p{n}", prefill_tokens=n, prompt_rows=prompt_rows) for n in chunks]
    mixed = [
        GraphShape(f"p{chunk}d{n}", prefill_tokens=chunk, prompt_rows=prompt_rows, decode_rows=n)
        for chunk in chunks
        for n in rows
    ]
    return decode + prefill + mixed


@dataclass(frozen=True)
class CpuLikeSurface:
    """Costs follow what is in a graph: 70 ms + 4.8 ms a row and position, 47 ms + 3.4 ms a token.

    Source: a prototype of the numpy decoder on one core. A mixed graph reads the weights once.
    """

    max_rows: int = 32
    widths: tuple[int, ...] = (1,)
    chunks: tuple[int, ...] = (16, 32, 64, 128, 256)
    decode_ms: float = 70.0
    row_ms: float = 4.8
    prefill_ms: float = 47.0
    token_ms: float = 3.4

    @property
    def graphs(self) -> Sequence[GraphShape]:
        """Chunks up to 256 tokens, rows by powers of two."""
        rows = [n for n in (1, 2, 4, 8, 16, 32) if n <= self.max_rows]
        return _graphs(self.chunks, rows, self.widths, prompt_rows=4)

    def cost_ns(self, graph: GraphShape, prompt_tokens: int, rows: int) -> int:
        """Device time."""
        fixed = self.decode_ms if graph.decode_rows else self.prefill_ms
        work = self.row_ms * rows * graph.width + self.token_ms * prompt_tokens
        return round((fixed + work) * NS_PER_MS)


@dataclass(frozen=True)
class GpuLikeSurface:
    """Costs follow capacities: a captured graph runs whole, whatever is in it.

    A mixed graph costs its decode part and 0.75 of its prefill part. The prefill times are those
    behind the ratios that shared evidence gives for one 3000-token prompt beside eight streams.
    """

    widths: tuple[int, ...] = (1,)

    _rows = (1, 2, 4, 8, 16, 32, 64)
    _rows_ms = (15.0, 15.5, 16.0, 17.0, 19.0, 21.0, 28.0)
    _chunks = (64, 256, 512, 1024, 2048, 4096)
    _chunks_ms = (3.2, 6.8, 11.8, 20.2, 37.2, 76.6)

    @property
    def graphs(self) -> Sequence[GraphShape]:
        """Chunks up to 4096 tokens, rows by powers of two up to 64."""
        return _graphs(self._chunks, self._rows, self.widths, prompt_rows=8)

    def cost_ns(self, graph: GraphShape, prompt_tokens: int, rows: int) -> int:
        """Device time; the contents do not matter."""
        decode = 0.0
        if graph.decode_rows:
            decode = self._rows_ms[bisect_left(self._rows, graph.decode_rows)]
            decode *= 1 + 0.12 * (graph.width - 1)
        prefill = 0.0
        if graph.prefill_tokens:
            prefill = self._chunks_ms[bisect_left(self._chunks, graph.prefill_tokens)]
            # Alone, it reads the weights by itself, as a decode step does.
            prefill = 0.75 * prefill if graph.decode_rows else max(prefill, self._rows_ms[0])
        return round((decode + prefill) * NS_PER_MS)
