"""Records in JSON files, as dataclasses; the types of all fields are checked, as files are not trusted."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from ea_fairseq.errors import FileError, UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FileName = NewType("FileName", str)
Language = NewType("Language", str)
Command = NewType("Command", str)
Tag = NewType("Tag", str)

MEGABYTE = 1 << 20
SPECIAL = ("s", "pad", "unk", "mask")  # in angle brackets they are fairseq's own symbols
WHOLE = 1 << 63  # whole numbers in a record must be smaller
NOUNS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    FileName: "the plain name of a file",
    Language: "a language of letters, digits and _",
    Command: "a command",
    Tag: "a tag of letters, digits and . _ -",
}
Record = TypeVar("Record", bound="DataclassInstance")


@contextmanager
def written_by(writer: str, path: Path, remedy: str) -> Iterator[None]:
    """Turns a ValueError about a file's content into a FileError that names the file and what writes such files.

    Args:
        writer: such as ``ea-fairseq train``.
        remedy: what the user can do; the end of the message.
    """
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise FileError(f"{path} is not what {writer} writes ({error}): {remedy}.") from None


def read_json(path: Path, largest: int = MEGABYTE) -> object:
    """Returns the content of a JSON file.

    Raises:
        ValueError: if it is not JSON or has more than ``largest`` bytes; the message quotes nothing of the file.
    """
    with path.open("rb") as file:
        text = file.read(largest + 1)
    if len(text) > largest:
        raise ValueError(f"it has more than {largest} bytes")
    try:
        return json.loads(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_record(kind: type[Record], found: object, **given: object) -> Record:
    """Builds a dataclass from a JSON object and the given fields; keys without a field are ignored.

    Raises:
        ValueError: naming the first field that is missing or of the wrong type.
    """
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    kinds = types_of(kind)
    for field in fields(kind):
        if field.name in given:
            continue
        if field.name in found:
            given[field.name] = fitted(field.name, found[field.name], kinds[field.name])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"it has no '{field.name}'")
    return kind(**given)


@cache
def types_of(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass or named tuple, by name."""
    return get_type_hints(kind)


def fitted(name: str, value: object, kind: Any) -> object:
    """Returns the value of a field if it has the field's type; raises ValueError otherwise."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        if isinstance(value, str) and value in parts:
            return value
        raise ValueError(f"'{name}' must be {' or '.join(parts)}")
    if origin in (Union, UnionType):
        for part in parts[1:]:
            with suppress(ValueError):
                return fitted(name, value, part)
        return fitted(name, value, parts[0])
    if isinstance(kind, type) and is_dataclass(kind):
        return as_record(kind, value)
    if origin is list and isinstance(value, list):
        return [fitted(name, item, parts[0]) for item in value]
    if hasattr(kind, "_fields"):  # a named tuple
        if not isinstance(value, list) or len(value) != len(kind._fields):
            raise ValueError(f"'{name}' must be lists of {' and '.join(kind._fields)}")
        return kind(*map(fitted, kind._fields, value, types_of(kind).values()))
    if origin is dict and isinstance(value, dict):
        return {key: fitted(name, item, parts[1]) for key, item in value.items()}
    if not is_plain(value, kind):
        raise ValueError(f"'{name}' must be {NOUNS.get(origin or kind, 'null')}")
    return value


def is_plain(value: object, kind: Any) -> bool:
    """Whether a value, other than a list or an object, is of a type."""
    if kind is float:
        return type(value) is float or is_plain(value, int)
    if kind is int:
        return type(value) is int and abs(value) < WHOLE
    if kind is FileName:
        return isinstance(value, str) and is_file_name(value)
    if kind is Language:
        return isinstance(value, str) and re.fullmatch("[A-Za-z0-9_]{1,64}", value) is not None
    if kind is Command:
        return isinstance(value, str) and is_command(value)
    if kind is Tag:
        return isinstance(value, str) and is_tag(value)
    return type(value) is kind


def is_file_name(text: str) -> bool:
    """Whether a text can be the name of a file, without a folder."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return size < 256 and not set(text) & set("/:\0") and text.strip(". ") != ""


def is_tag(text: str) -> bool:
    """Whether a text can be a tag, whose token in angle brackets is not a special symbol of fairseq."""
    return re.fullmatch("[A-Za-z0-9._-]{1,64}", text) is not None and text not in SPECIAL


def is_command(text: str) -> bool:
    """Whether a shell can split a text into words."""
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False
