"""Turns validation errors into sentences that name the source, the key, the value and a way out."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from headway.config.layers import KeyPath, Layers, dotted
from headway.telemetry.logging import MASK, is_secret, masked

_LONGEST_VALUE = 80


def explain(error: ValidationError, root: type[BaseModel], layers: Layers) -> str:
    """One line for each thing that is wrong."""
    details = error.errors(include_url=False)
    return "\n".join(
        _line(detail, root, layers) for detail in details if not _follows(detail, details)
    )


def secret_names(model: type[BaseModel]) -> frozenset[str]:
    """Names of the fields of a model, and of those in it, whose values are never shown."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        for kind in _unwrapped(field.annotation):
            if kind is SecretStr:
                found.add(name)
            elif _is_model(kind):
                found |= secret_names(kind)
    return frozenset(found)


def _follows(detail: ErrorDetails, details: Sequence[ErrorDetails]) -> bool:
    """True for the complaint about a whole that is wrong because a part of it is."""
    size = len(detail["loc"])
    return any(
        len(other["loc"]) > size and other["loc"][:size] == detail["loc"] for other in details
    )


def _line(detail: ErrorDetails, root: type[BaseModel], layers: Layers) -> str:
    path, fields = _resolved(root, detail["loc"])
    layer = layers.origin(path)
    origin = layer.name_of(path) if layer else layers.file or "configuration"
    key = dotted(path)
    if detail["type"] == "extra_forbidden":
        return f"{origin}: {key}: unknown key; {_suggestion(path, fields)}"
    message = _plain(detail["msg"])
    field = fields.get(str(path[-1])) if path else None
    if detail["type"] == "missing":
        return f"{origin}: {key}: is required{_described(field)}"
    value = _shown(path, detail["input"], field)
    return f"{origin}: {key}{value}: {message}{_described(field)}"


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def _shown(path: KeyPath, value: object, field: FieldInfo | None) -> str:
    if isinstance(value, BaseModel | Mapping):
        return ""  # a rule over several keys; its message names them
    secret_type = field is not None and SecretStr in _unwrapped(field.annotation)
    if secret_type or (path and is_secret(str(path[-1]))):
        return f" = {MASK}"
    text = masked(repr(value))
    return f" = {text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + '...'}"


def _described(field: FieldInfo | None) -> str:
    return f" ({field.description})" if field is not None and field.description else ""


def _suggestion(path: KeyPath, fields: Mapping[str, FieldInfo]) -> str:
    parent, unknown = path[:-1], str(path[-1])
    near = difflib.get_close_matches(unknown, fields, n=1, cutoff=0.6)
    if near:
        return f"did you mean {dotted([*parent, near[0]])}?"
    table = f"in {dotted(parent)}" if parent else "at the top"
    return f"known {table}: {', '.join(sorted(fields))}"


def _resolved(
    root: type[BaseModel], location: Sequence[str | int]
) -> tuple[list[str | int], Mapping[str, FieldInfo]]:
    """The path in the file of a pydantic location, and the fields of the innermost table.

    Pydantic puts the tag of a union's member into the location; the file has no such key.
    """
    path: list[str | int] = []
    annotation: Any = root
    fields: Mapping[str, FieldInfo] = root.model_fields
    for part in location:
        tagged = _member(annotation, part)
        if tagged is not None:
            annotation, fields = tagged, tagged.model_fields
            continue
        models = [kind for kind in _unwrapped(annotation) if _is_model(kind)]
        fields = models[0].model_fields if len(models) == 1 else {}
        path.append(part)
        annotation = _below(annotation, fields, part)
    return path, fields


def _member(annotation: object, tag: str | int) -> type[BaseModel] | None:
    """The member of a discriminated union whose ``kind`` is `tag`."""
    models = [kind for kind in _unwrapped(annotation) if _is_model(kind)]
    if len(models) < 2:
        return None
    return next((model for model in models if tag in get_args(_kind_of(model))), None)


def _kind_of(model: type[BaseModel]) -> object:
    field = model.model_fields.get("kind")
    return field.annotation if field else None


def _below(annotation: object, fields: Mapping[str, FieldInfo], part: str | int) -> object:
    """Type of what stands under `part`."""
    if isinstance(part, str) and part in fields:
        return fields[part].annotation
    for kind in _unwrapped(annotation):
        if get_origin(kind) in (list, tuple, dict):
            inner = [argument for argument in get_args(kind) if argument is not Ellipsis]
            return inner[-1] if inner else None
    return None


def _unwrapped(annotation: object) -> list[Any]:
    """The types behind Annotated, Optional and unions."""
    return list(_unwrap(annotation))


def _unwrap(annotation: object) -> Iterator[Any]:
    arguments = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        yield from _unwrap(arguments[0])
    elif arguments and get_origin(annotation) not in (list, tuple, dict):
        for argument in arguments:
            yield from _unwrap(argument)
    else:
        yield annotation


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
