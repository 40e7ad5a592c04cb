"""Converts nested options of a Transformer (fairseq-hydra-train) to the flat names of fairseq-train's flags.

``encoder: {embed_dim: 32}`` is ``encoder_embed_dim: 32``. fairseq's ``TransformerConfig`` reads both; architectures,
mechanisms and the checks of checkpoints read flat names.
"""

from argparse import Namespace
from collections.abc import Mapping, MutableMapping
from contextlib import nullcontext
from dataclasses import asdict, fields

from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig, QuantNoiseConfig
from omegaconf import DictConfig, open_dict

from ea_fairseq.errors import UserError

PARTS = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}


def flatten(options: Namespace | dict | DictConfig | None, complete: bool = False) -> None:
    """Replaces nested options, in place, by flat ones.

    Args:
        options: a model's options.
        complete: whether missing options of a nested part are added, with fairseq's defaults.

    Raises:
        UserError: naming an option that the part does not have.
    """
    mapping = vars(options) if isinstance(options, Namespace) else options
    if not isinstance(mapping, MutableMapping):
        return
    for part, config in PARTS.items():
        nested = mapping.get(part)
        if not isinstance(nested, Mapping):
            continue
        known = [field.name for field in fields(config) if field.name != "_name"]
        unknown = [name for name in nested if name not in known]
        if unknown:
            raise UserError(f"fairseq has no option model.{part}.{unknown[0]:.80}: {part} has {', '.join(known)}")
        given = asdict(config(**nested)) if complete else nested
        flat = {f"{part}_{name}": value for name, value in given.items() if name != "_name"}
        with open_dict(mapping) if isinstance(mapping, DictConfig) else nullcontext():
            del mapping[part]
            mapping.update(flat)
