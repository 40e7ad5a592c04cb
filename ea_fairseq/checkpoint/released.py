"""Released models without pickle: parameters in model.safetensors, and options in config.json next to it."""

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from ea_fairseq.checkpoint.config import entries, shown
from ea_fairseq.checkpoint.option_rules import PATH, UNSET, model_rules
from ea_fairseq.errors import UserError
from ea_fairseq.models.nested_options import flatten
from ea_fairseq.plain.records import as_record, read_json

CONFIG, SUFFIX = "config.json", ".safetensors"
MAX_TOKENS = 4096  # of a batch, unless the user gives another number
TASK_OPTIONS = ("left_pad_source", "left_pad_target", "max_source_positions", "max_target_positions")


@dataclass(frozen=True)
class ReleasedConfig:
    """The content of config.json.

    Args:
        format: the version of this format.
        model: fairseq's options of the model, by name.
        task: fairseq's options of the task, by name.
        tied: for each parameter that shares the elements of a stored one, the name of the stored one.
            (safetensors would have them in its metadata, but writes these in a random order.)
    """

    format: Literal["ea-fairseq 1"]
    model: dict
    task: dict
    tied: dict[str, str]


def is_released(path: str | Path) -> bool:
    """Whether this is the path of a released model's parameters, by its ending."""
    return Path(path).suffix == SUFFIX


def read_released(path: Path) -> dict[str, Any]:
    """Reads a released model as the state of a checkpoint, not checked yet; its tensors are memory-mapped.

    Raises:
        UserError: if config.json is missing, or one of the two files is damaged.
        OSError: if a file cannot be read.
    """
    if not path.with_name(CONFIG).is_file():
        raise UserError(f"there is no {CONFIG} next to it")
    try:
        config = as_record(ReleasedConfig, read_json(path.with_name(CONFIG)))
    except ValueError as error:
        raise UserError(f"its {CONFIG} is not what ea-fairseq release writes ({error})") from None
    parameters = read_tensors(path)
    for name, stored in config.tied.items():
        if name in parameters or stored not in parameters:
            raise UserError(f"its {CONFIG} ties {shown(name)} to {shown(stored)}, which does not fit its parameters")
    tied = {name: parameters[stored] for name, stored in config.tied.items()}
    model = Namespace()  # it has the task's options, too, as fairseq-train's does
    vars(model).update(config.task | {"task": config.task.get("_name")} | config.model)
    cfg = default_config() | {"model": model, "task": {"data": None} | config.task}
    history = [{"criterion_name": None, "lr_scheduler_state": None}]
    return {"cfg": cfg, "model": parameters | tied, "optimizer_history": history, "extra_state": {"epoch": 1}}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a safetensors file, by name; they are memory-mapped.

    Raises:
        UserError: if it is not a safetensors file, or is damaged.
        OSError: if it cannot be read.
    """
    try:
        return load_file(path)
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"it is no safetensors file, or is not whole ({shown(str(error))})") from None


def default_config() -> dict[str, Any]:
    """Returns fairseq's defaults for all options, except for the batch size; the criterion is cross-entropy."""
    config = OmegaConf.structured(FairseqConfig(criterion={"_name": "cross_entropy", "sentence_avg": False}))
    config.dataset.max_tokens = MAX_TOKENS
    return OmegaConf.to_container(config, resolve=True, enum_to_str=True)


def write_released(state: Mapping[str, Any], path: Path, languages: tuple[str, str]) -> None:
    """Writes the parameters of a translation model, and config.json next to them.

    Args:
        state: a checkpoint's state.
        path: the file for the parameters.
        languages: source and target.
    """
    stored: dict[object, str] = {}  # the first name of each tensor
    tied = {}
    for name, tensor in state["model"].items():
        first = stored.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride()), name)
        if first != name:
            tied[name] = first
    parameters: dict[str, Tensor] = {name: state["model"][name].contiguous() for name in stored.values()}
    config = ReleasedConfig("ea-fairseq 1", model_options(state), task_options(state, languages), tied)
    path.write_bytes(save(parameters, metadata={"format": "pt"}))
    path.with_name(CONFIG).write_text(f"{json.dumps(asdict(config), indent=2)}\n", encoding="utf-8")


def model_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options from which a checkpoint's model is built, in alphabetical order, without paths."""
    options = dict(entries(entries(state["cfg"]).get("model") or state.get("args")))
    flatten(options, complete=True)
    known = {name for name, rule in model_rules().items() if rule not in (PATH, UNSET)}
    return {name: options[name] for name in sorted(known & options.keys())}


def task_options(state: Mapping[str, Any], languages: tuple[str, str]) -> dict[str, Any]:
    """Returns the options of a checkpoint's task that translation needs, without paths."""
    options = entries(entries(state["cfg"]).get("task") or state.get("args"))
    name = options.get("_name") or options.get("task")
    read = {name: options[name] for name in TASK_OPTIONS if name in options}
    return {"_name": name, "source_lang": languages[0], "target_lang": languages[1], **read}
