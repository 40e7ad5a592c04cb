"""Nested options of a Transformer, as fairseq-hydra-train takes them, by the flat names of fairseq-train's flags.

``encoder: {embed_dim: 32}`` is ``encoder_embed_dim: 32``. fairseq's ``TransformerConfig`` reads either; architectures,
our mechanisms and what checks a checkpoint read flat names.
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
        options: of a model.
        complete: whether a part that is there gets all its options, with fairseq's defaults.

    Raises:
        UserError: naming an option that the part does not have.
    """
    held = vars(options) if isinstance(options, Namespace) else options
    if not isinstance(held, MutableMapping):
        return
    for part, config in PARTS.items():
        nested = held.get(part)
        if not isinstance(nested, Mapping):
            continue
        known = [field.name for field in fields(config) if field.name != "_name"]
        unknown = [name for name in nested if name not in known]
        if unknown:
            raise UserError(f"model.{part}.{unknown[0]:.80} is no option of fairseq's: {part} has {', '.join(known)}")
        given = asdict(config(**nested)) if complete else nested
        flat = {f"{part}_{name}": value for name, value in given.items() if name != "_name"}
        with open_dict(held) if isinstance(held, DictConfig) else nullcontext():
            del held[part]
            held.update(flat)
