"""Releases a trained model as a folder that is ready to translate, with a model card and checksums."""

import shlex
import shutil
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ea_fairseq.checkpoint.released import CONFIG, write_released
from ea_fairseq.data.manifest import sha256
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.averaging import average
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.scoring.evaluate import evaluate
from ea_fairseq.experiments.scoring.results import COUNTS, NAME, RELEASED, Results
from ea_fairseq.experiments.tables import Code, Table
from ea_fairseq.hub.files import recorded_data
from ea_fairseq.plain.commands import PROGRAM, Parser
from ea_fairseq.plain.files import require_path
from ea_fairseq.plain.project import portable
from ea_fairseq.plain.records import Command
from ea_fairseq.text.preparation import PREPARATION, Preparation

MODEL, CHECKSUMS, CARD = "model.safetensors", "SHA256SUMS", "README.md"
OLD_MODEL = "model.pt"  # in an evaluation, and in a release by an older version
EXAMPLE = (
    "ea-fairseq release --about checkpoints/embedded-corpus.md --license mit runs/embedded/ea_transformer_lite "
    "checkpoints/embedded-ea_transformer_lite"
)
ELSEWHERE = "The model itself is not published, because its data belongs to others."


def main() -> None:
    """Releases a model."""
    parser = Parser(
        "release",
        "Turns an evaluated training into a folder for ea-fairseq translate, with the files that hubs of models\n"
        "expect: the parameters in float16 (model.safetensors), options (config.json), dictionaries, subword model, a\n"
        "card with the scores of just this model, and checksums. A folder with model.pt, which an older version\n"
        "released, is converted and keeps its scores.",
        EXAMPLE,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of an evaluated training, or of an older release")
    parser.add_argument("out", type=Path, metavar="DIR", help="folder to write; its name is the model's")
    parser.add_argument(
        "--about", type=Path, required=True, metavar="FILE", help="text of the model card about data and use"
    )
    text = "license of the model by its short name at hubs, such as mit (default: other)"
    parser.add_argument("--license", default="other", metavar="NAME", help=text)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the binarised data (default: the model's)")
    parser.add_argument("--reference", type=Path, metavar="FILE", help="raw references, as for evaluate")
    parser.add_argument("--card-only", action="store_true", help="write only the card and the checksums")
    args = parser.parse_args()
    if not args.about.is_file():
        raise UserError(f"--about: there is no file {args.about}.")
    try:
        args.about.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"--about: {args.about} is not UTF-8.") from None
    require_path(args.out)
    is_converted = (args.run / OLD_MODEL).is_file()
    folder = args.run if is_converted else args.run / "evaluation"
    results, model = Results.read(folder), folder / OLD_MODEL
    if not results.translates:
        raise UserError(f"{args.run} does not translate: ea-fairseq release is for models that do.")
    state = Checkpoint.read(model).state
    data = args.data or (args.run if is_converted else recorded_data(model, state))
    require_replaceable(args, data)
    if not is_converted:
        halved_results = evaluated(args, halved(args.run), data)
        results = replace(halved_results, checkpoints=results.checkpoints, commands=results.commands)
        state = Checkpoint.read(args.run / RELEASED / OLD_MODEL).state
    elif args.reference:
        raise UserError(f"--reference: {args.run} is released and has its scores: leave the flag out.")
    command = Command(portable(shlex.join([PROGRAM, "release", *sys.argv[1:]])))
    release(args, replace(results, commands=[*results.commands, command]), state, data)


def halved(run: Path) -> Path:
    """Writes the evaluated model in float16 into the folder of its training."""
    state = average([Checkpoint.read(run / "evaluation" / OLD_MODEL)], half=True)
    checkpoint = Checkpoint(run / f"checkpoint_{RELEASED}.pt", state)
    checkpoint.write()
    return checkpoint.path


def evaluated(args: Namespace, checkpoint: Path, data: Path) -> Results:
    """Evaluates the model as it is released, and returns its results."""
    out = args.run / RELEASED
    reference = ["--reference", str(args.reference)] if args.reference else []
    with redirect_stdout(StringIO()):
        evaluate(["--checkpoint", checkpoint.name, "--out", str(out), *reference, str(data), str(args.run)])
    return Results.read(out)


def copied(data: Path) -> dict[str, Path]:
    """Returns the files of the data that a release copies, by name."""
    files = {path.name: path for path in sorted(data.glob("dict.*.txt"))}
    return files | {name: data / name for name in (*Preparation.read(data).models, PREPARATION)}


def require_replaceable(args: Namespace, data: Path) -> None:
    """Raises UserError if the output folder has files that a release would delete without writing them again."""
    if not args.out.exists():
        return
    if not args.out.is_dir():
        raise UserError(f"{args.out} is not a folder: give another place.")
    model = {MODEL, CONFIG, OLD_MODEL, NAME, COUNTS, *copied(data)}
    written = {CARD, CHECKSUMS} | (set() if args.card_only else model)
    lost = sorted(path.name for path in args.out.iterdir() if path.name not in written or path.is_dir())
    if lost:
        raise UserError(
            f"{args.out} has {lost[0]}, which would be lost: give a new folder, or that of an older release."
        )


def release(args: Namespace, results: Results, state: dict[str, Any], data: Path) -> None:
    """Writes the folder whole or not at all; a link in its place is followed."""
    place = args.out.resolve()
    unfinished = place.with_name(f"{place.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name, path in copied(data).items():
        shutil.copyfile(path, unfinished / name)
    model = unfinished / MODEL
    write_released(state, model, (f"{results.dataset.source_lang}", f"{results.dataset.target_lang}"))
    sums = {path.name: sha256(path) for path in sorted(unfinished.iterdir())}
    about = args.about.read_text(encoding="utf-8")
    text = card(
        args.out.name, results, model.stat().st_size, sums[MODEL], about, args.license, is_here=not args.card_only
    )
    if args.card_only:
        for name in sums:
            (unfinished / name).unlink()
    else:
        results.keep(unfinished)
    (unfinished / CHECKSUMS).write_text("".join(f"{sum_}  {name}\n" for name, sum_ in sums.items()))
    (unfinished / CARD).write_text(text, encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    unfinished.rename(place)
    print(args.out)


def card(name: str, results: Results, size: int, checksum: str, about: str, license: str, is_here: bool) -> str:
    """Returns the model card in Markdown; it begins with metadata in YAML for model hubs.

    Args:
        results: those of the model as it is released.
        size: of its file, in bytes.
        checksum: SHA-256 of that file.
        about: sections on the data, the use, the limits and the license, in Markdown.
        license: its short name on model hubs.
        is_here: whether the model is published with its card.
    """
    dataset, search = results.dataset, results.search
    hours = results.seconds / 3600
    metadata = {
        "language": [dataset.source_lang, dataset.target_lang],
        "license": license,
        "library_name": PROGRAM,
        "pipeline_tag": "translation",
        "tags": ["fairseq", results.arch],
        "metrics": list(dict.fromkeys(score.split()[-1].lower() for score in results.scores)),
    }
    facts = {
        "architecture": f"`{results.arch}`, {results.parameters:,} parameters without embeddings",
        "translates": f"{dataset.source_lang} to {dataset.target_lang}",
        "file": f"`{MODEL}`, float16, without the optimizer, {size / 1e6:.1f} MB, SHA-256 `{checksum}`",
        "recipe": f"`{results.recipe}`, seed {results.seed}",
        "training": results.length,
        "cost": f"{hours:.1f} hours on {results.training_device}",
        "checkpoints": " + ".join(results.checkpoints),
        "commit": f"`{results.commit}`",
        "versions": ", ".join(f"{tool} {number}" for tool, number in results.versions.items()),
    }
    rows = [f"| {fact} | {value} |" for fact, value in facts.items()]
    scores = [[name, f"{score.score:.2f}", Code(score.signature)] for name, score in results.scores.items()]
    searched = f"beam {search['beam']}, length penalty {search['lenpen']:g}"
    translate = f"bash scripts/translate.sh checkpoints/{name} < in.txt > out.txt"
    here = ["```bash", translate, "```"] if is_here else [ELSEWHERE]
    return "\n".join(
        [
            "---",
            OmegaConf.to_yaml(OmegaConf.create(metadata)) + "---",
            "",
            f"# {name}",
            "",
            "| | |",
            "| --- | --- |",
            *rows,
            "",
            *here,
            "",
            about.strip(),
            "",
            "## Scores",
            "",
            f"Of this file on {dataset.subset} of {dataset.name}, {searched}:",
            "",
            Table(["score", "points", "signature"], scores, []).markdown(),
            "## Made by",
            "",
            "```bash",
            *results.commands,
            "```",
            "",
        ]
    )
