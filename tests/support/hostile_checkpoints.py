"""Checkpoints as an attacker would change them."""

import copy
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from hostile_watch import RAN

SECRET = "HOSTILE_SECRET"  # an environment variable
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


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
