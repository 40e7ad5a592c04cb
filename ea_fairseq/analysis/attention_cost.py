"""What the attentions of a Transformer cost, by formula."""

from dataclasses import dataclass, replace

from ea_fairseq.mechanisms.evolution import Evolution

SIZES = 4  # products of sizes in fairseq's own attention, which torchprofile counts with those of tensors


@dataclass(frozen=True)
class Count:
    """Parameters, and multiply-accumulates of one sentence pair as torchprofile counts them."""

    parameters: int = 0
    macs: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.parameters + other.parameters, self.macs + other.macs)

    def __mul__(self, times: int) -> "Count":
        return Count(self.parameters * times, self.macs * times)


def linear(inputs: int, outputs: int, words: int, bias: bool = True) -> Count:
    """A linear layer, applied to each of the words; adding the bias is no multiplication."""
    return Count((inputs + bias) * outputs, inputs * outputs * words)


@dataclass(frozen=True)
class AttentionCost:
    """What the attentions of one kind cost: encoder or decoder self-attention, or encoder-decoder attention.

    Args:
        width, key_width: of the layers that give queries, and keys and values.
        heads: K of each attention.
        layers: number of attentions, one in each layer.
        queries, keys: words T and S.
        evolution: None in fairseq's Transformer.
        cross: whether keys come from the encoder.
    """

    width: int
    key_width: int
    heads: int
    layers: int
    queries: int
    keys: int
    evolution: Evolution | None = None
    cross: bool = False

    def of_length(self, words: int) -> "AttentionCost":
        """The same for as many queries and keys."""
        return replace(self, queries=words, keys=words)

    @property
    def plain(self) -> "AttentionCost":
        """The same in fairseq's Transformer."""
        return replace(self, evolution=None)

    @property
    def evolves(self) -> bool:
        return self.evolution is not None and not self.evolution.is_off

    @property
    def convolved(self) -> bool:
        return self.evolution is not None and self.evolution.beta > 0

    @property
    def entries(self) -> int:
        """Entries K x T x S of one attention's map."""
        return self.heads * self.queries * self.keys

    @property
    def projections(self) -> Count:
        """Of queries, keys, values and output."""
        own, keys = linear(self.width, self.width, self.queries), linear(self.key_width, self.width, self.keys)
        return (own * 2 + keys * 2) * self.layers

    @property
    def maps(self) -> Count:
        """The products Q K^T and A V."""
        return Count(macs=2 * self.queries * self.keys * self.width * self.layers)

    @property
    def convolutions(self) -> Count:
        """Of the maps, K to K channels with bias; margins of zeros count, too."""
        if not self.convolved:
            return Count()
        taps = self.heads * self.evolution.kernel_size**2
        return Count((taps + 1) * self.heads, taps * self.entries) * self.layers

    @property
    def element_wise(self) -> Count:
        """The scaling of the queries, which fairseq's self-attention leaves to one operation with the products."""
        scaled = self.queries * self.width if self.cross or self.evolves else 0
        return Count(macs=scaled + (0 if self.evolves else SIZES)) * self.layers

    def kept_for_backward(self, half: bool = False) -> int:
        """Bytes of maps that autograd keeps of all layers in plain PyTorch, without dropout of probabilities.

        Kept are the probabilities, by an attention that computes them step by step, as evolving attention does; torch
        has one fused operation for fairseq's self-attention, which keeps none. A convolution keeps its input, with
        margins unless they are alike on all sides, and the ReLU its output; the skip connection keeps nothing.

        Args:
            half: in half precision the softmax is of fp32, and its output is kept in both precisions.
        """
        number = 2 if half else 4
        kept = self.entries * (number + 4 * half) if self.cross or self.evolves else 0
        if self.convolved:
            margins = self.evolution.window.margins(self.evolution.kernel_size)
            left, right, above, below = margins if len(set(margins)) > 1 else (0, 0, 0, 0)
            padded = self.heads * (self.queries + above + below) * (self.keys + left + right)
            kept += (padded + self.entries) * number
        return kept * self.layers
