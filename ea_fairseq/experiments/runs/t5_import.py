"""Imports a T5 from safetensors as a checkpoint of fairseq, with its vocabulary, ready to translate or to train."""

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq import options as fairseq_options
from fairseq.data import Dictionary

from ea_fairseq.data import manifest
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.checkpoint import Checkpoint
from ea_fairseq.experiments.runs.imported import checkpoint_state, require_new, written_whole
from ea_fairseq.experiments.runs.t5 import T5
from ea_fairseq.models.t5 import MODELS, SIZES, options_of_size
from ea_fairseq.plain.commands import Parser
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.text.preparation import PREPARATION
from ea_fairseq.text.t5_pieces import LANGUAGES, OF_FAIRSEQ, read_pieces

WEIGHTS, PIECES = "model.safetensors", "spiece.model"
DICTIONARIES = ("dict.txt", *(f"dict.{language}.txt" for language in LANGUAGES))
CHECKPOINT = "model.pt"
HOW = {"tokenizer": "none", "normalize": False, "lowercase": False, "subword": "t5", "models": [PIECES]}
EXAMPLE = "ea-fairseq import-t5 t5-small runs/t5-small"


def main() -> None:
    """Imports a T5 and says what to train it with."""
    parser = Parser(
        "import-t5",
        "Turns the weights of a T5 or T5 1.1 into a checkpoint to translate with and to tune, with the dictionary and\n"
        "the vocabulary that prepare glue --text-to-text takes. FOLDER has config.json, model.safetensors and\n"
        "spiece.model.",
        EXAMPLE,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of the three files")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="a new folder for the checkpoint and dictionary")
    args = parser.parse_args()
    require_new(args.out)
    t5 = T5.read(args.folder / WEIGHTS)
    try:
        pieces = read_pieces(args.folder / PIECES)
        words = dictionary(pieces, t5.sizes["vocab_size"])
        state = checkpoint(t5, pieces, words)
    except UserError as error:
        raise UserError(f"{args.folder} cannot be imported: {error}") from None
    with written_whole(args.out) as folder:
        for name in DICTIONARIES:
            words.save(str(folder / name))
        shutil.copyfile(args.folder / PIECES, folder / PIECES)
        languages = dict(zip(("source_lang", "target_lang"), LANGUAGES, strict=True))
        manifest.write(folder / PREPARATION, languages | HOW)
        Checkpoint(folder / CHECKPOINT, state).write()
    describe(t5, args.out)


def dictionary(pieces: list[str], rows: int) -> Dictionary:
    """Returns fairseq's dictionary of T5's pieces, filled up with unused words to one type for each row of T5."""
    found = Dictionary()
    for piece in pieces:
        if piece not in OF_FAIRSEQ:
            found.add_symbol(piece)
    for number in range(rows - len(found)):
        found.add_symbol(f"madeupword{number:04d}")
    return found


def checkpoint(t5: T5, pieces: list[str], words: Dictionary) -> dict[str, Any]:
    """The state of a checkpoint of a plain T5.

    Raises:
        UserError: if a parameter does not fit the others, or the vocabulary.
    """
    arch, options = named(t5)
    source, target = LANGUAGES
    flags = ["--arch", arch, "--task", "translation", "--source-lang", source, "--target-lang", target]
    flags += [part for name, value in options.items() for part in (flag_of(name), str(value))]
    parser = fairseq_options.get_training_parser(default_task="translation")
    args = fairseq_options.parse_args_and_arch(parser, [".", *flags])
    parameters = t5.state(pieces, words.symbols)
    task = Namespace(source_dictionary=words, target_dictionary=words)
    MODELS["t5"].build_model(args, task).load_state_dict(dict(parameters))
    return checkpoint_state(args, parameters)


def named(t5: T5) -> tuple[str, dict[str, object]]:
    """Returns a plain architecture and the options in which a model differs from it; none if it has a known size.

    Raises:
        UserError: if no version of T5 has such feed-forward networks and such an output projection.
    """
    if t5.config.is_gated == t5.config.is_tied:
        raise UserError(
            "'feed_forward_proj' and 'tie_word_embeddings' must be relu and true (T5) or gated-gelu and false (T5 1.1)."
        )
    version = "1_1_" if t5.config.is_gated else ""
    options = t5.options() | ({"gated_ffn_dim": t5.sizes["d_ff"]} if t5.config.is_gated else {})
    for size in (size for size in SIZES if size.startswith("1_1_") == t5.config.is_gated):
        if options.items() <= options_of_size(size).items():
            return f"t5_{size}", {}
    return f"t5_{version}base", options


def describe(t5: T5, out: Path) -> None:
    """Prints what was imported, and the flags that train it."""
    arch, options = named(t5)
    flags = [f"--arch {arch}", *(f"{flag_of(name)} {value}" for name, value in options.items())]
    layers = f"{t5.sizes['num_layers']} and {t5.sizes['num_decoder_layers']} layers"
    print(f"{out}: a T5 of {layers}, {t5.sizes['d_model']} numbers a token")
    print(f"tune it with {' '.join(flags)} --finetune-from-model {out / CHECKPOINT}, or with ea_{arch}")
    print(f"try it: ea-fairseq translate {out} <<<'translate English to German: That is good.'")
