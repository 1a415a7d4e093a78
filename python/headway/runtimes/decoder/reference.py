"""The runtime without the engine: what outputs and throughput are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.engine.stepper import ModelRow, TokenModel


@dataclass(frozen=True, slots=True)
class GreedyOutput:
    """A greedy output and how close its decisions were.

    Attributes:
      tokens: the output, without the token that ends it.
      margins: at each token, the largest logit less the second largest; one more entry than
        tokens where an end was drawn.
    """

    tokens: Sequence[int]
    margins: Sequence[float]


def greedy(
    model: TokenModel, prompt: Sequence[int], limit: int, ends: frozenset[int], slot: int = 0
) -> GreedyOutput:
    """One sequence alone: the prompt in one pass, then a token a pass."""
    model.reserve(slot, len(prompt) + limit, -1, 0)
    fed, start = list(prompt), 0
    tokens: list[int] = []
    margins: list[float] = []
    while len(tokens) < limit:
        ((logits,),) = model.forward([ModelRow(slot, start, fed, num_logits=1)])
        start += len(fed)
        second, first = np.partition(logits, -2)[-2:]
        margins.append(float(first - second))
        token = int(np.argmax(logits))
        if token in ends:
            break
        tokens.append(token)
        fed = [token]
    model.release(slot)
    return GreedyOutput(tokens, margins)


def batched(model: TokenModel, prompts: Sequence[Sequence[int]], num_tokens: int) -> int:
    """All sequences in lockstep, no end before `num_tokens` each; the number written.

    What a runtime reaches when nothing arrives, nothing ends and nobody reads.
    """
    starts = []
    last = []
    for slot, prompt in enumerate(prompts):
        model.reserve(slot, len(prompt) + num_tokens, -1, 0)
        ((logits,),) = model.forward([ModelRow(slot, 0, prompt, num_logits=1)])
        starts.append(len(prompt))
        last.append(int(np.argmax(logits)))
    for _ in range(num_tokens - 1):
        rows = [ModelRow(slot, starts[slot], [last[slot]], 1) for slot in range(len(prompts))]
        for slot, (logits,) in enumerate(model.forward(rows)):
            starts[slot] += 1
            last[slot] = int(np.argmax(logits))
    for slot in range(len(prompts)):
        model.release(slot)
    return len(prompts) * num_tokens
