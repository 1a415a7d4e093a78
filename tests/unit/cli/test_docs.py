"""What README and docs show is true: commands parse, configuration loads, code runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headway.cli.app import app
from headway.config import load_gateway, load_worker, read_layers
from headway.v1 import control_pb2, fleet_pb2, inference_pb2

ROOT = Path(__file__).parents[3]
PAGES = [
    "README.md",
    "docs/guide.md",
    "docs/operations.md",
    "docs/rollout.md",
    "docs/security.md",
    "docs/drills.md",
    "docs/streams.md",
    "docs/lab.md",
    "docs/design.md",
]
ALL_PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md")
    for page in ROOT.glob(pattern)
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    """All code blocks of a kind; never none."""
    found = [
        text
        for page in PAGES
        for language, text in BLOCK.findall((ROOT / page).read_text())
        if language == kind
    ]
    assert found
    return found


def lines(program: str) -> list[list[str]]:
    """Arguments of every call of a program in the shell blocks; never none."""
    commands = [line for text in blocks("sh") for line in text.replace("\\\n", " ").splitlines()]
    calls = [shlex.split(line, comments=True) for line in commands]
    found = [call[1:] for call in calls if call and call[0].rpartition("/")[2] == program]
    assert found
    return found


@pytest.mark.parametrize("arguments", lines("headway"), ids=" ".join)
def test_commands_parse(arguments: list[str]) -> None:
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[arguments[0]]
        arguments = arguments[1:]
    command.make_context("headway", list(arguments))


@pytest.mark.parametrize("arguments", lines("grpcurl"), ids=" ".join)
def test_methods_exist(arguments: list[str]) -> None:
    known = {
        f"{service.full_name}/{method.name}"
        for file in (inference_pb2, control_pb2, fleet_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    } | {"list", "grpc.health.v1.Health/Check"}
    assert arguments[-1] in known


@pytest.mark.parametrize("arguments", lines("make"), ids=" ".join)
def test_targets_exist(arguments: list[str]) -> None:
    target = next(one for one in arguments if "=" not in one)
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("text", blocks("toml"))
def test_configuration_loads(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "headway.toml"
    file.write_text(text)
    checked = CliRunner().invoke(app, ["config", "check", str(file)])
    assert checked.exit_code == 0, checked.output
    monkeypatch.setenv("HEADWAY_GATEWAY__FLEET_TOKEN", "x")
    monkeypatch.setenv("HEADWAY_WORKER__FLEET_TOKEN", "x")
    load_gateway(read_layers(file))
    load_worker(read_layers(file))


@pytest.mark.parametrize("text", blocks("python"))
def test_code_runs_as_far_as_it_can_without_a_gateway(text: str) -> None:
    nowhere = text.replace("127.0.0.1:50051", "127.0.0.1:1")
    result = subprocess.run([sys.executable, "-c", nowhere], capture_output=True, text=True)
    last = result.stderr.strip().splitlines()[-1:]
    assert not last or last[0].startswith("headway.client.errors.GatewayUnreachable: ")


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_links_lead_somewhere() -> None:
    links = [
        (ROOT / page, *link)
        for page in ALL_PAGES
        for link in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]+))?\)", prose(ROOT / page))
    ]
    assert len(links) > 50
    for page, path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), f"{page}: {path}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page}: {path}#{anchor}"


PATH = re.compile(r"`((?:python|tests|bench|docs|deploy|services|proto|rust_core)/[\w./-]+)`")


def test_paths_that_are_named_exist() -> None:
    named = [
        (page, path)
        for page in ALL_PAGES
        if page != "CHANGELOG.md"
        for path in PATH.findall(prose(ROOT / page))
    ]
    assert len(named) > 50
    for page, path in named:
        assert (ROOT / path).exists(), f"{page}: {path}"
