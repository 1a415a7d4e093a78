"""The rules of conventions.md, section 7, over every descriptor."""

import importlib.resources
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"

# Words that are singular, or a name, though they end a repeated field.
PLURAL_EXEMPT = {
    "shape": "an extent a dimension: a shape is one thing",
    "stop": "OpenAI's and vLLM's name for it, which clients know",
    "evidence": "uncountable",
    "needs_restart": "a list of settings, named for what they need",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[descriptor_pb2.FileDescriptorProto]:
    target = tmp_path_factory.mktemp("descriptors") / "all.bin"
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    import google.rpc

    site = Path(next(iter(google.rpc.__path__))).parents[1]
    arguments = [
        "protoc", f"-I{PROTO}", f"-I{well_known}", f"-I{site}", "--include_source_info",
        f"--descriptor_set_out={target}", *map(str, sorted(PROTO.rglob("*.proto"))),
    ]  # fmt: skip
    assert protoc.main(arguments) == 0
    found = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    assert len(found) == 5
    return list(found)


def _messages(
    file: descriptor_pb2.FileDescriptorProto,
) -> Iterator[descriptor_pb2.DescriptorProto]:
    yield from file.message_type


def test_every_file_has_the_package_of_its_folder(
    files: list[descriptor_pb2.FileDescriptorProto],
) -> None:
    assert {file.package for file in files} == {"headway.v1"}


def test_services_are_named_so_and_methods_have_their_own_messages(
    files: list[descriptor_pb2.FileDescriptorProto],
) -> None:
    services = [service for file in files for service in file.service]
    assert len(services) == 4
    used: list[str] = []
    for service in services:
        assert service.name.endswith("Service")
        for method in service.method:
            kinds = (method.input_type, method.output_type)
            expected = [f".headway.v1.{method.name}Request", f".headway.v1.{method.name}Response"]
            if service.name == "WorkerService":
                expected = [".headway.v1.SessionRequest", ".headway.v1.SessionResponse"]
            assert list(kinds) == expected, method.name
            used += kinds
    assert len(used) == len(set(used))


def test_enum_values_carry_their_enum_and_begin_unspecified(
    files: list[descriptor_pb2.FileDescriptorProto],
) -> None:
    enums = [enum for file in files for enum in file.enum_type]
    assert len(enums) >= 10
    for enum in enums:
        prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
        names = [value.name for value in enum.value]
        assert all(name.startswith(prefix) for name in names), enum.name
        assert enum.value[0].number == 0
        assert names[0] == f"{prefix}UNSPECIFIED"


def test_repeated_fields_are_plural(files: list[descriptor_pb2.FileDescriptorProto]) -> None:
    repeated = [
        field.name
        for file in files
        for message in _messages(file)
        for field in message.field
        if field.label == field.LABEL_REPEATED
    ]
    assert len(repeated) >= 20
    wrong = [
        name
        for name in repeated
        if not name.endswith("s") and name not in PLURAL_EXEMPT and "logprobs" not in name
    ]
    assert wrong == []


def test_every_declaration_has_a_comment(
    files: list[descriptor_pb2.FileDescriptorProto],
) -> None:
    bare: list[str] = []
    seen = 0
    for file in files:
        commented = {
            tuple(location.path)
            for location in file.source_code_info.location
            if location.leading_comments.strip()
        }
        for path, name in _declarations(file):
            seen += 1
            if path not in commented:
                bare.append(f"{file.name}: {name}")
    assert seen > 300
    assert bare == []


def _declarations(
    file: descriptor_pb2.FileDescriptorProto,
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Messages, fields, oneofs, services, methods and enums; paths as descriptor.proto has them."""
    for m, message in enumerate(file.message_type):
        if message.options.map_entry:
            continue
        yield (4, m), message.name
        for f, field in enumerate(message.field):
            yield (4, m, 2, f), f"{message.name}.{field.name}"
    for e, enum in enumerate(file.enum_type):
        yield (5, e), enum.name
    for s, service in enumerate(file.service):
        yield (6, s), service.name
        for n, method in enumerate(service.method):
            yield (6, s, 2, n), f"{service.name}.{method.name}"
