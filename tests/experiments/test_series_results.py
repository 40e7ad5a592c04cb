"""Time series in evaluations and tables: scores are fairseq's, ranks and differences those that the paper prints."""

import math
from dataclasses import replace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.logging import metrics

from ea_fairseq import EATimeSeries
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.reports.comparison import Comparison
from ea_fairseq.experiments.reports.series_columns import mean_ranks, mean_relative_differences
from ea_fairseq.experiments.reports.task_table import difference_table, task_table
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.data_bin import read_data
from ea_fairseq.experiments.scoring.encoder_outcome import SeriesPredictions
from ea_fairseq.experiments.scoring.evaluation import OUTCOMES, predictions
from ea_fairseq.experiments.scoring.task_scores import task_score
from ea_fairseq.experiments.tables import MINUS
from ea_fairseq.series.ts_file import read_ts
from fake_encoder_results import write_encoder_results
from time_series import write_folder
from untrained_encoders import save_series

SIZES = {"train": 20, "test": 9}
CEAN_ACCURACY = """
.224 .251 .27 .272 .272 .293 .307
.644 .661 .667 .669 .664 .672 .685
.156 .159 .25 .251 .282 .319 .329
.686 .675 .704 .698 .699 .715 .724
.827 .871 .954 .955 .979 .982 .985
.742 .798 .811 .803 .724 .825 .829
.836 .877 .887 .882 .885 .893 .896
.459 .511 .481 .454 .491 .493 .526
.98 .985 .979 .984 .984 .987 .991
.435 .774 .843 .846 .852 .861 .873
.575 .574 .610 .619 .639 .630 .622
"""
CEAN_RMSE = """
3.844 4.151 3.369 3.711 3.663 3.035 2.957
7.936 6.919 2.889 2.758 1.576 1.127 0.758
101.863 101.452 95.22 96.927 98.035 91.993 91.774
64.715 65.667 64.54 64.813 64.874 59.425 59.118
43.316 44.19 44.723 43.457 44.874 43.326 43.261
34.814 26.961 46.593 39.633 33.848 30.075 23.14
"""


def rows(text: str) -> list[list[float]]:
    return [[float(number) for number in line.split()] for line in text.split("\n") if line]


def test_ranks_and_differences_of_the_papers_scores_are_those_that_it_prints():
    accuracies, errors = rows(CEAN_ACCURACY), rows(CEAN_RMSE)
    found = mean_ranks(accuracies, [False] * len(accuracies))
    assert found == pytest.approx([6.5, 5.5, 4.5, 4.4, 3.8, 2.1, 1.2], abs=0.051)  # it prints 4.5, too
    assert mean_ranks(errors, [True] * len(errors)) == pytest.approx([5.2, 5.5, 4.5, 4.7, 4.8, 2.3, 1.0], abs=0.051)
    printed = [0.251, 0.182, 0.035, 0.009, -0.072, -0.173, -0.231]
    assert mean_relative_differences(errors) == pytest.approx(printed, abs=6e-4)


@pytest.mark.parametrize("labels", [("low", "high"), None], ids=["classes", "numbers"])
def test_predictions_are_what_the_criterion_scores_and_what_python_predicts(tmp_path, labels):
    data = write_folder(tmp_path / "toys", SIZES, labels)
    flags = ["--subsample", "2", *([] if labels else ["--regression-target"])]
    trainer = save_series(data, tmp_path / "checkpoint.pt", *flags)
    outcome = OUTCOMES[Checkpoint.read(tmp_path / "checkpoint.pt").task]
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "checkpoint.pt")])
    found = predictions(outcome, model, task, "test", 1000, torch.device("cpu"))
    assert found == predictions(outcome, model, task, "test", 20, torch.device("cpu")) or labels is None
    trainer.task.load_dataset("test")
    batches = trainer.task.get_batch_iterator(trainer.task.dataset("test"), max_tokens=1000)
    with torch.no_grad():
        logs = [trainer.criterion(trainer.model.eval(), batch)[2] for batch in batches.next_epoch_itr(shuffle=False)]
    with metrics.aggregate(new_root=True) as logged:
        trainer.task.reduce_metrics(logs, trainer.criterion)
    result = SeriesPredictions(Checkpoint.read(tmp_path / "checkpoint.pt"), tuple(zip(*found, strict=True)))
    again = EATimeSeries.from_pretrained(tmp_path, "checkpoint.pt").predict(read_ts(data / "test.ts.gz").series)
    if labels:
        assert result.scores()["accuracy"].score == round(100 * sum(int(log["ncorrect"]) for log in logs) / 9, 2)
        assert [one.label for one in again] == [label for _, label in found]
        assert all(one.label == max(one.probabilities, key=one.probabilities.get) for one in again)
    else:
        error = math.sqrt(sum((target - number) ** 2 for target, number in found) / 9)
        assert result.scores()["RMSE"].score == pytest.approx(error, abs=1e-4)
        assert logged.get_smoothed_value("rmse") == pytest.approx(error, rel=1e-4)
        assert again == pytest.approx([number for _, number in found], rel=1e-4)
    described = result.describe(model)
    assert described.cost.parameters == sum(map(torch.Tensor.numel, model.parameters()))
    assert described.family == "ea_transformer" and described.settings["ea_alpha"] == 0.5


