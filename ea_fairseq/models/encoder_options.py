"""The flags of models that are an encoder alone, beside fairseq's for RoBERTa."""

import math
from dataclasses import dataclass

from torch import Tensor

from ea_fairseq.options import Options, option, whole

MOST_SEGMENTS = 1024


def positive(text: str) -> float:
    """Parses a finite number above 0; raises ValueError otherwise."""
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError(text)
    return number


@dataclass(frozen=True)
class EncoderOptions(Options):
    """What comes before the layers of an encoder, and what fairseq's RoBERTa has no flags for.

    Raises:
        UserError: naming the flag, when a value is out of range.
    """

    embedding_size: int = option(
        0,
        whole(0),
        "width of the embeddings, which a linear layer takes to --encoder-embed-dim, and the language model's head "
        "back; 0: that of the layers",
        "a whole number",
        "N",
    )
    segments: int = option(
        0,
        whole(0, MOST_SEGMENTS),
        "number of learned vectors, of which each token has one added by the number of </s> before it",
        f"a whole number up to {MOST_SEGMENTS:,}",
        "N",
    )
    layer_norm_eps: float = option(
        1e-5, positive, "what layer norms add to variances (BERT: 1e-12)", "a number above 0", "F"
    )
    no_token_positional_embeddings: bool = option(False, bool, "no absolute positions")
    checkpoint_activations: bool = option(False, bool, "compute activations again in the backward pass")
    offload_activations: bool = option(False, bool, "the same, keeping what is needed for it in the CPU's memory")

    @classmethod
    def limits(cls, parameters: dict[str, Tensor]) -> dict[str, int]:
        """The widest embeddings and the most segments that a checkpoint can have."""
        width = max((tensor.size(1) for tensor in parameters.values() if tensor.dim() == 2), default=1)
        segments = [tensor.size(0) for name, tensor in parameters.items() if name.endswith("segment_embeddings.weight")]
        return {"embedding_size": width, "segments": max(segments, default=MOST_SEGMENTS)}
