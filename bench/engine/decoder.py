"""The real decoder under the engine: throughput, and what scheduling costs.

Question:  how many tokens a second do 1, 4 and 8 streams get through the engine, against the
           runtime's own batched generation (the ceiling) and against one stream after another; and
           what share of a step does scheduling take?
Workload:  SmolLM2-135M, the numpy decoder (or llama.cpp) on one thread; each stream has another
           36-token prompt and writes `--tokens`, greedily; reuse off. Scheduling is the time of the
           event loop's thread per step.
Machine:   two cores; others may share them, so best of `--runs`.
Command:   python -m bench.engine.decoder [--runtime decoder|llama] [--tokens 48] [--runs 3]
"""

import argparse
import asyncio
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headway.clock import SystemClock
from headway.engine.engine import Engine
from headway.engine.executor import Executor
from headway.engine.request import Ending, GenerationRequest
from headway.engine.scheduling import make_selector
from headway.engine.timeline import ClockTimeline
from headway.engine.trace import StepRecord, Trace
from headway.runtimes.decoder import reference
from headway.runtimes.generative_settings import DecoderRuntimeSettings, LlamaRuntimeSettings

QUESTIONS = (
    "What is a tide?", "Name three rivers.", "Why is the sky blue?", "What do bees eat?",
    "How old is the moon?", "Who wrote Hamlet?", "What is bread made of?", "Where is Peru?",
)  # fmt: skip


class Reader:
    """Waits for an output."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.tokens: list[int] = []

    def on_output(self, text: str, token_ids: Any, logprobs: Any) -> None:
        self.tokens.extend(token_ids)

    def on_end(self, ending: Ending) -> None:
        self.ended.set_result(ending)


def make_runtime(kind: str, pool: ThreadPoolExecutor) -> Any:
    clock = SystemClock()
    if kind == "llama":
        from headway.runtimes.llama.runtime import LlamaRuntime

        return LlamaRuntime(LlamaRuntimeSettings(), clock=clock, device_thread=pool)
    from headway.runtimes.decoder.runtime import DecoderRuntime

    return DecoderRuntime(DecoderRuntimeSettings(), clock=clock, device_thread=pool)


class _Endless:
    """The executor, with a vocabulary in which nothing ends: all streams write alike much."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.vocabulary = _NoEnds(executor.vocabulary)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)


class _NoEnds:
    ends: frozenset[int] = frozenset()

    def __init__(self, vocabulary: Any) -> None:
        self.size, self.piece, self.encode = vocabulary.size, vocabulary.piece, vocabulary.encode


async def write(
    executor: Any, prompts: list[list[int]], tokens: int, steps: list[StepRecord]
) -> float:
    """Seconds that all outputs took together."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    engine = Engine(
        executor,
        make_selector(executor.catalogue, max_lanes=16),
        ClockTimeline(SystemClock()),
        trace=Trace(steps.append),
        reuse=False,
    )
    readers = [Reader() for _ in prompts]
    for prompt, reader in zip(prompts, readers, strict=True):
        assert engine.admit(GenerationRequest(tuple(prompt), tokens), reader) is not None
    await asyncio.gather(*(reader.ended for reader in readers))
    return loop.time() - begun


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", choices=("decoder", "llama"), default="decoder")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    pool = ThreadPoolExecutor(1)
    runtime = make_runtime(arguments.runtime, pool)
    begun = time.perf_counter()
    executor = await runtime.load()
    print(f"loaded and timed in {time.perf_counter() - begun:.1f} s")
    model = executor._stepper._model
    executor._stepper._ends = frozenset()
    endless = _Endless(executor)
    encoded = [executor.vocabulary.encode(question) for question in QUESTIONS]
    tokens = arguments.tokens
    alone = 0.0
    print(f"{'streams':>8}{'engine tok/s':>14}{'ceiling tok/s':>15}{'share':>8}{'x alone':>9}")
    for streams in (1, 4, 8):
        prompts = encoded[:streams]
        best, ceiling = 0.0, 0.0
        steps: list[StepRecord] = []
        loop_s: list[float] = []
        for _ in range(arguments.runs):
            begun = time.perf_counter()
            await asyncio.get_running_loop().run_in_executor(
                pool, reference.batched, model, prompts, tokens
            )
            ceiling = max(ceiling, streams * tokens / (time.perf_counter() - begun))
            run_steps: list[StepRecord] = []
            cpu = time.thread_time()
            seconds = await write(endless, prompts, tokens, run_steps)
            loop_s.append((time.thread_time() - cpu) / len(run_steps))
            if streams * tokens / seconds > best:
                best, steps = streams * tokens / seconds, run_steps
        alone = alone or best
        step_ms = statistics.mean(step.wall_ns for step in steps) / 1e6
        device_ms = statistics.mean(step.device_ns for step in steps) / 1e6
        print(
            f"{streams:>8}{best:>14.1f}{ceiling:>15.1f}{best / ceiling:>8.0%}{best / alone:>9.2f}"
            f"   step {step_ms:.1f} ms, device {device_ms:.1f} ms, scheduling "
            f"{min(loop_s) * 1e3:.2f} ms = {min(loop_s) * 1e5 / step_ms:.2f} %"
        )
    await runtime.close()
    pool.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
