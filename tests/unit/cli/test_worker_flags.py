from pathlib import Path
from typing import Any

import pytest

from headway.cli.worker import models_with_flags
from headway.errors import ConfigError


def with_flags(configured: Any, **flags: Any) -> Any:
    none = {"model": None, "version": None, "runtime": None, "path": None, "speed": None}
    return models_with_flags(configured, **{**none, **flags})


TWO_THREADS = {"kind": "onnx", "intra_op_threads": 2}


@pytest.mark.parametrize(
    ("configured", "flags", "models"),
    [
        pytest.param(None, {}, None, id="nothing given, nothing changed"),
        pytest.param(
            None, {"speed": 0.6}, [{"model": "minilm", "speed": 0.6}], id="the embedded model"
        ),
        pytest.param(
            None,
            {"model": "simulated", "runtime": "simulated"},
            [{"model": "simulated", "runtime": {"kind": "simulated"}}],
            id="a simulated device",
        ),
        pytest.param(
            None,
            {"path": Path("mine")},
            [{"model": "minilm", "runtime": {"kind": "onnx", "path": "mine"}}],
            id="a directory means onnx",
        ),
        pytest.param(
            [{"model": "m", "runtime": TWO_THREADS}],
            {"version": "v2"},
            [{"model": "m", "version": "v2", "runtime": TWO_THREADS}],
            id="the rest of the configured model stays",
        ),
        pytest.param(
            [{"model": "m", "runtime": TWO_THREADS}],
            {"path": Path("mine")},
            [{"model": "m", "runtime": {**TWO_THREADS, "path": "mine"}}],
            id="and so does its runtime",
        ),
        pytest.param(
            [{"model": "m", "runtime": TWO_THREADS}],
            {"runtime": "simulated"},
            [{"model": "m", "runtime": {"kind": "simulated"}}],
            id="unless it is another kind",
        ),
    ],
)
def test_flags_change_the_one_model(configured: Any, flags: Any, models: Any) -> None:
    assert with_flags(configured, **flags) == models


def test_flags_of_one_model_do_not_fit_a_list_of_several() -> None:
    with pytest.raises(ConfigError, match=r"worker\.models lists 2; change the list instead"):
        with_flags([{"model": "a"}, {"model": "b"}], speed=0.5)
