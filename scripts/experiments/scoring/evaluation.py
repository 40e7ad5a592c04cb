"""The evaluation of a trained model: from the output of fairseq-generate to texts, scores and results.json."""

import logging
import re
import shlex
import warnings
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.models.transformer import TransformerModel
from manifest import count_tokens
from step import StepError, run
from text_lines import printable, read_lines, tidy, writing

from ea_fairseq.analysis.cost import cost
from ea_fairseq.models.transformer import MechanismTransformer
from experiments import REPOSITORY
from experiments.arguments import Parser
from experiments.environment import commit, gpus, processor, versions
from experiments.runs.checkpoint import Checkpoint
from experiments.runs.data_bin import DataBin
from experiments.runs.recipe import RECIPE, data_command
from experiments.runs.training_log import curves
from experiments.runs.training_run import TrainingRun
from experiments.scoring.results import COUNTS, NAME, REFERENCE, TOKENIZED, TRANSLATION, Results
from experiments.scoring.scores import DEFINITIONS, Lines, all_scores, hidden, multi_bleu, sentence_counts

SIZES = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
SETTINGS = [*(f"{side}_{size}" for side in ("encoder", "decoder") for size in SIZES), "dropout"]


@dataclass(frozen=True)
class Texts:
    """Translations and references, each line by line: of tokens with subwords joined, and raw."""

    tokens: tuple[Lines, Lines]
    raw: tuple[Lines, Lines]

    @classmethod
    def read(cls, generated: Path, data: DataBin, subset: str, reference: Path | None) -> "Texts":
        """Reads what fairseq-generate wrote; the raw references are those of a file, or the data's own, detokenized.

        Raises:
            StepError: where there is not one line for each sentence of the subset.
        """
        sentences, _ = count_tokens(data.folder, data.languages, subset)
        text = generated.read_text(encoding="utf-8")
        tokens = best_lines(text, "H", sentences), best_lines(text, "T", sentences)
        detokenize = detokenizer(data)
        translations, references = ([detokenize(line) for line in side] for side in tokens)
        if reference:
            references = list(read_lines(reference))
            if len(references) != sentences:
                raise StepError(
                    f"--reference: {reference} has {len(references)} lines, and {subset} of {data.folder} has "
                    f"{sentences} sentences: give the file that the data was made of."
                )
        return cls(tokens, (translations, references))

    def write(self, folder: Path) -> None:
        """Writes the four texts, and what tokenized BLEU counts of them, into a folder."""
        counts = sentence_counts(multi_bleu(), *map(hidden, self.tokens))
        texts = *self.tokens, *self.raw, ["\t".join(map(str, sentence)) for sentence in counts]
        for name, lines in zip((*TOKENIZED, TRANSLATION, REFERENCE, COUNTS), texts, strict=True):
            with writing(folder / name) as write_line:
                for line in lines:
                    write_line(line)


def best_lines(generated: str, kind: str, sentences: int) -> Lines:
    """The first line of a kind for each sentence in the output of fairseq-generate, in the order of the data."""
    lines: dict[int, str] = {}
    for number, text in re.findall(rf"^{kind}-(\d+)\t(?:[^\t\n]*\t)??([^\t\n]*)$", generated, re.MULTILINE):
        lines.setdefault(int(number), text)
    if sorted(lines) != list(range(sentences)):
        raise StepError(f"fairseq-generate wrote {len(lines)} of {sentences} lines {kind}-...: evaluate again.")
    return [lines[number] for number in range(sentences)]


def detokenizer(data: DataBin) -> Callable[[str], str]:
    """A function from tokens of the target language to raw text."""
    if data.tokenizer != "moses":
        return tidy
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=data.target_lang)
    return lambda line: tidy(moses.detokenize(line.split()))


