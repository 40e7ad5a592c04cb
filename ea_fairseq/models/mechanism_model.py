"""What all models of a mechanism share, whichever of fairseq's models they are built on."""

import copy
from dataclasses import fields
from typing import ClassVar

from fairseq.checkpoint_utils import prune_state_dict

from ea_fairseq.analysis.metrics import log_metrics
from ea_fairseq.attention.convolution_options import ConvolutionOptions
from ea_fairseq.attention.registry import Family
from ea_fairseq.attention.term_options import TermOptions
from ea_fairseq.kernels.availability import check_backend
from ea_fairseq.options import Options, flag
from ea_fairseq.state_dict import missing_mechanism, refuse_mismatch, remove_unread, start_mechanism
from ea_fairseq.user_error import UserError


class MechanismModel:
    """Flags, their checks, and checkpoints; stands before a model of fairseq among the bases of a class."""

    family: ClassVar[Family]

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Those of the flags that are not fairseq's: of terms, of convolutions and of the mechanism."""
        return TermOptions, ConvolutionOptions, cls.family.attention.options

    @classmethod
    def add_args(cls, parser):
        """Adds fairseq's flags and our own."""
        super().add_args(parser)
        for options in cls.option_classes():
            options.add_args(parser)

    @classmethod
    def check_args(cls, args, *sides: str) -> None:
        """Checks our flags, and the heads of ``sides``: ``encoder``, ``decoder``.

        Raises:
            UserError: naming the flag, when an option is out of range or does not go with the mechanism.
        """
        for side in sides:
            width, heads = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
            if heads < 1 or width % heads:
                raise UserError(
                    f"--{side}-attention-heads must divide --{side}-embed-dim, and {heads} is no divisor of {width}"
                )
        for options in cls.option_classes():
            options.from_namespace(args)
        check_backend()

    @classmethod
    def refuse_decoder_flags(cls, args) -> None:
        """
        Raises:
            UserError: naming the flag that is of attentions which an encoder does not have.
        """
        for opt in fields(cls.family.attention.options):
            if any(kind in opt.name.split("_") for kind in ("decoder", "cross")) and getattr(args, opt.name, False):
                raise UserError(
                    f"{flag(opt)} is not for encoders alone: it is of a decoder, which only {cls.family.name} has"
                )

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Loads parameters of such a model or, with those of the mechanism starting anew, of a plain Transformer.

        Raises:
            UserError: naming the first parameter that does not fit, before any is loaded.
        """
        self.upgrade_state_dict(state_dict)
        state_dict = copy.copy(prune_state_dict(state_dict, model_cfg or args))
        new = missing_mechanism(self, state_dict)
        state_dict.update(new)
        unread = remove_unread(self, state_dict) if new else 0
        if strict:
            refuse_mismatch(self, state_dict)
        if new:
            start_mechanism(self, self.family.attention.options.from_namespace(self.args), unread)
        return super().load_state_dict(state_dict, strict)

    def set_num_updates(self, num_updates: int):
        """Called by fairseq before each update of a training."""
        super().set_num_updates(num_updates)
        log_metrics(self, self.args)
