"""What the papers print about models, to be shown next to our results.

Translation models are those of Evolving Attention with Residual Convolutions (Wang et al., ICML 2021); printed.tsv has
the rows of the papers' tables of encoders and of time series.
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
TABLE_5 = "Wang et al. 2021, table 5"
TABLE_6 = "Wang et al. 2021, table 6"  # ablation; its baseline has 33.21 BLEU on IWSLT'14, where table 5 has 33.32


@dataclass(frozen=True)
class PaperModel:
    """A row of a table.

    Args:
        parameters, flops: as printed, empty if the table has none; FLOPs are for a pair of WMT'14 En-De.
        bleu: by data set, in points; the paper does not say how it is counted.
        source: the table.
    """

    parameters: str
    flops: str
    bleu: dict[str, float]
    source: str


def table_5(parameters: str, flops: str, *bleu: float) -> PaperModel:
    """A row of table 5, BLEU in the order of DATASETS."""
    return PaperModel(parameters, flops, dict(zip(DATASETS, bleu, strict=True)), TABLE_5)


def table_6(*bleu: float) -> PaperModel:
    """A row of table 6, the ablation, BLEU in the order of DATASETS."""
    return PaperModel("", "", dict(zip(DATASETS, bleu, strict=True)), TABLE_6)


PAPER = {
    "transformer_lite": table_5("2.48M", "158.31M", 33.32, 21.11, 33.22),
    "ea_transformer_lite": table_5("2.49M", "163.46M", 33.80, 21.63, 34.12),
    "transformer_base": table_5("44.14M", "2.68G", 34.55, 27.47, 40.79),
    "ea_transformer_base": table_5("44.15M", "2.70G", 35.30, 27.56, 41.54),
    "w/o encoder convolution": table_6(32.84, 21.07, 33.51),
    "w/o decoder convolution": table_6(33.56, 21.45, 33.72),
    "w/o encoder-decoder convolution": table_6(33.59, 21.41, 33.73),
    "w/o skip connection": table_6(33.70, 21.43, 34.06),
    "with 1x1": table_6(33.15, 21.20, 33.52),
    "with 5x5": table_6(33.54, 21.40, 34.08),
}


def paper_flags() -> dict[str, list[str]]:
    """Returns the flags of fairseq-train that make each of the models, by its name."""
    found = {model: model_flags(model) for model, row in PAPER.items() if row.source == TABLE_5}
    return found | {label: [*model_flags("ea_transformer_lite"), *flags] for label, flags in ablation().items()}


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
