import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"


def test_every_example_of_the_page_holds() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 50
    assert results.failed == 0


def test_every_picture_of_the_page_is_there_and_small() -> None:
    names = [
        line.split("](")[1].rstrip(")")
        for line in PAGE.read_text(encoding="utf-8").split("\n")
        if line.startswith("![")
    ]
    assert len(names) == 3
    for name in names:
        assert (PAGE.parent / name).stat().st_size < 200_000
