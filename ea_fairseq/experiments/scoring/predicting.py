"""Predictions of a trained encoder for each example of a subset, by fairseq's task and its batches."""

import logging
import warnings
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.scoring.encoder_outcome import EncoderOutcome
from ea_fairseq.experiments.scoring.evaluation import OUTCOMES
from ea_fairseq.experiments.scoring.predictions import write_predictions
from ea_fairseq.plain.commands import Parser, at_least, run


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


def main() -> None:
    """Writes predictions.tsv."""
    parser = Parser("predicting.py", "Predicts for scripts/evaluate.sh.", "see scripts/evaluate.sh")
    for name in ("data", "model", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--subset", required=True)
    parser.add_argument("--max-tokens", type=at_least(1), required=True)
    parser.add_argument("--cpu", action="store_true")
    parser.add_user_dir()
    args = parser.parse_args()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    outcome = OUTCOMES[Checkpoint.read(args.model).task]
    options = {"data": str(args.data), **outcome.overrides}
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(args.model)], options)
    device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
    rows = predictions(outcome, model, task, args.subset, args.max_tokens, device)
    write_predictions(args.output, outcome.header, rows)


if __name__ == "__main__":
    run(main)
