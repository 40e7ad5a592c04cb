"""Attentions that read more channels than they give."""

from fairseq.modules.quant_noise import quant_noise
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.terms.synthesizer import DenseSynthesizer
from ea_fairseq.user_error import UserError

GAIN = 2**-0.5  # of the start of projections, as in fairseq's MultiheadAttention


def widen(attention: Attention, reads: int, q_noise: float = 0.0, qn_block_size: int = 8) -> None:
    """Lets a self-attention of C channels, whatever its mechanism, read tokens (T, B, C') of ``reads`` channels C'.

    Args:
        q_noise, qn_block_size: of fairseq's quantization noise.

    Raises:
        UserError: where ``--conv-projections`` asks for convolutions, which read C channels.
    """
    if attention.convolutions is not None and attention.convolutions.act_on("qkv"):
        raise UserError("--conv-projections convolve as many channels as an attention gives; this one reads more")
    for term in (module for module in attention.modules() if isinstance(module, DenseSynthesizer)):
        term.read(reads, attention.embed_dim)
    attention.kdim, attention.is_bare, attention.is_plain = reads, False, False
    for part in attention.projected:
        layer = nn.Linear(reads, attention.embed_dim)
        nn.init.xavier_uniform_(layer.weight, gain=GAIN)
        setattr(attention, f"{part}_proj", quant_noise(layer, q_noise, qn_block_size))
