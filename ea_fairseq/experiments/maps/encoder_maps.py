"""What the attentions of encoders and classifiers do with a sentence or a pair, or over a whole data set."""

import argparse
from pathlib import Path

from ea_fairseq.attention.maps import by_layer
from ea_fairseq.errors import UserError, printable
from ea_fairseq.experiments.maps.explorer_files import model_maps, write_explorer
from ea_fairseq.experiments.maps.map_statistics import statistics_of
from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, draw
from ea_fairseq.experiments.maps.statistics_figures import draw_statistics
from ea_fairseq.experiments.maps.statistics_files import table, write_statistics
from ea_fairseq.hub.encoder import EncoderHub

OF_TRANSLATION = ("target", "alignment")  # options that an encoder has no use for
Models = dict[str, EncoderHub]  # by the names that figures give them


def refuse_options_of_translation(args: argparse.Namespace) -> None:
    """Raises UserError where an option is given that is of a translation model."""
    for name in OF_TRANSLATION:
        if getattr(args, name) is not None:
            raise UserError(
                f"--{name}: {args.checkpoint} does not translate: leave it out, or give a pair with --second."
            )
    if args.attention not in (None, ("encoder",)):
        raise UserError(f"--attention: {args.checkpoint} has the attention encoder alone.")


def require_same_words(models: list[EncoderHub], paths: list[Path]) -> None:
    """Raises UserError where two models to compare have other vocabularies."""
    if models[0].dictionary != models[-1].dictionary:
        raise UserError(f"{paths[-1]} has another vocabulary than {paths[0]}: compare models of the same data.")


def draw_sentence(models: Models, args: argparse.Namespace, stages: tuple[str, ...], out: Path) -> list[Path]:
    """Draws the maps of a sentence or a pair, says how the models read it, and returns the files."""
    first = next(iter(models.values()))
    tokens = first.encode(args.source, args.second)
    maps = [
        SentenceMaps(name, by_layer(model.attention_of_tokens(tokens)), model.subword) for name, model in models.items()
    ]
    print("tokens:", printable(" ".join(first.dictionary[token] for token in tokens)))
    if args.html is not None:
        return write_explorer(list(map(model_maps, maps)), f"Attention of “{args.source}”", args.html)
    return draw(maps, ("encoder",), args.heads, stages, out)


def measure(models: Models, args: argparse.Namespace, paths: list[Path], out: Path) -> list[Path]:
    """Measures the maps of a subset, prints and draws what it finds, and returns the files."""
    subset = args.subset or "test"
    sentences = next(iter(models.values())).subset(subset)[: args.max_pairs]
    statistics = {
        name: statistics_of(model.recorded_batches(sentences), len(sentences), model.dictionary.pad())
        for name, model in models.items()
    }
    print(f"{table(statistics)}\n\n{len(sentences)} sentences or pairs of {subset}.")
    checkpoints = dict(zip(models, map(str, paths), strict=True))
    out.mkdir(parents=True, exist_ok=True)
    about = {"checkpoints": checkpoints, "subset": subset, "sentences": len(sentences)}
    return [*write_statistics(statistics, about, out), *draw_statistics(statistics, out)]
