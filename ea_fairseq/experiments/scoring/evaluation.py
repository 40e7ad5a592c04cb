"""Evaluation of a trained model: from its output on a subset to scores and results.json."""

import shlex
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import FairseqTask

from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.environment import commit, gpus, processor, versions
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.data_bin import TextToTextData, read_data
from ea_fairseq.experiments.runs.recipe import Recipe
from ea_fairseq.experiments.runs.training_log import curves
from ea_fairseq.experiments.runs.training_run import TrainingRun
from ea_fairseq.experiments.scoring.encoder_outcome import (
    EncoderOutcome,
    ImagePredictions,
    MaskedWords,
    NodePredictions,
    Row,
    SentencePredictions,
    SeriesPredictions,
)
from ea_fairseq.experiments.scoring.label_words import LabelWords
from ea_fairseq.experiments.scoring.outcome import Outcome
from ea_fairseq.experiments.scoring.results import NAME, Results, write_predictions
from ea_fairseq.experiments.scoring.task_scores import digits_of
from ea_fairseq.experiments.scoring.translation import Translations
from ea_fairseq.hub.files import ModelFiles
from ea_fairseq.plain.project import PROJECT, portable
from ea_fairseq.plain.records import Command, is_command
from ea_fairseq.plain.text_lines import writing

ENCODERS: dict[str, type[EncoderOutcome]] = {
    "sentence_prediction": SentencePredictions,
    "masked_lm": MaskedWords,
    "time_series_prediction": SeriesPredictions,
    "node_prediction": NodePredictions,
    "image_prediction": ImagePredictions,
}
OUTCOMES: dict[str, type[Outcome]] = {"translation": Translations, TextToTextData.task: LabelWords, **ENCODERS}


def evaluate(args: Namespace) -> tuple[Results, Outcome]:
    """Returns the results of a model whose translations or predictions are written, and its outcome.

    Args:
        args: the options of evaluate.py, defaults filled in.
    """
    data = read_data(args.data)
    checkpoint = Checkpoint.read(args.out / "model.pt")
    outcome = OUTCOMES[data.task].read(args, checkpoint)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint.path)], {"data": str(data.folder)})
    options, described = model.args, outcome.describe(model)
    training = TrainingRun.read(args.folder)
    train_curve, valid_curve = curves(args.folder)
    results = Results(
        folder=args.out,
        model=args.model or (training.model if training else options.arch),
        arch=options.arch,
        settings=described.settings,
        recipe=training.recipe if training else None,
        seed=options.seed,
        updates=checkpoint.updates,
        epochs=checkpoint.epochs,
        seconds=checkpoint.seconds,
        parameters=described.cost.parameters,
        flops=described.cost.flops,
        dataset=data.dataset(args.subset),
        checkpoints=checkpoint.averaged,
        search=outcome.search(),
        scores=outcome.scores(),
        training_command=Command(portable(shlex.join(training.command), training.project)) if training else None,
        commands=[Command(portable(command)) for command in commands(args, training) if command],
        training_device=training.starts[-1].device if training else None,
        device=processor() if args.cpu else ", ".join(gpus()) or processor(),
        versions=versions(),
        commit=commit(),
        train_curve=train_curve,
        valid_curve=valid_curve,
        family=described.family,
        task=data.task,
    )
    return results, outcome


def commands(args: Namespace, training: TrainingRun | None) -> list[str | None]:
    """Returns the commands that prepared the data, trained and evaluated; None for those that are not known."""
    if training is None:
        return [args.command]
    recipe = Recipe.beside(args.folder)
    prepared = " ".join(recipe.flags("data")) if recipe else ""
    made = is_command(prepared) and PROJECT / prepared.split()[-1] / "data-bin"
    called = training.called and portable(training.called, training.project)
    return [prepared if made and made.resolve() == args.data.resolve() else None, called, args.command]


def table(results: Results, outcome: Outcome) -> str:
    """Returns the scores as text, with their definitions and what was scored."""
    dataset, search = results.dataset, results.search
    made_with = [" + ".join(results.checkpoints)]
    made_with += [f"beam {search['beam']}", f"length penalty {search['lenpen']:g}"] if search else []
    lines = [
        f"{results.model}, seed {results.seed}, {results.updates:,} updates, on {dataset.subset} of {dataset.name} "
        f"({outcome.size()})",
        ", ".join(made_with),
        "",
    ]
    width = max(map(len, results.scores))
    for name, score in results.scores.items():
        lines.append(f"{name:{width}}  {score.score:6.{digits_of(name)}f}  {outcome.definitions[name]}")
        lines += [f"{'':{width}}          {part}" for part in (score.detail, score.signature)]
    notes = outcome.notes()
    return "\n".join(map(printable, [*lines, *([""] if notes else []), *notes]))


def score(args: Namespace, output: Path) -> None:
    """Scores the model's output: writes texts and results.json into the folder, and a table to a file."""
    results, outcome = evaluate(args)
    (args.out / NAME).unlink(missing_ok=True)  # results.json is only there if all files next to it belong to it
    for name, lines in outcome.files().items():
        with writing(args.out / name) as write_line:
            for line in lines:
                write_line(line)
    results.write()
    output.write_text(table(results, outcome) + "\n", encoding="utf-8")


@torch.inference_mode()
def predictions(
    outcome: type[EncoderOutcome],
    model: RobertaModel,
    task: FairseqTask,
    subset: str,
    max_tokens: int,
    device: torch.device,
) -> list[Row]:
    """Returns the rows of predictions.tsv, in the order of the data.

    Raises:
        UserError: if an example is longer than the model or a batch allows.
    """
    task.load_dataset(subset)
    dataset = task.dataset(subset)
    require_short(max(map(dataset.num_tokens, range(len(dataset)))), model.max_positions(), max_tokens)
    batches = task.get_batch_iterator(dataset, max_tokens=max_tokens, required_batch_size_multiple=1)
    model.to(device).eval()
    rows: dict[int, Row] = {}
    for sample in batches.next_epoch_itr(shuffle=False):
        if device.type == "cuda":
            sample = utils.move_to_cuda(sample)
        rows |= zip(sample["id"].tolist(), outcome.predict(model, task, sample), strict=True)
    return [rows[number] for number in range(len(dataset))]


def require_short(longest: int, positions: int, max_tokens: int) -> None:
    """Raises UserError if the longest example does not fit."""
    if longest > positions:
        raise UserError(
            f"the data has an example of {longest} tokens, and the model takes {positions}: train it with "
            "--shorten-method truncate."
        )
    if longest > max_tokens:
        raise UserError(f"the data has an example of {longest} tokens: give --max-tokens of at least that.")


def predict(data: Path, checkpoint: Path, output: Path, subset: str, max_tokens: int, cpu: bool) -> None:
    """Predicts a subset, and writes predictions.tsv."""
    files = ModelFiles.read(checkpoint.parent, checkpoint.name, data.absolute())
    outcome = ENCODERS[files.task_name]
    device = torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
    with files.built(dict(outcome.overrides)) as ((model,), _, task):
        write_predictions(output, outcome.header, predictions(outcome, model, task, subset, max_tokens, device))