def test_data_is_told_by_its_files(tmp_path):
    data = read_data(write_folder(tmp_path / "toys", SIZES))
    assert (data.task, data.name) == ("time_series_prediction", "toys")
    assert data.dataset("valid").checksum != data.dataset("test").checksum
    with pytest.raises(UserError, match="--subset: time series have train, valid, test, not dev"):
        data.dataset("dev")
    (data.folder / "test.ts.gz").unlink()
    with pytest.raises(UserError, match=r"has no test\.ts"):
        data.dataset("test")


def write(folder, model: str, dataset: str, wrong: float, parameters: int, numbers: bool = False):
    """Results of two seeds; returns the means of their scores."""
    means = []
    for seed in (1, 2):
        options = {"wrong": wrong, "family": "ea_transformer" if model.startswith("ea_") else None}
        if numbers:
            options["labels"] = [str(number) for number in range(9)]
            options["predictions"] = [str(number + wrong * seed) for number in range(9)]
        names = ("RMSE",) if numbers else ("accuracy",)
        found = write_encoder_results(folder / model / dataset / str(seed), model, seed, dataset, names, **options)
        means.append(replace(found, task="time_series_prediction", arch=model, parameters=parameters))
        means[-1].write()
    return means


def test_the_table_has_means_and_ranks_of_models_whose_size_depends_on_the_data(tmp_path):
    results = []
    for number, dataset in enumerate(("handwriting", "japanese-vowels")):
        for wrong, model in ((0.5, "gru_series"), (0.3, "dc_transformer_series"), (0.1, "ea_dc_transformer_series")):
            results += write(tmp_path, model, dataset, wrong, 300_000 + 200_000 * number)
    table = task_table(Comparison.of(results, None))
    found = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    ours = [name for name in found if name.endswith("_series")]
    assert [found[name]["mean rank"] for name in ours] == ["2.00", "3.00", "1.00"] and len(ours) == 3
    assert found["gru_series"]["parameters"] == "0.30M to 0.50M"
    assert found["EA-DC-Transformer (printed)"]["mean rank"] == "1.00"
    assert found["GRU (printed)"]["mean rank"] == "3.00"
    assert found["DC-Transformer (printed)"]["japanese-vowels: accuracy"] == "98.2"
    assert len([name for name in found if name.endswith("(printed)")]) == 3  # those of the models that are there
    differences = difference_table(Comparison.of(results, None))
    compared = {(row[0], row[1]): row[6] for row in differences.rows}
    assert compared["ea_dc_transformer_series", "handwriting"].startswith("+")


def test_a_row_of_the_ablation_stands_beside_the_papers(tmp_path):
    models = ("with 5x5", "ea_dc_transformer_series")
    results = [each for model in models for each in write(tmp_path, model, "handwriting", 0.1, 1)]
    shown = {row[0]: row[3] for row in task_table(Comparison.of(results, None)).rows if row[0].endswith("(printed)")}
    assert shown == {"EA-DC-Transformer (printed)": "32.9", "with 5x5 (printed)": "34.2"}


def test_errors_are_compared_by_their_relative_differences(tmp_path):
    results = write(tmp_path, "gru_series", "covid3month", 0.02, 1, numbers=True)
    results += write(tmp_path, "ea_dc_transformer_series", "covid3month", 0.01, 1, numbers=True)
    table = task_table(Comparison.of(results, None))
    cells = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [row["covid3month: RMSE"] for row in cells] == ["0.0300 ± 0.0141", "0.0150 ± 0.0071"]
    assert [row["mean relative difference"] for row in cells] == ["0.33", f"{MINUS}0.33"]
    assert "mean" not in table.header and "mean rank" not in table.header
    assert difference_table(Comparison.of(results, None)).rows[1][6].startswith(f"{MINUS}0.0150")


def test_root_mean_squared_errors_keep_four_digits():
    assert task_score("RMSE", ["0.01", "0.02"], ["0.0123", "0.02"]).score == 0.0016
