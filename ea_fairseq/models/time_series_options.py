"""Flags of time-series models: Wang et al., Convolution-enhanced Evolving Attention Networks, 2022 ("CEAN")."""

from dataclasses import dataclass

from ea_fairseq.errors import UserError
from ea_fairseq.options import DEPTH, FRACTION, SIZE, Options, option, switch


@dataclass(frozen=True)
class TimeSeriesOptions(Options):
    """Options of all models of time series.

    Raises:
        UserError: naming the flag, if a value is out of range.
    """

    blocks: int = option(3, DEPTH, "number of blocks or of recurrent layers")
    width: int = option(64, SIZE, "channels of a step in a model")
    dropout: float = option(0.1, FRACTION, "dropout")


@dataclass(frozen=True)
class DCTransformerOptions(TimeSeriesOptions):
    """Options of models whose layers have an attention and a dilated convolution in parallel (CEAN, section 3.3).

    Raises:
        UserError: naming the flag, if a value is out of range, or if heads do not divide the attention's channels.
    """

    attention_share: float = option(
        0.25,
        FRACTION,
        "share p of the channels that attention computes; a dilated convolution computes the others. 0: no attention, "
        "1: no convolution",
    )
    encoder_attention_heads: int = option(8, SIZE, "heads of an attention")
    attention_dropout: float = option(0.0, FRACTION, "dropout of attention probabilities")
    ffn_width: int = option(256, SIZE, "channels inside a feed-forward network")
    dilation_base: int = option(2, SIZE, "base b of the dilations: layer i, from 0, has the dilation b^i")
    causal_conv: bool = switch("dilated convolutions read no later step; attention reads all steps")

    def __post_init__(self) -> None:
        super().__post_init__()
        channels, heads = self.attention_share * self.width, self.encoder_attention_heads
        if abs(channels - self.attended) > 1e-6 or self.attended % heads:
            raise UserError(
                f"--attention-share {self.attention_share:g} of --width {self.width} is {channels:g} channels of "
                f"attention, which --encoder-attention-heads {heads} does not divide: change one of the three"
            )

    @property
    def attended(self) -> int:
        """The number of channels p d that attention computes."""
        return round(self.attention_share * self.width)

    def dilation(self, layer: int, longest: int) -> int:
        """Returns a layer's dilation, base^layer, at most ``longest``: beyond a series all neighbours are zero."""
        return min(self.dilation_base**layer, longest)
