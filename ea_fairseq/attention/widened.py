"""An attention that reads more channels than it gives."""

from fairseq.modules.quant_noise import quant_noise
from torch import nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.terms.synthesizer import DenseSynthesizer
from ea_fairseq.user_error import UserError

GAIN = 2**-0.5  # of the start of projections, as in fairseq's MultiheadAttention


class WidenedAttention(Attention):
    """A self-attention that reads tokens (T, B, 2 C), gives (T, B, C), and does not project its output.

    Raises:
        UserError: where flags ask for what reads C channels.
    """

    def __init__(self, embed_dim: int, *args, q_noise: float = 0.0, qn_block_size: int = 8, **kwargs):
        super().__init__(embed_dim, *args, **kwargs)
        self.kdim, self.is_plain, self.out_proj = 2 * embed_dim, False, nn.Identity()
        for part in self.projected:
            layer = nn.Linear(self.kdim, embed_dim)
            nn.init.xavier_uniform_(layer.weight, gain=GAIN)
            setattr(self, f"{part}_proj", quant_noise(layer, q_noise, qn_block_size))
        if any(isinstance(module, DenseSynthesizer) for module in self.modules()):
            raise UserError("--synthesizer dense reads as many channels as an attention gives, and this one reads more")
        if self.convolutions is not None and self.convolutions.act_on("qkv"):
            raise UserError("--conv-projections convolve as many channels as an attention gives; this one reads more")
