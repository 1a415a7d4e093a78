"""What docs/operations.md shows is what a live fleet answers."""

from pathlib import Path

import pytest
from tests.support.transcripts import blocks, commands, key_ids, live_fleet, masked

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.mark.e2e
@pytest.mark.timeout(240)
def test_the_operators_handbook_is_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = blocks(DOCUMENT.read_text())
    grpcurls = [c for block in found for c, _ in commands(block.body) if "grpcurl" in c]
    assert len(grpcurls) >= 10
    for name in ("CONTROL", "DATA", "HEADWAY_API_KEY"):
        monkeypatch.setenv(name, "")
    written_ids = {key_id for block in found for key_id in key_ids(block.body)}
    with live_fleet(tmp_path) as session:
        seen: set[str] = set()
        for block in found:
            if block.kind == "py":
                session.execute(block.body)
                continue
            for command, expected in commands(block.body):
                output = session.run(command)
                seen |= key_ids(output)
                assert masked(output, seen) == masked(expected, written_ids), command


def test_the_handbook_is_for_the_ten_tasks_in_three_ways() -> None:
    text = DOCUMENT.read_text()
    tasks = text.split("\n## Ten tasks\n")[1].split("\n## ")[0]
    sections = tasks.split("\n### ")[1:]
    assert len(sections) == 10
    for section in sections:
        assert "$ grpcurl " in section, section[:40]
        assert "$ headway " in section, section[:40]
        assert "```py" in section, section[:40]
