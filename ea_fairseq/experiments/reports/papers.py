"""What the papers print about models, to be shown next to our results.

printed_translation.tsv has the translation models of Evolving Attention with Residual Convolutions (Wang et al., ICML
2021, table 5) and their ablation (table 6, whose baseline has 33.21 BLEU on IWSLT'14, where table 5 has 33.32);
printed.tsv has the rows of the papers' tables of encoders and of time series.
"""

from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.experiments.runs.recipe import ablation, model_flags
from ea_fairseq.plain.files import read_tsv

CONVENTION = (
    "Parameters: without embeddings and output projection. FLOPs: twice the multiply-accumulates that torchprofile "
    "counts on one pair of {length} source and {length} target tokens, without the output projection."
)
DATASETS = ("iwslt14-deen", "wmt14-ende", "wmt14-enfr")


@dataclass(frozen=True)
class PaperModel:
    """A row of a table.

    Args:
        parameters, flops: as printed, empty if the table has none; FLOPs are for a pair of WMT'14 En-De.
        bleu: by data set, in points; the paper does not say how it is counted.
    """

    parameters: str
    flops: str
    bleu: dict[str, float]


PAPER = {
    row["model"]: PaperModel(row["parameters"], row["flops"], {data: float(row[data]) for data in DATASETS})
    for row in read_tsv(Path(__file__).with_name("printed_translation.tsv"))
}


def paper_flags() -> dict[str, list[str]]:
    """Returns the flags of fairseq-train that make each of the models, by its name."""
    rows = ablation()
    return {
        model: [*model_flags("ea_transformer_lite"), *rows[model]] if model in rows else model_flags(model)
        for model in PAPER
    }


@dataclass(frozen=True)
class PrintedRow:
    """A row of a paper's table of encoders or of time series.

    Args:
        model: its name in the paper, and what it was scored on.
        family: as in results.json; None for a baseline.
        beside: the model of ours that it is shown with; if empty, it is shown with all models of its family.
        parameters: as printed, or empty.
        source: the paper and its table.
        scores: as printed, by data set.
    """

    model: str
    family: str | None
    beside: str
    parameters: str
    source: str
    scores: dict[str, str]


def printed_rows() -> list[PrintedRow]:
    """The rows of printed.tsv, whose scores are separated by commas, each after the name of its data set."""
    return [
        PrintedRow(
            model=row["model"],
            family=row["family"] or None,
            beside=row["beside"],
            parameters=row["parameters"],
            source=row["source"],
            scores=dict(score.split(" ", 1) for score in row["scores"].split(", ")),
        )
        for row in read_tsv(Path(__file__).with_name("printed.tsv"))
    ]


PRINTED = printed_rows()
