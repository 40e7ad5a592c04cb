"""The figures that CEAN prints of time series, to stand beside ours."""

from experiments.reports.encoder_papers import PrintedRow

SOURCE = "Wang et al., Convolution-enhanced Evolving Attention Networks, tables 2 and 3"
DATASETS = ("japanese-vowels", "handwriting", "uwave-gesture-library", "self-regulation-scp1")
ACCURACIES = {  # in the order of the data sets, and the family as results.json names it
    "LSTM": (None, "82.7 15.6 43.5 83.6"),
    "GRU": (None, "87.1 15.9 77.4 87.7"),
    "ResNet": (None, "95.4 25.0 84.3 88.7"),
    "Dilated convolution": (None, "95.5 25.1 84.6 88.2"),
    "Transformer": (None, "97.9 28.2 85.2 88.5"),
    "DC-Transformer": (None, "98.2 31.9 86.1 89.3"),
    "EA-DC-Transformer": ("ea_transformer", "98.5 32.9 87.3 89.6"),
}
PRINTED = [
    PrintedRow(f"{model} (printed)", family, "", dict(zip(DATASETS, scores.split(), strict=True)), SOURCE)
    for model, (family, scores) in ACCURACIES.items()
]
