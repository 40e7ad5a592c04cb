"""Imports a BERT from safetensors as a checkpoint of fairseq."""

import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.bert import Bert, in_order
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.imported import checkpoint_state, require_new, written_whole
from ea_fairseq.models.roberta import MODELS, SIZE_OPTIONS, SIZES
from ea_fairseq.plain.commands import Parser, at_least
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.subwords.wordpiece import SYMBOLS, read_vocabulary

ARCH = "ea_bert"
USUAL = {"activation_fn": "gelu", "layer_norm_eps": 1e-12, "segments": 2, "max_positions": 512}  # defaults
CHECKPOINT, DICTIONARY, VOCABULARY = "checkpoint.pt", "dict.txt", "vocab.txt"
EXAMPLE = "ea-fairseq import-bert minilm/model.safetensors minilm/vocab.txt runs/minilm"


def main() -> None:
    """Imports a BERT and says what to train it with."""
    parser = Parser(
        "import-bert",
        "Turns BERT's weights into a checkpoint for --restore-file, with the dictionary and the vocabulary that\n"
        "prepare glue takes. The number of heads, the activation and the eps of layer norms are read from\n"
        "config.json next to the weights.",
        EXAMPLE,
    )
    parser.add_argument("model", type=Path, metavar="MODEL.safetensors", help="the weights")
    parser.add_argument("vocabulary", type=Path, metavar="VOCAB.txt", help="the pieces of WordPiece, one a line")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="a new folder for the checkpoint and dictionary")
    text = "eps of layer norms (default: that of config.json)"
    parser.add_argument("--layer-norm-eps", type=at_least(1e-30, float), metavar="F", help=text)
    args = parser.parse_args()
    if args.layer_norm_eps is not None and args.layer_norm_eps >= 1:
        parser.error(f"--layer-norm-eps needs a number between 0 and 1, not {args.layer_norm_eps:g}")
    require_new(args.out)
    bert = Bert.read(args.model)
    if args.layer_norm_eps:
        bert = replace(bert, config=replace(bert.config, layer_norm_eps=args.layer_norm_eps))
    try:
        pieces = read_vocabulary(args.vocabulary)
        state = checkpoint(bert, pieces)
    except UserError as error:
        raise UserError(f"{args.model} cannot be imported: {error}") from None
    write(args, state, pieces)
    describe(bert, args.out)


def dictionary(pieces: list[str]) -> Dictionary:
    """Returns fairseq's dictionary of these pieces, without ``<mask>``, which tasks add."""
    found = Dictionary()
    for piece in in_order(pieces):
        if piece not in SYMBOLS:
            found.add_symbol(piece)
    return found


def checkpoint(bert: Bert, pieces: list[str]) -> dict[str, Any]:
    """Returns the state of a checkpoint of a plain ``ea_bert``, whose skip connection and convolution have weight 0.

    Raises:
        UserError: if a parameter does not fit the others, or the vocabulary.
    """
    flags = ["--arch", ARCH, "--task", "masked_lm", "--criterion", "masked_lm", "--ea-alpha", "0", "--ea-beta", "0"]
    for name, value in bert.options().items():
        flags += [flag_of(name), str(value)]
    parser = fairseq_options.get_training_parser(default_task="masked_lm")
    args = fairseq_options.parse_args_and_arch(parser, [".", *flags])
    parameters = bert.state(pieces)
    require_fit(args, parameters, pieces)
    return checkpoint_state(args, parameters)


def require_fit(args: Namespace, parameters: dict[str, Tensor], pieces: list[str]) -> None:
    """Raises UserError if parameters do not fit the model."""
    words = dictionary(pieces)
    words.add_symbol(SYMBOLS["[MASK]"])
    MODELS[ARCH].build_model(args, Namespace(source_dictionary=words)).load_state_dict(dict(parameters))


def write(args: Namespace, state: dict[str, Any], pieces: list[str]) -> None:
    """Writes the folder whole or not at all."""
    with written_whole(args.out) as folder:
        dictionary(pieces).save(str(folder / DICTIONARY))
        shutil.copyfile(args.vocabulary, folder / VOCABULARY)
        Checkpoint(folder / CHECKPOINT, state).write()


def describe(bert: Bert, out: Path) -> None:
    """Prints what was imported, and the flags that train it."""
    options = bert.options()
    sizes = tuple(options[name] for name in SIZE_OPTIONS)
    size = next((name for name, known in SIZES.items() if known == sizes), None)
    flags = [f"--arch {ARCH}_{size}" if size else f"--arch {ARCH}"]
    named = {} if size else dict(zip(SIZE_OPTIONS, sizes, strict=True))
    named |= {name: options[name] for name, usual in USUAL.items() if options[name] != usual}
    flags += [f"{flag_of(name)} {value}" for name, value in named.items()]
    head = "the language model's head" if bert.has_head else "no language model's head: it starts as the identity"
    print(f"{out}: a BERT of {sizes[0]} layers and {sizes[1]} numbers a token, {head}")
    print(f"train it with {' '.join(flags)} --restore-file {out / CHECKPOINT}")
