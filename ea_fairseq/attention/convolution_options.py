"""The flags of convolutions inside self-attention, which every mechanism has."""

from dataclasses import dataclass

from ea_fairseq.attention.convolutions import Convolutions, DepthwiseConvolution
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.errors import UserError
from ea_fairseq.options import Options, Values, option, switch


def projections(text: str) -> str:
    """Parses ``none`` or some of q, k and v with commas between them; raises ValueError otherwise."""
    if text == "none":
        return text
    parts = text.split(",")
    if not set(parts) <= set("qkv") or len(set(parts)) < len(parts):
        raise ValueError(text)
    return ",".join(part for part in "qkv" if part in parts)


@dataclass(frozen=True)
class ConvolutionOptions(Options):
    """The convolutions inside self-attentions.

    Raises:
        UserError: naming the flag, if a value is invalid.
    """

    depthwise_conv: bool = switch("self-attentions add a depthwise convolution of their values to their output")
    conv_projections: str = option(
        "none",
        Values(projections, "none or some of q,k,v", "PARTS"),
        "which of queries, keys and values half of the heads of self-attentions project from convolved tokens",
    )

    def build(self, context: LayerContext, width: int, heads: int, width_of_values: int) -> Convolutions | None:
        """Builds the convolutions of an attention of K heads, or returns None.

        Args:
            width: C channels of tokens; width_of_values: channels of all heads, C or more.

        Raises:
            UserError: if the number of heads is odd, so that it cannot be halved.
        """
        names = [] if self.conv_projections == "none" else self.conv_projections.split(",")
        if names and heads % 2 and context.kind != "cross":
            raise UserError(
                f"--conv-projections takes half of the heads, and --{context.kind}-attention-heads {heads} is odd"
            )
        if context.kind == "cross" or not (names or self.depthwise_conv):
            return None
        later = context.kind == "encoder"
        found = {name: DepthwiseConvolution(width, later, bias=True) for name in names}
        if self.depthwise_conv:
            found["depthwise"] = DepthwiseConvolution(width_of_values, later)
        return Convolutions(found)
