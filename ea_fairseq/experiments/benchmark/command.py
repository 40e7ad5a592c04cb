"""Compares speed and memory with fairseq's Transformer, prints tables and writes all results."""

import shlex
import signal
import sys
import time
from argparse import Namespace
from dataclasses import fields, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.benchmark.cases import (
    ENCODER_PARTS,
    ENCODER_SIZES,
    EVOLVING_FAMILY,
    NATIVE,
    PARTS,
    SERIES_PARTS,
    SIZES,
    TRAINED_PARTS,
    Case,
    Plan,
    Settings,
)
from ea_fairseq.experiments.benchmark.results import Benchmark
from ea_fairseq.experiments.benchmark.tables import heading, tables
from ea_fairseq.experiments.benchmark.workers import measure
from ea_fairseq.experiments.environment import commit, gpus, processor, versions
from ea_fairseq.experiments.runs.recipe import models
from ea_fairseq.experiments.tables import text_table
from ea_fairseq.installation import cores
from ea_fairseq.plain.commands import Parser, at_least, list_of, some_of
from ea_fairseq.plain.flags import flag_of
from ea_fairseq.plain.precisions import about_precision

COMMAND = "ea-fairseq benchmark"
DESCRIPTION = """\
Compares evolving attention with fairseq's Transformer of the same size: one self-attention forward and backward
(block), training, generation, memory and operations (memory), and how time and memory grow with the length of
sentences (growth). With --encoders, it compares RoBERTa classifiers with fairseq's: an update (tuning) and
new sentences (inference). With --models and --text, it measures how fast trained models translate a text (translation).
With --series, it compares an update of EA-DC-Transformer with the same model in plain PyTorch (series).
With --peer, CTranslate2 is measured, too, in generation and translation. Each variant runs in its own process, and
variants are sampled in turn; rounds that other processes disturbed are repeated. A full run takes half an hour on
two quiet cores, --quick three minutes.
ea-fairseq report FILE draws the results."""
MEMORY = "memory"
COSTLY = ("block", "training", "tuning", "series")  # parts with a table of memory and operations
QUICK = Settings(threads=1, rounds=3, attempts=1, seconds=0.3)  # one thread, because several would wait for busy cores
WIDTH = 100


def parse_arguments() -> Namespace:
    """Parses the command line and checks each value."""
    parser = Parser("benchmark", DESCRIPTION, f"{COMMAND} --only training,memory --sizes lite --out runs/speed.json")
    add, default = parser.add_argument, Settings()
    whole, number, words = at_least(1), at_least(0, float), at_least(10)
    parts = (*PARTS, *TRAINED_PARTS, *ENCODER_PARTS, *SERIES_PARTS, MEMORY)
    add("--quick", action="store_true", help="few cases, rounds and tokens: a trial, not a result")
    add("--only", type=some_of(parts), metavar="PART,...", help=f"some of {', '.join(parts)}")
    add("--sizes", type=some_of(SIZES), metavar="SIZE,...", help=f"some of {', '.join(SIZES)}")
    add("--encoders", type=some_of(ENCODER_SIZES), metavar="SIZE,...", help=f"some of {', '.join(ENCODER_SIZES)}")
    add("--series", action="store_true", help="measure models of time series")
    text = f"model family: recipe name without its size; several are allowed (default: {EVOLVING_FAMILY})"
    add("--family", type=list_of(str), default=(EVOLVING_FAMILY,), metavar="NAME,...", help=text)
    text = "folders of a plain and an evolving model, trained on the same data"
    add("--models", type=list_of(str), metavar="PLAIN,EA", help=text)
    add("--text", type=Path, metavar="FILE", help="raw source sentences, one per line, for --models to translate")
    add("--peer", choices=("ctranslate2",), help="also measure this engine, if it is installed")
    for name in NATIVE:
        add(flag_of(name), action="store_true", help=f"also {about_precision(name)}")
    add("--lengths", type=list_of(at_least(2)), metavar="N,...", help="tokens of the longest sentence, for all parts")
    add("--tokens", type=whole, metavar="N", help="tokens of a batch, for all parts but generation")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="(default: %(default)s)")
    add("--threads", type=whole, metavar="N", help="(default: one for each core; with --quick one)")
    add("--rounds", type=whole, metavar="N", help=f"rounds of each case (default: {default.rounds})")
    add("--seconds", type=number, metavar="S", help=f"minimum time of a sample (default: {default.seconds})")
    text = "repeat rounds in which others take a larger share of the CPU (default: %(default)s)"
    add("--limit", type=number, default=default.limit, metavar="F", help=text)
    add("--dictionary", type=words, default=default.dictionary, metavar="N", help="its size (default: %(default)s)")
    add("--seed", type=at_least(0), default=default.seed, metavar="N", help="(default: %(default)s)")
    add("--out", type=Path, default=Path("runs/speed.json"), metavar="FILE", help="(default: %(default)s)")
    args = parser.parse_args()
    if args.encoders and args.sizes:
        parser.error("--encoders: leave out --sizes, which are of translation models")
    if args.series and (args.sizes or args.encoders or args.models or args.family != (EVOLVING_FAMILY,)):
        parser.error("--series: leave out --sizes, --encoders, --models and --family")
    if bool(args.models) != bool(args.text):
        parser.error("--models: give two models, and with --text the file to translate")
    if args.models and len(args.models) != 2:
        parser.error("--models: give the folders of two models, separated by a comma")
    for name in ("peer", *NATIVE):
        if getattr(args, name) and args.device != "cpu":
            parser.error(f"{flag_of(name)}: compare on the CPU")
    known = (*parts_known(args), MEMORY)
    args.only, args.sizes = args.only or known, args.encoders or args.sizes or SIZES
    if unknown := [part for part in args.only if part not in known]:
        parser.error(f"--only: {unknown[0]} is not one of {', '.join(known)}")
    if args.out.is_dir():
        parser.error(f"--out: {args.out} is a folder: give a file")
    return args


