"""Predictions of a trained encoder for each example of a subset, by fairseq's task and its batches."""

from pathlib import Path

import torch
from fairseq import utils
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring.encoder_outcome import EncoderOutcome
from ea_fairseq.experiments.scoring.evaluation import OUTCOMES
from ea_fairseq.experiments.scoring.predictions import write_predictions
from ea_fairseq.hub.files import ModelFiles


@torch.inference_mode()
def predictions(
    outcome: type[EncoderOutcome],
    model: RobertaModel,
    task: FairseqTask,
    subset: str,
    max_tokens: int,
    device: torch.device,
) -> list[tuple[object, object]]:
    """The rows of predictions.tsv, in the order of the data.

    Raises:
        UserError: where an example is longer than the model or a batch allows.
    """
    task.load_dataset(subset)
    dataset = task.dataset(subset)
    require_short(max(map(dataset.num_tokens, range(len(dataset)))), model.max_positions(), max_tokens)
    batches = task.get_batch_iterator(dataset, max_tokens=max_tokens, required_batch_size_multiple=1)
    model.to(device).eval()
    rows: dict[int, tuple[object, object]] = {}
    for sample in batches.next_epoch_itr(shuffle=False):
        if device.type == "cuda":
            sample = utils.move_to_cuda(sample)
        rows |= zip(sample["id"].tolist(), outcome.predict(model, task, sample), strict=True)
    return [rows[number] for number in range(len(dataset))]


def require_short(longest: int, positions: int, max_tokens: int) -> None:
    """Raises UserError where the longest example does not fit."""
    if longest > positions:
        raise UserError(
            f"the data has an example of {longest} tokens, and the model takes {positions}: train it with "
            "--shorten-method truncate."
        )
    if longest > max_tokens:
        raise UserError(f"the data has an example of {longest} tokens: give --max-tokens of at least that.")


def predict(data: Path, checkpoint: Path, output: Path, subset: str, max_tokens: int, cpu: bool) -> None:
    """Writes predictions.tsv."""
    files = ModelFiles.read(checkpoint.parent, checkpoint.name, data.absolute())
    outcome = OUTCOMES[files.task_name]
    device = torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
    with files.built(dict(outcome.overrides)) as ((model,), _, task):
        write_predictions(output, outcome.header, predictions(outcome, model, task, subset, max_tokens, device))
