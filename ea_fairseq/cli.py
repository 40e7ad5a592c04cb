"""``ea-fairseq COMMAND``: the package's commands; ``python -m ea_fairseq`` is the same."""

import os
import sys
from importlib import import_module

from ea_fairseq.plain.commands import PROGRAM, run

# Module and description of each command.
COMMANDS = {
    "quickstart": ("experiments.quickstart", "trains a small model and its baseline, and translates with them"),
    "info": ("installation", "prints versions, the attention backend and missing parts, for bug reports"),
    "prepare": ("data.prepare", "turns archives or raw text into binarised data"),
    "shortlist": ("data.shortlist", "learns which target words translate which source words"),
    "corpus": ("data.embedded_corpus", "writes the small German-English corpus of the quick start"),
    "train": ("experiments.runs.train", "trains a model with a recipe"),
    "evaluate": ("experiments.scoring.evaluate", "scores a trained model on a test set"),
    "sweep": ("experiments.runs.sweep", "searches hyper-parameters on the validation set"),
    "ablation": ("experiments.runs.ablation", "trains and evaluates the models of the papers' ablation"),
    "precisions": ("experiments.scoring.precisions", "measures BLEU in each precision of native search"),
    "translate": ("experiments.translate", "translates raw text, line by line"),
    "report": ("experiments.reports.report", "writes tables and figures of trained models' results"),
    "maps": ("experiments.maps.attention_maps", "draws and measures a trained model's attention maps"),
    "map-quality": ("experiments.maps.map_quality", "measures how much attention maps say of an image"),
    "rationales": ("experiments.rationales.command", "shows which words of documents a classifier's decisions rest on"),
    "representations": (
        "experiments.representations.command",
        "draws and measures what models' last layers read",
    ),
    "demo": ("experiments.demo.demo", "opens a local page that translates and shows attention"),
    "pictures": ("experiments.demo.pictures", "draws pictures of the demo and of the page of attention maps"),
    "profile": ("experiments.costs.profile", "prints what a model costs, by part"),
    "benchmark": ("experiments.benchmark.command", "measures speed and memory against fairseq's Transformer"),
    "average": ("experiments.runs.averaging", "averages checkpoints"),
    "release": ("experiments.runs.release", "turns an evaluated training into a model to publish"),
    "import-t5": ("experiments.runs.t5_import", "turns T5's weights into a checkpoint"),
    "import-bert": ("experiments.runs.bert_import", "turns BERT's weights into a checkpoint"),
    "check-gpu": ("experiments.gpu_check.check_gpu", "checks everything that this package does on a GPU"),
}


def usage() -> str:
    """Returns the help text, which lists all commands."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND ...",
            "",
            "Evolving attention for fairseq: prepares data, trains, evaluates, translates, reports.",
            "",
            *lines,
            "",
            f"`{PROGRAM} COMMAND --help` describes a command, with an example. The default command is info.",
            "",
            "example:",
            f"  {PROGRAM} translate checkpoints/embedded-ea_transformer_lite <<<'Der Arzt bringt Wein mit.'",
        ]
    )


def main() -> None:
    """Runs the command that the command line names."""
    name, *arguments = sys.argv[1:] or ["info"]
    if name in ("--help", "-h"):
        run(lambda: print(usage()))
        return
    if name not in COMMANDS:
        sys.exit(f"{PROGRAM}: there is no command {name}: see {PROGRAM} --help for a list.")
    if not sys.stdout.isatty():
        os.environ.setdefault("TQDM_MININTERVAL", "10")  # seconds between updates of a bar; each adds a line to a file
    sys.argv = [name, *arguments]  # each command parses its arguments as a program
    run(lambda: import_module(f"ea_fairseq.{COMMANDS[name][0]}").main())
