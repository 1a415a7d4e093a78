from pathlib import Path

import pytest

from headway.errors import StartupError
from headway.serve.supervisor import state_directory


def test_one_directory_is_for_one_process(tmp_path: Path) -> None:
    with state_directory(tmp_path / "state") as directory:
        assert directory == tmp_path / "state"
        with (
            pytest.raises(
                StartupError, match=r"another `headway serve` keeps its state in .*state"
            ),
            state_directory(tmp_path / "state"),
        ):
            pass
    with state_directory(tmp_path / "state"):
        pass


def test_the_default_is_the_users_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with state_directory(None) as directory:
        assert directory == tmp_path / "headway" / "serve"


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StartupError, match="choose another --state-dir"),
        state_directory(tmp_path / "file" / "state"),
    ):
        pass
