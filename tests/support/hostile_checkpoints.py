"""Checkpoints as an attacker would change them, and a watch over what becomes of them."""

import copy
import json
import os
import re
import site
import sys
import sysconfig
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from safetensors.torch import load_file, save_file

from commands import ROOT

SECRET = "HOSTILE_SECRET"  # an environment variable
RAN = "hostile.ran"  # what code in a checkpoint says when it is run
CALL = f"__import__('sys').audit('{RAN}')"
TEXTS = {
    "a call": f"[{CALL} or 100]",
    "a call that goes on": f"{CALL} or [(8, 3)]",
    "a call in a dictionary": f"{{'a': {CALL}}}",
    "a path": "/etc/passwd",
    "a path that climbs": "../outside/notes",
    "an interpolation": f"${{oc.env:{SECRET}}}",
    "an interpolation of old": f"a${{env:{SECRET}}}b",
    "an address": "http://127.0.0.1:9/codes",
    "an address of a bucket": "s3://bucket/codes",
    "terminal escapes": "\x1b]0;owned\x07\x1b[2J",
    "10 MB": "x" * 10_000_000,
}
OTHERS = {
    "a word": "seven",
    "true": True,
    "nothing": None,
    "a fraction": 0.5,
    "below zero": -3,
    "zero": 0,
    "a large number": 1 << 40,
    "a huge number": 1 << 5000,
    "not a number": float("nan"),
    "a list": [1, "a"],
    "a dictionary": {"a": 1},
    "a Namespace": Namespace(a=CALL),
    "a tensor": torch.ones(1),
}
FORBIDDEN = ("ctypes", "ftplib", "http", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "pty", RAN)
FORBIDDEN += ("shutil", "smtplib", "socket", "subprocess", "telnetlib", "urllib", "webbrowser")
NEW_FILES = ("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate")
LOOKING = ("open", "os.listdir", "os.scandir")
OWN = [ROOT, Path("/proc/self"), Path("/dev/null")]
OWN += map(Path, {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *site.getsitepackages()})


@dataclass(frozen=True)
class Mutation:
    """A change of a checkpoint's content, and how to put the changed content into a file."""

    name: str
    change: Callable[[dict], None]
    save: Callable[[dict, Path], None] = torch.save

    def write(self, state: dict, path: Path) -> None:
        changed = {part: dict(value) if part == "model" else copy.deepcopy(value) for part, value in state.items()}
        self.change(changed)
        self.save(changed, path)


def options(group: object) -> dict:
    return vars(group) if isinstance(group, Namespace) else group


def changed_options(state: dict) -> Iterator[Mutation]:
    """Each option of each group becomes each of TEXTS, and those that are numbers become each of OTHERS.

    The same in the one Namespace of a checkpoint of old.
    """
    yield from changed_groups(state)
    for name in options(state["cfg"]["model"]):
        for kind, other in TEXTS.items():
            yield Mutation(f"args.{name}: {kind}", as_of_old(name, other))


def changed_groups(state: dict) -> Iterator[Mutation]:
    for group, values in state["cfg"].items():
        for name, value in options(values if isinstance(values, dict | Namespace) else {}).items():
            for kind, other in (TEXTS if value is None or isinstance(value, str) else TEXTS | OTHERS).items():
                yield Mutation(f"{group}.{name}: {kind}", set_option(group, name, other))


def other_changes(state: dict) -> Iterator[Mutation]:
    """What else an attacker would think of."""
    yield from foreign_classes()
    yield from odd_groups(state)
    yield from odd_options()
    yield from odd_parts()
    yield from odd_tensors(state)
    yield from odd_files()


def set_option(group: str, name: str, value: object) -> Callable[[dict], None]:
    def change(state: dict) -> None:
        options(state["cfg"][group])[name] = value

    return change


def as_of_old(name: str, value: object) -> Callable[[dict], None]:
    """Gives the checkpoint ``args``, as before fairseq 0.10."""

    def change(state: dict) -> None:
        state["args"] = Namespace(**vars(state["cfg"]["model"]) | {name: value})
        state["cfg"] = None

    return change


def foreign_classes() -> Iterator[Mutation]:
    """Every class of fairseq's registries is asked for, with code where some of them evaluate."""
    for name in ARCH_MODEL_REGISTRY:

        def change(state: dict, name=name) -> None:
            options(state["cfg"]["model"]).update(_name=name, arch=name, encoder_layers=TEXTS["a call that goes on"])

        yield Mutation(f"architecture {name}", change)
    for group, registry in {
        "task": TASK_REGISTRY,
        **{kind: REGISTRIES[kind]["registry"] for kind in REGISTRIES},
    }.items():
        for name in registry:

            def change(state: dict, group=group, name=name) -> None:
                files = {"bpe_merges": "/etc/passwd", "gpt2_encoder_json": TEXTS["an address"]}
                state["cfg"][group] = {**(state["cfg"].get(group) or {}), **files, "_name": name}

            yield Mutation(f"{group} {name}", change)


def odd_groups(state: dict) -> Iterator[Mutation]:
    for group in state["cfg"]:
        for kind, other in (TEXTS | OTHERS).items():

            def change(state: dict, group=group, other=other) -> None:
                state["cfg"][group] = other

            yield Mutation(f"{group}: {kind}", change)


