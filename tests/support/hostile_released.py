"""Released models as an attacker would change them: config.json and model.safetensors."""

import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from hostile_checkpoints import (
    Mutation,
    changed_groups,
    edited,
    flipped,
    foreign_classes,
    odd_groups,
    odd_options,
    odd_tensors,
)


def released_state(folder: Path) -> dict:
    """The content of a released model: ``cfg`` is config.json, ``model`` has the parameters that are stored."""
    return {
        "cfg": json.loads((folder / "config.json").read_text()),
        "model": load_file(folder / "model.safetensors"),
    }


def save_released(state: dict, path: Path) -> None:
    """Writes a released model; a tensor that safetensors cannot store is left out."""

    def plain(value: Namespace | torch.Tensor) -> object:
        return vars(value) if isinstance(value, Namespace) else value.tolist()

    path.with_name("config.json").write_text(json.dumps(state["cfg"], default=plain))
    stored = {
        name: tensor
        for name, tensor in state["model"].items()
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.is_contiguous()
    }
    save_file(stored, path)


def released_changes(state: dict) -> Iterator[Mutation]:
    """The changes that a released model can have, too, and those of its own two files."""
    groups = *foreign_classes(), *changed_groups(state), *odd_groups(state)
    for mutation in (*groups, *odd_options(), *odd_tensors(state)):
        if not mutation.name.endswith(("a circle", "a bomb")):  # lists that share parts, and JSON has none
            yield replace(mutation, save=save_released)
    yield from odd_ties()
    yield from odd_headers()
    yield from odd_configs()


def odd_ties() -> Iterator[Mutation]:
    stored, missing = "encoder.layers.0.fc1.weight", "encoder.layers.9.fc1.weight"
    ties = {
        "to itself": {stored: stored},
        "of what is stored": {stored: "encoder.layers.1.fc1.weight"},
        "to what is missing": {missing: "encoder.layers.8.fc1.weight"},
        "in a circle": {missing: "more", "more": missing},
        "of no name": {"\x1b[2J": stored},
        "of many names": {f"encoder.layers.{number}.fc1.weight": stored for number in range(10, 10_000)},
    }
    for kind, tie in ties.items():

        def change(state: dict, tie=tie) -> None:
            state["cfg"]["tied"] = state["cfg"]["tied"] | tie

        yield Mutation(f"tied {kind}", change, save_released)


def odd_headers() -> Iterator[Mutation]:
    """A safetensors file is 8 bytes with the size of its header, this header in JSON, and the elements."""

    def in_header(edit: Callable[[bytes], bytes], content: bytes) -> bytes:
        size = 8 + int.from_bytes(content[:8], "little")
        header = edit(content[8:size])
        return len(header).to_bytes(8, "little") + header + content[size:]

    def twice(header: bytes) -> bytes:
        first = re.match(rb'\{("[^{]*\{[^}]*\},)', header.replace(b'{"__metadata__":{"format":"pt"},', b"{"))
        return b"{" + first[1] + header[1:]

    edits = {
        "a name twice": twice,
        "another type": lambda header: header.replace(b'"F32"', b'"I64"', 1),
        "a type that torch does not have": lambda header: header.replace(b'"F32"', b'"F4"', 1),
        "no type": lambda header: header.replace(b'"F32"', b'"F33"'),
        "a vast shape": lambda header: re.sub(rb'"shape":\[\d+', b'"shape":[9223372036854775807', header, count=1),
        "a shape below zero": lambda header: header.replace(b'"shape":[', b'"shape":[-', 1),
        "another shape": lambda header: header.replace(b'"shape":[16,16]', b'"shape":[8,32]', 1),
        "overlapping elements": lambda header: re.sub(rb"\[(\d+),(\d+)\]\},", rb"[0,\2]},", header),
        "deep": lambda header: b'{"a":' * 100_000,
        "a list": lambda header: b"[]",
        "nothing": lambda header: b"{}",
        "no tensors": lambda header: b'{"__metadata__":{"format":"pt"}}',
    }
    contents = {f"header: {name}": partial(in_header, edit) for name, edit in edits.items()}
    contents |= {
        f"header of {size:,} bytes": lambda content, size=size: size.to_bytes(8, "little") + content[8:]
        for size in (0, 1, 1 << 20, 99_999_999, 100_000_001, 1 << 40, (1 << 64) - 1)
    }
    contents |= {
        f"cut after {part} of 8": lambda content, p=part: content[: len(content) * p // 8] for part in range(8)
    }
    contents |= {
        f"a bit flipped at byte {place}": lambda content, p=place: flipped(content, p)
        for place in (*range(8), *range(8, 3_000, 50))
    }
    contents["with more behind it"] = lambda content: content + bytes(1000)
    saves = {name: edited(edit, save_released) for name, edit in contents.items()}
    saves["a pickle"] = lambda state, path: torch.save(state["model"], path)
    for name, save in saves.items():
        yield Mutation(f"model.safetensors: {name}", lambda state: None, save)


def odd_configs() -> Iterator[Mutation]:
    def written(content: bytes) -> Callable[[dict, Path], None]:
        def save(state: dict, path: Path) -> None:
            save_released(state, path)
            path.with_name("config.json").write_bytes(content)

        return save

    def missing(state: dict, path: Path) -> None:
        save_released(state, path)
        path.with_name("config.json").unlink()

    contents = {
        "empty": b"",
        "no JSON": b"{'format'}",
        "not UTF-8": b'{"format": "\xff"}',
        "half a character": b'{"format": "ea-fairseq 1", "model": {"arch": "\\ud800"}, "task": {}, "tied": {}}',
        "deep": b'{"model":' * 100_000,
        "large": b" " * (2 << 20),
        "a list": b"[]",
        "a long number": b'{"format": ' + b"9" * 10_000 + b"}",
    }
    for name, content in contents.items():
        yield Mutation(f"config.json: {name}", lambda state: None, written(content))
    yield Mutation("config.json: missing", lambda state: None, missing)
