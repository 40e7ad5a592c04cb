"""What a model costs as tables: by part, in total, and the memory of its attention maps."""

from ea_fairseq.analysis.cost import EMBEDDINGS, LM_HEAD, OUTPUT
from ea_fairseq.count import Count
from experiments.costs.profiled_encoder import ProfiledEncoder
from experiments.costs.profiled_model import ProfiledModel
from experiments.text_table import table

WORDS = [2**power for power in range(4, 11)]
TOTALS = {
    "all": (),
    "without embeddings": (EMBEDDINGS,),
    "without output projection": (OUTPUT,),
    "without embeddings and output projection": (EMBEDDINGS, OUTPUT),
}
ENCODER_TOTALS = {"all": (), "without embeddings": (EMBEDDINGS,), "without language model's head": (LM_HEAD,)}
MEMORY = (
    "Memory of the attention maps of {read}: one map for each head of an attention, and what autograd keeps of maps "
    "for the backward pass, without dropout of probabilities. fairseq's own keeps {plain}."
)
OF_PAIR = {
    "read": "one sentence pair, by words on both sides",
    "plain": "the probabilities of the encoder-decoder attention alone, as torch's fused self-attention keeps none",
}
OF_SENTENCE = {"read": "one sentence, by words", "plain": "none, as torch's fused self-attention does"}
MEMORY_OURS = (
    " In plain PyTorch, {title} keeps all probabilities{besides}. Native code, in fp32, keeps the logits instead of all"
    " that."
)
MEMORY_HALF = " In half precision the softmax is of fp32, and probabilities are kept in both precisions."


def short(number: float) -> str:
    """A number of parameters or FLOPs as the papers print it: 158.20M."""
    return f"{number / 1e9:.2f}G" if number >= 1e9 else f"{number / 1e6:.2f}M"


def size(number: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("KiB", "MiB"):
        number /= 1024
        if number < 1024:
            return f"{number:,.1f} {unit}"
    return f"{number / 1024:,.1f} GiB"


def by_part(model: ProfiledModel) -> str:
    """Groups and, under each, its parts."""
    whole = model.total()

    def row(name: str, count: Count, tied: str | None = None) -> list[str]:
        shares = [f"{share:.1%}" for share in (count.parameters / whole.parameters, count.macs / whole.macs)]
        name += f" (tied with {tied})" if tied else ""
        return [name, f"{count.parameters:,}", shares[0], f"{count.macs:,}", f"{2 * count.macs:,}", shares[1]]

    rows = [["", "parameters", "share", "MACs", "FLOPs", "share"]]
    for group in dict.fromkeys(part.group for part in model.parts):
        inside = [part for part in model.parts if part.group == group]
        if len(inside) == 1:
            rows.append(row(group, inside[0].count, inside[0].tied))
        else:
            rows.append(row(group, model.total(group)))
            rows += [row(f"  {part.name}", part.count, part.tied) for part in inside]
    return table([*rows, row("total", whole)])


def totals(model: ProfiledModel) -> str:
    """Parameters, MACs and FLOPs in all, with and without embeddings and output projection."""
    rows = [["total", "parameters", "MACs", "FLOPs"]]
    for name, without in (ENCODER_TOTALS if isinstance(model, ProfiledEncoder) else TOTALS).items():
        count = model.total(without=without)
        rows.append([name, f"{count.parameters:,}", f"{count.macs:,}", f"{2 * count.macs:,}"])
    return table(rows)


def published(model: ProfiledEncoder) -> str:
    """Parameters and FLOPs of an encoder as papers count them."""
    rows = [["as published", "parameters", "FLOPs"]]
    rows += [[what, f"{parameters:,}", short(model.flops)] for what, parameters in model.published.items()]
    return table(rows)


def layout(model: ProfiledEncoder) -> str:
    """What published models of encoders have beyond fairseq's layout, and lack, in words."""
    text = "FLOPs are without language model's head and layer to classes."
    for what, parameters in model.layout.items():
        text += f" {what} ({abs(parameters):,} parameters), which these {'count' if parameters > 0 else 'leave out'}."
    return text + (f" They leave out the layer to classes ({model.classes:,}), too." if model.has_lm_head else "")


def checks(model: ProfiledModel) -> str:
    """What the formula says beside what was counted on the built model."""
    rows = [["check", "by formula", "counted", "match"]]
    for name, (formula, counted) in model.checks.items():
        rows.append([name, f"{formula:,}", f"{counted:,}", "yes" if formula == counted else "NO"])
    return table(rows)


def memory_note(model: ProfiledModel) -> str:
    """What the tables of memory count, in words."""
    note = ""
    if any(attention.ours for attention in model.attentions.values()):
        note = MEMORY_OURS.format(title=model.attention.title, besides=model.attention.keeps)
    return MEMORY.format_map(OF_PAIR if "cross" in model.attentions else OF_SENTENCE) + note + MEMORY_HALF


def memory(model: ProfiledModel) -> list[str]:
    """Tables for single and half precision, of the lengths that the model reads."""
    lengths = [words for words in WORDS if words <= model.longest]
    return [memory_table(model, lengths, half) for half in (False, True)] if lengths else []


def memory_table(model: ProfiledModel, lengths: list[int], half: bool) -> str:
    """Bytes of the attention maps of one sentence or pair, by length in tokens."""
    precision, has_decoder = "fp16, bf16" if half else "fp32", "decoder" in model.attentions
    header = [precision, "encoder layer", *["decoder layer"] * has_decoder, "all layers", "kept", "kept, plain"]
    rows = [header]
    for words in lengths:
        kinds = {kind: attention.of_length(words) for kind, attention in model.attentions.items()}
        maps = {kind: attention.entries * (2 if half else 4) for kind, attention in kinds.items()}
        sizes = [
            maps["encoder"],
            *([maps["decoder"] + maps["cross"]] if has_decoder else []),
            sum(maps[kind] * attention.layers for kind, attention in kinds.items()),
            sum(attention.kept_for_backward(half) for attention in kinds.values()),
            sum(attention.plain.kept_for_backward(half) for attention in kinds.values()),
        ]
        rows.append([f"{words} words", *map(size, sizes)])
    return table(rows)
