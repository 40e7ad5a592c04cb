"""What a model costs as tables: by part, in total, and the memory of its backward pass."""

from ea_fairseq.analysis.parts import EMBEDDINGS, LM_HEAD, OUTPUT, Count, total
from ea_fairseq.experiments.costs.profiled_model import ProfiledEncoder, ProfiledModel
from ea_fairseq.experiments.tables import short, text_table

TOTALS = {
    "all": (),
    "without embeddings": (EMBEDDINGS,),
    "without output projection": (OUTPUT,),
    "without embeddings and output projection": (EMBEDDINGS, OUTPUT),
}
ENCODER_TOTALS = {"all": (), "without embeddings": (EMBEDDINGS,), "without language model's head": (LM_HEAD,)}


def size(number: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("KiB", "MiB"):
        number /= 1024
        if number < 1024:
            return f"{number:,.1f} {unit}"
    return f"{number / 1024:,.1f} GiB"


def by_part(model: ProfiledModel) -> str:
    """Groups and, under each, its parts."""
    whole = total(model.parts)

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
            rows.append(row(group, total(model.parts, group)))
            rows += [row(f"  {part.name}", part.count, part.tied) for part in inside]
    return text_table([*rows, row("total", whole)])


def totals(model: ProfiledModel) -> str:
    """Parameters, MACs and FLOPs in all, with and without embeddings and output projection."""
    rows = [["total", "parameters", "MACs", "FLOPs"]]
    for name, without in (ENCODER_TOTALS if isinstance(model, ProfiledEncoder) else TOTALS).items():
        count = total(model.parts, without=without)
        rows.append([name, f"{count.parameters:,}", f"{count.macs:,}", f"{2 * count.macs:,}"])
    return text_table(rows)


def published(model: ProfiledEncoder) -> str:
    """Parameters and FLOPs of an encoder as papers count them."""
    rows = [["as published", "parameters", "FLOPs"]]
    rows += [[what, f"{parameters:,}", short(model.flops)] for what, parameters in model.published.items()]
    return text_table(rows)


def layout(model: ProfiledEncoder) -> str:
    """What published models of encoders have beyond fairseq's layout, and lack, in words."""
    text = "FLOPs are without language model's head and layer to classes."
    for what, parameters in model.layout.items():
        text += f" {what} ({abs(parameters):,} parameters), which these {'count' if parameters > 0 else 'leave out'}."
    return text + (f" They leave out the layer to classes ({model.classes:,}), too." if model.has_lm_head else "")


def memory(model: ProfiledModel) -> str:
    """What autograd keeps for the backward pass, by precision."""
    return text_table([["kept for backward", *model.kept], ["", *map(size, model.kept.values())]])
