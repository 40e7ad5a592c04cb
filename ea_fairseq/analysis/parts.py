"""The parts of a model, by the names of its modules: where its parameters and multiplications are."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from torch import nn

from ea_fairseq.attention.attention import Attention

EMBEDDINGS, ENCODER, DECODER, OUTPUT = "embeddings", "encoder", "decoder", "output projection"
LM_HEAD, CLASSIFICATION_HEAD = "language model's head", "classification head"
TERMS, BRANCHES = "terms of scores", "branches beside self-attention"
CONVOLUTIONS = "convolutions inside self-attention"
TOKENS, POOLER, LAST = "tokens", "pooler", "linear layer to classes"
STACK, MECHANISM, PLACE = "{stack}", "{mechanism}", "{place}"  # filled in from the model and a module's name
ORDER = (EMBEDDINGS, STACK, MECHANISM, TERMS, CONVOLUTIONS, BRANCHES, OUTPUT, LM_HEAD, CLASSIFICATION_HEAD)
# Group, part, and a pattern of its names: of a parameter, or of a module and, after a space, torch's operator.
RULES = (
    (STACK, "connections", r"\.connections\b"),
    (EMBEDDINGS, "source tokens", r"^encoder\.(embed_tokens\.|forward_embedding mul)"),
    (EMBEDDINGS, "target tokens", r"^decoder(\.embed_tokens\.| mul)"),
    (EMBEDDINGS, TOKENS, r"\.(embed_tokens\.|forward_embedding mul)"),
    (EMBEDDINGS, "positions", r"\.embed_positions\b"),
    (EMBEDDINGS, "segments", r"\.segment_embeddings\b"),
    (LM_HEAD, "dense layer", r"\.lm_head(\.dense\b| mul)"),
    (LM_HEAD, "layer norm", r"\.lm_head\.layer_norm\b"),
    (LM_HEAD, OUTPUT, r"\.lm_head\b"),
    (CLASSIFICATION_HEAD, POOLER, r"^classification_heads\.\w+\.dense\b"),
    (CLASSIFICATION_HEAD, "LSTM and pooling", r"^classification_heads\.\w+(\.(lstm|query|key|score)|.* matmul)"),
    (CLASSIFICATION_HEAD, LAST, r"^classification_heads\."),
    (CLASSIFICATION_HEAD, "values", r"^value_head\b"),
    (OUTPUT, OUTPUT, r"\.(output_projection|adaptive_softmax)\b"),
    (TERMS, PLACE, r"_attn\.terms\.\S+$"),
    (CONVOLUTIONS, PLACE, r"_attn\.convolutions\."),
    (BRANCHES, STACK, r"\.(branch|dilated)\b"),
    (STACK, "{mixer} projections", r"self_attn( linear|\.([qkv]|out)_proj|\.bias_)"),
    (STACK, "self-attention maps", r"self_attn(\.values|\.terms\.\S+)? (?!mul)"),
    (STACK, "cross-attention projections", r"encoder_attn( linear|\.([qkv]|out)_proj|\.bias_)"),
    (STACK, "cross-attention maps", r"encoder_attn(\.values|\.terms\.\S+)? (?!mul)"),
    (MECHANISM, PLACE, r"_attn\.\S+( (?!mul)|$)"),
    (STACK, "feed-forward", r"\.fc[12]( (?!mul)|\.)"),
    (STACK, "recurrent layers", r"^encoder\.layers( |\.\w+_l\d+)"),
    (STACK, "convolutions and norms", r"^encoder\.blocks\."),
    (STACK, "input projection", r"\.project_in\b"),
    (STACK, "first convolution", r"^encoder\.(stem|embed_patches|class_token)"),
    (STACK, "batch norms", r"\.norms?\b"),
    (STACK, "layer norms", r"layer_norm[ .]|^(en|de)coder\.layernorm_embedding\b"),
    (STACK, "element-wise", r" (mul|mul_|mean)$"),
    (STACK, "layer norm of embeddings", r"\.layernorm_embedding\b"),
    (STACK, "embeddings to layers", r"\.embedding_proj\b"),
    (STACK, "dense connections", r"\.dense\b"),
    (STACK, "output width", r"\.project_out_dim\b"),
    (STACK, "others", ""),
)


@dataclass(frozen=True)
class Count:
    """Parameters, and multiply-accumulates of a pass as torchprofile counts them."""

    parameters: int = 0
    macs: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.parameters + other.parameters, self.macs + other.macs)


@dataclass(frozen=True, order=True)
class Place:
    """Where something belongs; ``rank`` orders the parts in tables."""

    rank: tuple[int, ...]
    group: str
    name: str

    @classmethod
    def of(cls, path: str, model: nn.Module) -> "Place":
        """Returns the place of a parameter, or of an operator in a module, by ``RULES``."""
        rule, (group, name, _) = next(found for found in enumerate(RULES) if re.search(found[1][2], path))
        stack, crosses = DECODER if re.match(r"decoder\b", path) else ENCODER, "encoder_attn" in path
        family = getattr(model, "family", None)
        attention = Attention if family is None else family.attention
        filled = {
            "stack": stack,
            "place": "encoder-decoder attention" if crosses else f"{stack} self-attention",
            "mechanism": mechanism_group(attention),
            "mixer": "self-attention" if issubclass(attention, Attention) else attention.title,
        }
        second = stack == DECODER  # for parts that both stacks have
        rank = ORDER.index(group), group == STACK and second, rule, (name in (STACK, PLACE)) * (second + crosses)
        return cls(rank, group.format_map(filled), name.format_map(filled))


@dataclass(frozen=True)
class Part:
    """A part of a model.

    Args:
        group: the part's group.
        name: of the part in its group.
        count: its parameters and MACs; tied parameters count only at the first part that has them.
        tied: the part that it is tied to, or None.
    """

    group: str
    name: str
    count: Count = Count()
    tied: str | None = None


def parts(model: nn.Module, macs: Counter[str] | None = None) -> list[Part]:
    """Returns the parts of a built model, in the order of tables.

    Args:
        macs: of a pass, see :func:`ea_fairseq.analysis.cost.traced_macs`.
    """
    found, tied, last = defaultdict[Place, Count](Count), dict[Place, str](), dict[nn.Parameter, Place]()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        place = Place.of(name, model)
        found[place] += Count(0 if parameter in last else parameter.numel())
        if last.setdefault(parameter, place) != place:
            tied[place] = last[parameter].name
        last[parameter] = place
    for name, number in (macs or {}).items():
        found[Place.of(name, model)] += Count(macs=number)
    return [Part(place.group, place.name, found[place], tied.get(place)) for place in sorted(found)]


def total(found: list[Part], *groups: str, without: tuple[str, ...] = ()) -> Count:
    """Returns the sum over these groups, or over all parts, excluding the groups and parts in ``without``."""
    chosen = (part for part in found if not groups or part.group in groups)
    return sum((part.count for part in chosen if not {part.group, part.name} & {*without}), Count())


def mechanism_group(attention: type[Attention]) -> str:
    """Returns the name of a mechanism's parameters in tables, such as ``evolving-attention convolutions``."""
    return f"{attention.title.replace(' ', '-')} {attention.adds}"
