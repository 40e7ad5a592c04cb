"""The flags of models of time series: Wang et al., Convolution-enhanced Evolving Attention Networks, 2022 ("CEAN")."""

from dataclasses import dataclass

from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.options import Options, fraction, option, whole

MOST = 1 << 16


@dataclass(frozen=True)
class TimeSeriesOptions(Options):
    """What all models of time series have.

    Raises:
        UserError: naming the flag, when a value is out of range.
    """

    blocks: int = option(
        3, whole(1, 1000), "blocks, or layers that are recurrent", "a whole number from 1 to 1,000", "N"
    )
    width: int = option(64, whole(1, MOST), "channels of a step in a model", f"a whole number from 1 to {MOST:,}", "N")
    dropout: float = option(0.1, fraction, "dropout", "a number from 0 to 1", "F")

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """The widest and deepest model that a checkpoint can have."""
        sizes = [max(tensor.shape, default=1) for tensor in parameters.values()]
        return {"blocks": len(parameters), "width": max(sizes, default=1), "ffn_width": max(sizes, default=1)}


@dataclass(frozen=True)
class DCTransformerOptions(TimeSeriesOptions):
    """What models have whose layers are attention beside a dilated convolution (CEAN, section 3.3).

    Raises:
        UserError: naming the flag, when a value is out of range, or heads do not divide the attention's channels.
    """

    attention_share: float = option(
        0.25,
        fraction,
        "share p of the channels that attention gives; a dilated convolution gives the others. 0: no attention, "
        "1: no convolution",
        "a number from 0 to 1",
        "F",
    )
    encoder_attention_heads: int = option(
        8, whole(1, MOST), "heads of an attention", f"a whole number from 1 to {MOST:,}", "N"
    )
    attention_dropout: float = option(0.0, fraction, "dropout of attention probabilities", "a number from 0 to 1", "F")
    ffn_width: int = option(
        256, whole(1, MOST), "channels inside a feed-forward network", f"a whole number from 1 to {MOST:,}", "N"
    )
    dilation_base: int = option(
        2,
        whole(1, MOST),
        "dilation of a layer's convolution, divided by that of the layer below, which is 1 in the first",
        f"a whole number from 1 to {MOST:,}",
        "N",
    )
    causal_conv: bool = option(False, bool, "dilated convolutions read no later step; attention reads all steps")

    def __post_init__(self) -> None:
        super().__post_init__()
        channels, heads = self.attention_share * self.width, self.encoder_attention_heads
        if abs(channels - self.attended) > 1e-6 or self.attended % heads:
            raise UserError(
                f"--attention-share {self.attention_share:g} of --width {self.width} is {channels:g} channels of "
                f"attention, which --encoder-attention-heads {heads} does not divide: change one of them"
            )

    @property
    def attended(self) -> int:
        """The channels p d that attention gives."""
        return round(self.attention_share * self.width)

    def dilation(self, layer: int, longest: int) -> int:
        """Of a layer, from 0: base^layer; beyond the longest series a neighbour is zero, however far away it is."""
        return min(self.dilation_base**layer, longest)
