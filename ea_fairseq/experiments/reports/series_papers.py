"""The figures that CEAN prints of time series, to stand beside ours."""

from ea_fairseq.experiments.reports.encoder_papers import PrintedRow

PAPER = "Wang et al., Convolution-enhanced Evolving Attention Networks"
DATASETS = ("japanese-vowels", "handwriting", "uwave-gesture-library", "self-regulation-scp1")
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


def series_row(name: str, model: str, scores: dict[str, str], table: str) -> PrintedRow:
    """A row that is shown beside a model of ours."""
    return PrintedRow(f"{name} (printed)", None, "", scores, f"{PAPER}, table {table}", beside=model)


PRINTED = [
    *(
        series_row(name, model, dict(zip(DATASETS, scores.split(), strict=True)), "II")
        for (name, model), scores in TABLE_2.items()
    ),
    *(
        series_row(model, model, dict(zip(DATASETS[1:3], scores.split(), strict=True)), "IV")
        for model, scores in TABLE_4.items()
    ),
]