def parts_known(args: Namespace) -> tuple[str, ...]:
    """Returns the parts that can be measured for the models on the command line."""
    if args.models:
        return TRAINED_PARTS
    if args.series:
        return SERIES_PARTS
    return ENCODER_PARTS if args.encoders else PARTS


def settings_of(args: Namespace) -> Settings:
    """Returns the settings that the command line asks for."""
    usual = QUICK if args.quick else Settings(threads=len(cores()))
    given = {field.name: getattr(args, field.name, None) for field in fields(Settings)}
    return replace(usual, **{name: value for name, value in given.items() if value is not None})


def cases_of(args: Namespace) -> tuple[Plan, list[tuple[Case, bool]]]:
    """Returns the plan, and each case with whether it is timed; if not, only its memory is measured."""
    plan = Plan(
        sizes=args.sizes,
        lengths=args.lengths,
        tokens=args.tokens,
        cuda=args.device == "cuda",
        quick=args.quick,
        families=args.family,
        peers=args.peer is not None,
        native=tuple(name for name in NATIVE if getattr(args, name)),
        models=args.models or ("", ""),
        text=str(args.text or ""),
    )
    parts = [part for part in parts_known(args) if part in args.only or (MEMORY in args.only and part in COSTLY)]
    return plan, [(case, part in args.only) for part in parts for case in plan.cases(part)]


def require_families(args: Namespace) -> None:
    """Raises UserError if a family has no models of these sizes."""
    if args.encoders:
        from ea_fairseq.attention.registry import FAMILIES

        if unknown := [name for name in args.family if name not in FAMILIES]:
            raise UserError(f"--family {unknown[0]} has no encoders: take one of {', '.join(FAMILIES)}.")
    elif unknown := [name for name in args.family if not {f"{name}_{size}" for size in args.sizes} <= {*models()}]:
        raise UserError(f"--family {unknown[0]} has no recipe of these sizes: take one of {', '.join(models())}.")


def say(text: str) -> None:
    """Prints progress to stderr; tables go to stdout."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def print_tables(benchmark: Benchmark) -> None:
    """Prints a benchmark as text."""
    print(heading(benchmark))
    for title, found in tables(benchmark):
        notes = [fill(note, WIDTH) for note in found.notes]
        print(f"\n{title}\n", text_table([found.header, *found.rows]), *notes, sep="\n")


def main() -> None:
    """Measures case by case, and writes the results so far after each case."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # also ends the worker processes
    args = parse_arguments()
    if args.device == "cuda" and not gpus():
        raise UserError("--device cuda: nvidia-smi shows no GPU: measure on the CPU, or fix the driver.")
    require_families(args)
    if args.peer and find_spec(args.peer) is None:
        raise UserError(f"--peer: {args.peer} is not installed: run 'pip install {args.peer}'.")
    plan, cases = cases_of(args)
    benchmark = Benchmark(
        command=shlex.join([*COMMAND.split(), *sys.argv[1:]]),
        commit=commit(),
        versions=versions(),
        hardware=[processor(), *gpus()],
        settings=settings_of(args),
        quick=args.quick,
        started=datetime.now().isoformat(timespec="seconds"),
    )
    for case, timed in cases:
        settings = benchmark.settings if timed else replace(benchmark.settings, rounds=0)
        benchmark.measurements.append(measure(case, plan.variants(case.part), settings, say))
        benchmark.write(args.out)
    print_tables(benchmark)
    print(f"\nall figures are in {args.out}; ea-fairseq report {args.out} draws them")
