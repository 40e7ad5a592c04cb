"""DC-Transformer and EA-DC-Transformer: attention and a dilated convolution in parallel (CEAN, section 3.3).

The paper does not describe the rest, which follows the authors' code: projection of the input, learned positions, batch
norm, a residual connection around two layers, and one linear layer that reads all steps. If the code differs from the
paper, we follow the paper: see docs/time-series.md.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models import register_model_architecture
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.inputs import NOTHING, Passed
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import Family
from ea_fairseq.attention.term import Term
from ea_fairseq.blocks.token_convolution import TokenConvolution
from ea_fairseq.errors import UserError
from ea_fairseq.kernels.masks import AttentionMasks, none_if_empty
from ea_fairseq.models.build_attention import build_attention, refuse_idle_attention
from ea_fairseq.models.mechanism_model import MechanismModel, register, set_options
from ea_fairseq.models.time_series import StepNorm, TimeSeriesModel
from ea_fairseq.models.time_series_options import DCTransformerOptions
from ea_fairseq.options import Options, require_defaults
from ea_fairseq.series.description import SeriesDescription

LAYERS_PER_BLOCK = 2  # CEAN, section 3.3
POSITIONS_STD = 0.02
MODELS: dict[str, type["DCTransformer"]] = {}  # by the model's name


class DCLayer(nn.Module):
    """Attention and a dilated convolution in parallel, batch norm, and a feed-forward network.

    Args:
        args: the model's options.
        attention: the attention's class.
        context: the layer's index and the modules that layers share.
        longest: the maximum number of steps of a series.
    """

    def __init__(self, args: Any, attention: type[Attention], context: LayerContext, longest: int):
        super().__init__()
        options = DCTransformerOptions.from_namespace(args)
        width, attended = options.width, options.attended
        self.self_attn = self.dilated = None
        if attended:
            heads, reads = options.encoder_attention_heads, width if attended < width else None
            self.self_attn = build_attention(attention, args, context, attended, heads, reads, self_attention=True)
        if attended < width:
            dilation = options.dilation(context.layer, longest)
            self.dilated = TokenConvolution(width - attended, width, dilation, later=not options.causal_conv)
        self.norm, self.dropout = StepNorm(width), nn.Dropout(options.dropout)
        self.fc1, self.fc2 = nn.Linear(width, options.ffn_width), nn.Linear(options.ffn_width, width)

    def forward(self, x: Tensor, masks: AttentionMasks, previous: Passed) -> tuple[Tensor, Passed]:
        """(T, B, d) -> (T, B, d), and what the next layer takes as ``previous``  (CEAN eq. 6).

        Args:
            masks: of padding.
            previous: see ``Attention.forward``.
        """
        outputs, passed = [], NOTHING
        # Attention H_i gives p d channels.
        if self.self_attn is not None:
            attended, _, passed = self.self_attn(x, x, x, need_weights=False, previous=previous, masks=masks)
            outputs.append(attended)
        # The dilated convolution D_i gives (1 - p) d channels.
        if self.dilated is not None:
            outputs.append(self.dilated(x, masks))
        # R_i, their normalized concatenation, and the feed-forward network.
        x = self.norm(torch.cat(outputs, dim=-1), masks.padded_keys)
        return self.fc2(self.dropout(F.relu(self.fc1(x)))), passed


class DCEncoder(nn.Module):
    """A stack of blocks of two layers each.

    Args:
        args: the model's options.
        attention: the class of the attentions.
        description: the data set's description.

    Raises:
        UserError: if a score term supports fewer steps than a series has.
    """

    def __init__(self, args: Any, attention: type[Attention], description: SeriesDescription):
        super().__init__()
        options = DCTransformerOptions.from_namespace(args)
        shared: dict[str, nn.Module] = {}
        self.project_in = nn.Linear(description.channels, options.width)
        self.embed_positions = nn.Embedding(description.longest, options.width)
        nn.init.normal_(self.embed_positions.weight, std=POSITIONS_STD)
        self.scale, self.dropout = math.sqrt(options.width), nn.Dropout(options.dropout)
        contexts = (LayerContext("encoder", layer, shared) for layer in range(LAYERS_PER_BLOCK * options.blocks))
        self.layers = nn.ModuleList(DCLayer(args, attention, context, description.longest) for context in contexts)
        self.norms = nn.ModuleList(StepNorm(options.width) for _ in range(options.blocks))
        for term in (module for module in self.modules() if isinstance(module, Term)):
            if term.longest is not None and term.longest < description.longest:
                raise UserError(
                    f"the longest series has {description.longest:,} steps, and --synthesizer-length is {term.longest}"
                )

    def forward(self, source: Tensor, padding_mask: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, d)

        Args:
            padding_mask: (B, T), true at padding.
        """
        # Project the steps and add learned positions.
        x = self.scale * self.project_in(source) + self.embed_positions.weight[: source.size(1)]
        x, passed, padded = self.dropout(x).transpose(0, 1), NOTHING, none_if_empty(padding_mask)
        masks = AttentionMasks(padded, padded)
        # Blocks of two layers, with a residual connection around each block.
        for block, norm in enumerate(self.norms):
            residual = x
            for layer in self.layers[LAYERS_PER_BLOCK * block : LAYERS_PER_BLOCK * (block + 1)]:
                x, passed = layer(x, masks, passed)
            x = norm(residual + x, padded)
        return x.transpose(0, 1)


class DCTransformer(MechanismModel, TimeSeriesModel):
    """A model of time series with one attention mechanism in its layers.

    It takes the flags of :class:`DCTransformerOptions`, of terms, of convolutions and of the mechanism.
    """

    options = DCTransformerOptions

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns all option classes."""
        return *super().option_classes(), DCTransformerOptions

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "DCTransformer":
        """Checks the flags and builds the model.

        Raises:
            UserError: naming the flag, if an option is out of range or not supported by the mechanism.
        """
        cls.refuse_decoder_flags(args)
        cls.check_args(args)
        cls.refuse_unused_flags(args)
        description = cls.description_of(args, task)
        return cls(args, DCEncoder(args, cls.family.attention, description), description)

    @classmethod
    def refuse_unused_flags(cls, args: Any) -> None:
        """Refuses flags of attentions in a model without attention, and of convolutions in one without convolution.

        Raises:
            UserError: naming the flag.
        """
        options = DCTransformerOptions.from_namespace(args)
        if not options.attended:
            reason = "--attention-share 0 leaves no attention"
            refuse_idle_attention(args, cls.family.attention, reason, "dilated_cnn")
        if options.attended == options.width:
            names = ("causal_conv", "dilation_base")
            require_defaults(options, "--attention-share 1 leaves no convolution", names)


def register_archs(name: str, family: Family, archs: Mapping[str, Mapping[str, object]]) -> None:
    """Registers a model with fairseq, and its architectures, each with defaults of options."""
    model = MODELS[name] = register(name, DCTransformer, family=family, __doc__=family.attention.__doc__)
    for arch, defaults in archs.items():
        register_model_architecture(name, arch)(
            lambda args, defaults=dict(defaults): set_options(args, model.option_classes(), defaults)
        )


def register_time_series(family: Family) -> None:
    """Registers a family's model of time series, ``ea_dc_transformer``, unless its layers have another branch."""
    if not family.attention.has_branch:
        name = family.model("dc_transformer")
        register_archs(name, family, {name: family.time_series_defaults})


register_archs(
    "dc_transformer",
    Family("dc_transformer", Attention, {}),
    {
        "dc_transformer": {},
        "time_series_transformer": {"attention_share": 1.0},
        "dilated_cnn": {"attention_share": 0.0},
    },
)