def evaluate(args: Namespace) -> tuple[Results, Texts]:
    """What there is to say of a model whose translations are there."""
    data = DataBin.read(args.data)
    texts = Texts.read(args.out / "generated" / f"generate-{args.subset}.txt", data, args.subset, args.reference)
    checkpoint = Checkpoint.read(args.out / "model.pt")
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint.path)], {"data": str(data.folder)})
    options, costs = model.args, cost(model)
    training = TrainingRun.read(args.folder)
    train_curve, valid_curve = curves(args.folder)
    results = Results(
        folder=args.out,
        model=args.model or (training.model if training else options.arch),
        arch=options.arch,
        settings=settings(model),
        recipe=training.recipe if training else None,
        seed=options.seed,
        updates=checkpoint.updates,
        epochs=checkpoint.epochs,
        seconds=checkpoint.seconds,
        parameters=costs.parameters,
        flops=costs.flops,
        dataset=data.dataset(args.subset),
        checkpoints=checkpoint.averaged,
        search={"beam": args.beam, "lenpen": args.lenpen},
        scores=all_scores(texts.tokens, texts.raw, args.compound_split),
        training_command=portable(shlex.join(training.command)) if training else None,
        commands=[portable(command) for command in commands(args, training) if command],
        training_device=training.starts[-1].device if training else None,
        device=processor() if args.cpu else ", ".join(gpus()) or processor(),
        versions=versions(),
        commit=commit(),
        train_curve=train_curve,
        valid_curve=valid_curve,
        family=model.family.name if isinstance(model, MechanismTransformer) else None,
    )
    return results, texts


def commands(args: Namespace, training: TrainingRun | None) -> list[str | None]:
    """What prepared the data, trained and evaluated; None for what is not known."""
    if training is None:
        return [args.command]
    prepared = data_command(args.folder / RECIPE)
    made = prepared and REPOSITORY / prepared.split()[-1] / "data-bin"
    return [prepared if made == args.data else None, training.called, args.command]


def portable(command: str) -> str:
    """A command to type in this project's folder, its paths there relative."""
    return shlex.join(word.removeprefix(f"{REPOSITORY}/") for word in shlex.split(command))


def settings(model: TransformerModel) -> dict[str, object]:
    """The options that tell Transformers apart: sizes, dropout and those of its mechanism, if it has one."""
    found = {name: getattr(model.args, name) for name in SETTINGS}
    if isinstance(model, MechanismTransformer):
        found |= asdict(model.family.attention.options.from_namespace(model.args))
    return found


def table(results: Results, sentences: int, notes: list[str]) -> str:
    """The scores with their definitions, and what they are of."""
    dataset, search = results.dataset, results.search
    lines = [
        f"{results.model}, seed {results.seed}, {results.updates:,} updates, on {dataset.subset} of {dataset.name} "
        f"({sentences:,} sentences)",
        f"{' + '.join(results.checkpoints)}, beam {search['beam']}, length penalty {search['lenpen']:g}",
        "",
    ]
    width = max(map(len, results.scores))
    for name, score in results.scores.items():
        lines.append(f"{name:{width}}  {score.score:6.2f}  {DEFINITIONS[name]}")
        lines += [f"{'':{width}}          {part}" for part in (score.detail, score.signature)]
    return "\n".join(map(printable, [*lines, "", *notes]))


def notes_on(data: DataBin, args: Namespace) -> list[str]:
    """What a reader of the scores should know of their texts."""
    notes = (
        [f"Raw references are {args.reference}."]
        if args.reference
        else ["Raw references are those of the data, detokenized; they are lower-cased where the data is."]
    )
    if data.assumed:
        notes.append("The data has no preparation.json, so its tokens are taken for Moses' with BPE ('@@ ').")
    if args.compound_split and data.dash_splits:
        notes.append(
            "The data's words are split at their hyphens already, so that the tokenized BLEU is compound-split; to "
            "split '@-@' once more, as the script does, counts hyphens thrice."
        )
    return notes


def main() -> None:
    """Scores what evaluate.sh generated: writes texts and results.json, and a table to a file."""
    parser = Parser("evaluation.py", "Scores translations for scripts/evaluate.sh.", "see scripts/evaluate.sh")
    for name in ("data", "folder", "out", "table"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--subset", required=True)
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--lenpen", type=float, required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--compound-split", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    (args.out / NAME).unlink(missing_ok=True)  # results.json is there only where all beside it belongs to it
    results, texts = evaluate(args)
    texts.write(args.out)
    results.write()
    notes = notes_on(DataBin.read(args.data), args)
    args.table.write_text(table(results, len(texts.raw[0]), notes) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
