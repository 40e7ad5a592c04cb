"""The figures that the papers print of encoders and of time series, to stand beside ours."""

from dataclasses import dataclass

EA = "Wang et al. 2021, table 3"
PA = "Predictive Attention Transformer (submitted to ICLR 2021)"
GLUE = tuple(f"glue-{task}" for task in ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli"))
CEAN = "Wang et al., Convolution-enhanced Evolving Attention Networks"
SERIES = ("japanese-vowels", "handwriting", "uwave-gesture-library", "self-regulation-scp1")
TABLE_2 = {  # accuracies, in the order of the data sets; by the names of models there and here
    ("LSTM", "lstm_series"): "82.7 15.6 43.5 83.6",
    ("GRU", "gru_series"): "87.1 15.9 77.4 87.7",
    ("ResNet", "resnet_series"): "95.4 25.0 84.3 88.7",
    ("Dilated convolution", "dilated_cnn_series"): "95.5 25.1 84.6 88.2",
    ("Transformer", "transformer_series"): "97.9 28.2 85.2 88.5",
    ("DC-Transformer", "dc_transformer_series"): "98.2 31.9 86.1 89.3",
    ("EA-DC-Transformer", "ea_dc_transformer_series"): "98.5 32.9 87.3 89.6",
}
TABLE_4 = {  # the ablation, of two of them
    "w/o encoder convolution": "32.3 87.2",
    "w/o skip connection": "32.4 86.9",
    "with 1x1": "30.3 86.6",
    "with 5x5": "34.2 85.9",
}


@dataclass(frozen=True)
class PrintedRow:
    """A row of a paper's table.

    Args:
        model: its name there, and what it was scored on.
        family: as results.json names it; None for a baseline.
        parameters: as printed, or empty.
        scores: as printed, by data set.
        beside: the model of ours that it is shown with; empty where it is shown with all of its family.
    """

    model: str
    family: str | None
    parameters: str
    scores: dict[str, str]
    source: str
    beside: str = ""


def glue_row(model: str, family: str | None, parameters: str, scores: str, source: str) -> PrintedRow:
    """A row of a table of GLUE, its scores in the order of GLUE's data sets."""
    cells = (cell.replace("/", " / ") for cell in scores.split())
    return PrintedRow(model, family, parameters, dict(zip(GLUE, cells, strict=False)), source)


def sst_row(model: str, family: str | None, parameters: str, score: str) -> PrintedRow:
    """A row of the table of classifiers."""
    return PrintedRow(f"{model} (printed)", family, parameters, {"sst5": score}, f"{PA}, table 1")


def series_row(name: str, model: str, scores: dict[str, str], table: str) -> PrintedRow:
    """A row that is shown beside a model of ours."""
    return PrintedRow(f"{name} (printed)", None, "", scores, f"{CEAN}, table {table}", beside=model)


PRINTED = [
    glue_row(
        "BERT-Base (printed, dev)",
        None,
        "109.5M",
        "56.3 92.7 89.9/85.6 89.5/89.7 91.3/88.3 84.5/84.5 91.3 69.3",
        EA,
    ),
    glue_row(
        "EA-BERT-Base (printed, dev)",
        "ea_transformer",
        "110.4M",
        "61.6 93.6 90.9/87.0 90.0/90.2 91.5/88.5 84.9/85.0 92.0 70.8",
        EA,
    ),
    glue_row(
        "RealFormer, BERT-Large (printed, dev)",
        "realformer",
        "335.0M",
        "59.8 94.0 90.9/87.0 90.1/89.9 91.3/88.3 86.3/86.3 91.9 73.7",
        EA,
    ),
    glue_row(
        "BERT-Base (printed, test)",
        None,
        "",
        "51.7 93.5 87.2/82.1 86.7/85.4 91.1/89.0 84.3/83.7 90.4 67.2 65.1",
        f"{PA}, table 2",
    ),
    glue_row(
        "PA-BERT-Base (printed, test)",
        "pa_transformer",
        "",
        "59.8 93.7 88.9/90.8 89.3/89.2 91.4/88.3 84.8/85.2 92.0 68.6 65.1",
        f"{PA}, table 2",
    ),
    sst_row("CNN", "cnn", "2.77M", "43.56 ± 0.43"),
    sst_row("Transformer", None, "2.79M", "47.64 ± 0.70"),
    sst_row("PA-Transformer", "pa_transformer", "2.79M", "48.60 ± 0.41"),
    sst_row("Conv-Transformer", "conv_transformer", "2.58M", "49.74 ± 0.55"),
    sst_row("PA-Conv-Transformer", "pa_conv_transformer", "2.58M", "50.66 ± 0.64"),
    *(
        series_row(name, model, dict(zip(SERIES, scores.split(), strict=True)), "II")
        for (name, model), scores in TABLE_2.items()
    ),
    *(
        series_row(model, model, dict(zip(SERIES[1:3], scores.split(), strict=True)), "IV")
        for model, scores in TABLE_4.items()
    ),
]
