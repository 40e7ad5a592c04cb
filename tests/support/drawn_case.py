"""What a call of an attention is drawn from: sizes, numbers and masks, and how they lie in memory."""

import random

import torch
from torch import Tensor

from ea_fairseq.attention.evolution import Evolution
from ea_fairseq.kernels.masks import MASKED_FROM
from ea_fairseq.kernels.window import WINDOWS
from ea_fairseq.mechanisms.evolving import EvolvingAttention

MASK_TYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32)


class Case:
    """What a case is drawn from, by its seed."""

    def __init__(self, seed: int):
        self.choose = random.Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)

    def often(self, probability: float) -> bool:
        return self.choose.random() < probability

    def size(self, most: int) -> int:
        """Often small, and seldom none at all."""
        return 0 if self.often(0.02) else self.choose.choice([1, 2, self.choose.randint(1, most)])

    def normal(self, *size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(size, generator=self.numbers).to(dtype)

    def mask(self, *size: int) -> Tensor:
        """True in some places."""
        return torch.rand(size, generator=self.numbers) < 0.25

    def attn_mask(self, queries: int, keys: int) -> Tensor:
        """True at some later keys, or low numbers there, and seldom others elsewhere."""
        hidden = self.mask(queries, keys).triu(1)
        if self.often(0.2):
            return hidden
        numbers = self.normal(queries, keys) * self.often(0.2)
        return numbers.masked_fill(hidden, self.choose.choice([-torch.inf, -1e9, MASKED_FROM]))

    def relaid(self, tensor: Tensor) -> Tensor:
        """The same numbers in memory as a caller may have them: turned, with gaps, anywhere, with odd strides."""
        layout = self.choose.choice(["plain", "turned", "gaps", "moved", "strange strides"])
        size = tensor.shape
        if layout == "turned" and tensor.dim() > 1:
            order = self.choose.sample(range(tensor.dim()), tensor.dim())
            back = [order.index(dim) for dim in range(tensor.dim())]
            return tensor.permute(order).contiguous().permute(back)
        if layout == "gaps" and tensor.dim():
            dim = self.choose.randrange(tensor.dim())
            larger = torch.ones([n * (2 if i == dim else 1) for i, n in enumerate(size)], dtype=tensor.dtype)
            places = tuple(slice(None, None, 2) if i == dim else slice(None) for i in range(tensor.dim()))
            larger[places] = tensor
            return larger[places]
        if layout == "moved":
            memory = torch.ones(tensor.numel() + 5, dtype=tensor.dtype)
            memory[3 : 3 + tensor.numel()] = tensor.flatten()
            return memory[3 : 3 + tensor.numel()].view(size)
        if layout == "strange strides":
            strides = [
                self.choose.randint(1, 999) if n == 1 else step for n, step in zip(size, tensor.stride(), strict=True)
            ]
            return tensor.as_strided(size, strides)
        return tensor

    def as_mask(self, mask: Tensor) -> Tensor:
        """The mask, of some type, and somewhere in memory."""
        return self.relaid(mask.to(self.choose.choice(MASK_TYPES)))

    def resized(self, tensor: Tensor) -> Tensor:
        """The tensor with one dimension of another size, with one less or with one more."""
        if not tensor.dim() or self.often(0.1):
            return tensor.unsqueeze(self.choose.randint(0, tensor.dim()))
        dim = self.choose.randrange(tensor.dim())
        if self.often(0.1):
            return tensor.select(dim, 0) if tensor.size(dim) else tensor.flatten()
        size = self.choose.choice([1, 1, 0, tensor.size(dim) + 1, 2 * tensor.size(dim), max(tensor.size(dim) - 1, 0)])
        repeated = torch.cat([tensor] * 3, dim) if tensor.size(dim) else tensor
        return repeated.narrow(dim, 0, min(size, repeated.size(dim)))

    def retyped(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.choose.choice([torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64]))

    def attention(self, kind: str, dtype: torch.dtype = torch.float32) -> EvolvingAttention:
        heads, width, kernel = (
            self.choose.choice([1, 2, 3, 4, 5, 8]),
            self.choose.randint(1, 20),
            self.choose.choice([1, 3, 3, 5]),
        )
        alpha, beta = self.choose.choice([(0.0, 0.3), (0.4, 0.0), (0.4, 0.3), (0.6, 0.7), (1.0, 1.0)])
        learned = self.choose.choice(["", "", "head", "input"]) if max(alpha, beta) < 1 else ""
        evolution = Evolution(WINDOWS[kind], alpha, beta, kernel, learned=bool(learned), by_input=learned == "input")
        flags = {"encoder_decoder_attention": True} if kind == "cross" else {"self_attention": True}
        attention = EvolvingAttention(heads * width, heads, evolution, **flags)
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.copy_(self.normal(*parameter.shape) / max(parameter.shape[-1], 4) ** 0.5)
            for name, parameter in list(attention.named_parameters(recurse=True)):
                module = attention.get_submodule(name.rpartition(".")[0])
                setattr(module, name.rpartition(".")[2], torch.nn.Parameter(self.relaid(parameter.detach().clone())))
        return attention.to(dtype)