def odd_options() -> Iterator[Mutation]:
    circle, bomb = [1], [0] * 10
    circle.append(circle)
    for _ in range(9):
        bomb = [bomb] * 10
    deep = []
    for _ in range(100):
        deep = [deep]
    for kind, value in {"a circle": circle, "a bomb": bomb, "deep": deep, "many": list(range(100_000))}.items():
        yield Mutation(f"a list: {kind}", set_option("model", "extra", value))
        yield Mutation(f"a list in a group: {kind}", set_option("task", "data", value))
    for key in (
        "__class__",
        "a b",
        "",
        7,
        "x" * 1000,
        "\x1b[2J",
        "encoder",
        "decoder",
        "xformers_att_config",
        "layers",
    ):
        yield Mutation(f"an option {key!r:.20}", set_option("model", key, TEXTS["a call in a dictionary"]))
        yield Mutation(f"a group {key!r:.20}", lambda state, key=key: state["cfg"].update({key: CALL}))


def odd_parts() -> Iterator[Mutation]:
    for part in ("cfg", "args", "optimizer_history", "extra_state", "averaged", "model", "task_state"):
        for kind, value in (TEXTS | OTHERS | {"an empty list": [], "of texts": [CALL]}).items():
            yield Mutation(f"{part}: {kind}", lambda state, part=part, value=value: state.update({part: value}))
    places = {
        "num_updates": lambda state: state["optimizer_history"][-1],
        "epoch": lambda state: state["extra_state"].setdefault("train_iterator", {}),
        "previous_training_time": lambda state: state["extra_state"],
        "val_loss": lambda state: state["extra_state"],
    }
    for name, place in places.items():
        for kind, value in (TEXTS | OTHERS).items():
            yield Mutation(f"{name}: {kind}", lambda state, n=name, p=place, v=value: p(state).update({n: v}))


def odd_tensors(state: dict) -> Iterator[Mutation]:
    tensors = {
        "a million million zeros": torch.zeros(1).expand(1_000_000, 1_000_000),
        "sparse": torch.sparse_coo_tensor([[0], [0]], [1.0], (1 << 30, 1 << 30)),
        "complex": torch.ones(3, dtype=torch.complex64),
        "whole numbers": torch.ones(16, 16, dtype=torch.int64),
        "empty": torch.empty(0),
        "a text": CALL,
        "nothing": None,
    }
    names = [
        name for name in state["model"] if name.endswith(("embed_tokens.weight", "layers.0.fc1.weight", "conv.bias"))
    ]
    for name in [*names, "encoder.layers.99999999999.fc1.weight", "\x1b[2J", ""]:
        for kind, tensor in tensors.items():
            yield Mutation(f"{name!r}: {kind}", lambda state, n=name, t=tensor: state["model"].update({n: t}))


def edited(edit: Callable[[bytes], bytes], save: Callable[[dict, Path], None] = torch.save) -> Callable:
    """A way to save whose file is edited afterwards."""

    def saved_and_edited(state: dict, path: Path) -> None:
        save(state, path)
        path.write_bytes(edit(path.read_bytes()))

    return saved_and_edited


def odd_files() -> Iterator[Mutation]:
    def packed(state: dict, path: Path) -> None:
        torch.save(state, path)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        bomb = {f"{next(iter(members)).partition('/')[0]}/data/bomb": bytes(30_000_000)}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in (members | bomb).items():
                archive.writestr(name, content)

    saves = {
        "of old": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
        "a packed archive": packed,
        "with more behind it": edited(lambda content: content + bytes(1000)),
        "with a vast tensor": edited(
            lambda content: content.replace(b"K\x10K\x10\x86", b"J\xff\xff\xff\x7fK\x10\x86", 1)
        ),
    }
    saves |= {
        f"cut after {part} of 8": edited(lambda content, p=part: content[: len(content) * p // 8]) for part in range(8)
    }
    saves |= {
        f"a bit flipped at {place} of 64": edited(lambda content, p=place: flipped(content, len(content) * p // 64))
        for place in range(64)
    }
    for name, save in saves.items():
        yield Mutation(f"a file {name}", lambda state: None, save)


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


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


watched: list[str] | None = None  # what has been seen, while something is watched
allowed: list[Path] = []


def hook(event: str, arguments: tuple) -> None:
    if watched is None:
        return
    if event == "ctypes.call_function":
        return  # by the native code, from Python 3.14 on; any other function is looked up first, by ctypes.dlsym
    if event.startswith((*FORBIDDEN, *NEW_FILES)):
        watched.append(f"{event} {arguments!r:.200}")
    elif event in LOOKING and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
        path = Path(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100  as it is spelled, links and all
        if not any(path.is_relative_to(folder) for folder in allowed):
            watched.append(f"{event} {path}")


@contextmanager
def watching(folder: Path) -> Iterator[list[str]]:
    """Lists what should not happen meanwhile: code run, processes, sockets, files but those of Python and a folder."""
    global watched
    if hook not in installed:
        sys.addaudithook(hook)
        installed.append(hook)
    allowed[:], seen = [*OWN, folder], []
    watched = seen
    try:
        yield seen
    finally:
        watched = None


installed: list[Callable] = []  # hooks stay until Python ends
