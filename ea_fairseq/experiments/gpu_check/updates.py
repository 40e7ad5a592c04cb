"""Updates of models by fairseq's trainer, as in fairseq-train: their speed, and whether they agree with PyTorch."""

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from ea_fairseq.attention.registry import PLAIN
from ea_fairseq.experiments.benchmark.workloads import batch
from ea_fairseq.experiments.costs.built_model import dictionary
from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import (
    SEED,
    SIZES,
    Settings,
    computed_by,
    exact_products,
    in_processes,
    largest_difference,
)
from ea_fairseq.experiments.runs.recipe import model_flags
from ea_fairseq.kernels.self_check import first_line

TYPES = 10_000  # in the made-up dictionary
WARM_UP = 5
RECIPE = [
    *("--share-all-embeddings", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"),
    *("--lr", "1e-3", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "400", "--clip-norm", "0"),
    *("--label-smoothing", "0.1", "--max-tokens", "4096", "--seed", str(SEED), "--fp16-init-scale", "128"),
]
USUAL = ("--criterion", "label_smoothed_cross_entropy")
PRECISIONS = {  # flags; bf16 is common.bf16=true of fairseq-hydra-train, because fairseq-train's --bf16 is for TPUs
    "float32": USUAL,
    "--fp16": (*USUAL, "--fp16"),
    "bf16": USUAL,
    "--amp": (*USUAL, "--amp"),
    "--autocast bf16": ("--criterion", "ea_label_smoothed_cross_entropy", "--autocast", "bf16"),
}
MODELS = {
    "RealFormer": ("realformer_lite", ()),
    "EA, --ea-learned": ("ea_transformer_lite", ("--ea-learned",)),
    "EA, --relative-positions shaw": ("ea_transformer_lite", ("--relative-positions", "shaw")),
    "predictive attention, by PyTorch": ("pa_transformer_lite", ()),
}
UPDATES = 10
ALLOWED = 1e-4  # bits per token, after ten updates
ALLOWED_NORM = 1e-3  # relative: where a ReLU's input is almost zero, rounding decides whether it passes


class Training:
    """A model, an optimizer and one batch of random sentences.

    Args:
        flags: of fairseq-train, which describe the model.
        tokens: in the batch, on either side.
        length: of the longest sentence, in tokens.
        precision: one of PRECISIONS.
    """

    def __init__(self, flags: list[str], settings: Settings, tokens: int, length: int = 30, precision: str = "float32"):
        task = ["--task", "translation", "--source-lang", "xx", "--target-lang", "yy"]
        words = ["none", *task, *RECIPE, *settings.place, *PRECISIONS[precision], *flags]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
        OmegaConf.set_struct(cfg, False)
        cfg.common.bf16 = precision == "bf16"
        torch.manual_seed(SEED)
        entries = dictionary(TYPES)
        task = tasks.TASK_REGISTRY["translation"](cfg.task, entries, entries)
        self.trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
        self.batch = batch(entries, max(1, tokens // length), length, torch.device("cpu"), SEED)
        self.words = self.batch["ntokens"]

    def step(self) -> MetersDict:
        """Makes one update; returns fairseq's log of it, which has no loss if the scaled loss overflowed."""
        with metrics.aggregate(new_root=True) as found:
            self.trainer.train_step([self.batch])
        return found

    def update(self) -> tuple[float, float]:
        """Makes one update; returns its loss, in bits per token, and the norm of its gradients, unrounded."""
        found = self.step()
        return float(found["loss"].avg), float(found["gnorm"].avg)

    def peak(self, found: MetersDict) -> float:
        """Returns the peak GPU memory of an update in GiB, or 0 if fairseq does not report it, as on a CPU."""
        return self.trainer.cuda_env.total_memory_in_GB - found["gb_free"].avg if "gb_free" in found else 0.0


@dataclass(frozen=True)
class Load:
    """The size of a batch, and how many updates are timed."""

    tokens: int
    length: int
    updates: int


def speed(settings: Settings) -> Iterator[Row]:
    """Yields a row for each size and precision with batches of the papers' recipes, and a few with larger ones."""
    if not settings.on_gpu:
        cases = [("lite", precision, Load(512, 30, 3)) for precision in ("float32", "--autocast bf16")]
    else:
        cases = [(size, precision, Load(4096, 30, 10)) for size in SIZES for precision in PRECISIONS]
        large = Load(32768, 128, 10)
        cases += [("base", precision, large) for precision in ("float32", "--fp16", "--autocast bf16")]
    for case in cases:
        yield measure(*case, settings)


def measure(size: str, precision: str, load: Load, settings: Settings) -> Row:
    """Measures target tokens per second, also relative to fairseq's Transformer, and peak memory; models take turns."""
    evolving = model_flags(f"ea_transformer_{size}")
    variants = {
        "Transformer": (["--arch", PLAIN[size]], "auto"),
        "EA": (evolving, "auto"),
        "EA by PyTorch": (evolving, "reference"),
    }
    trainings, peaks, problems = {}, {}, []
    for variant, (flags, backend) in variants.items():
        gc.collect()
        held = torch.cuda.memory_allocated() / 2**30 if settings.on_gpu else 0.0
        try:
            with computed_by(backend):
                training = Training(flags, settings, load.tokens, load.length, precision)
                peaks[variant] = max(training.peak(training.step()) for _ in range(WARM_UP)) - held
                trainings[variant] = training
        except Exception as error:
            problems.append(f"{variant} fails ({type(error).__name__}: {first_line(error)})")
    seconds: dict[str, list[float]] = {variant: [] for variant in trainings}
    for _ in range(load.updates):
        for variant, training in trainings.items():
            with computed_by(variants[variant][1]):
                settings.synchronize()
                start = time.perf_counter()
                training.step()
                settings.synchronize()
                seconds[variant].append(time.perf_counter() - start)
    found = {}
    for variant, training in trainings.items():
        took = median(seconds[variant])
        ratio = f" ({median(seconds['Transformer']) / took:.2f})" if "Transformer" in seconds else ""
        found[variant] = f"{training.words / took:,.0f}{ratio}"
        if settings.on_gpu:
            found[f"{variant}, GiB"] = f"{peaks[variant]:.2f}"
    return Row(f"{SIZES[size]}, {load.tokens:,} tokens, {precision}", found, "; ".join(problems))


def mechanisms(settings: Settings) -> Iterator[Row]:
    """Yields a row for each mechanism, and one for ``torch.compile``."""
    cases = [(name, [*model_flags(model), *flags], settings) for name, (model, flags) in MODELS.items()]
    # On a CPU, Inductor would compile for minutes.
    compiler = "inductor" if settings.on_gpu else "aot_eager"
    compiled = f"EA, torch.compile by {compiler}", model_flags("ea_transformer_lite"), settings, compiler
    yield from in_processes(compare, [*cases, compiled])


def compare(name: str, flags: list[str], settings: Settings, compiler: str | None = None) -> Row:
    """Compares losses and gradient norms of a few updates without dropout; compiles the model if told how."""
    exact_products()
    found: dict[str, str] = {}
    losses: dict[str, tuple[float, ...]] = {}
    norms: dict[str, tuple[float, ...]] = {}
    for backend, title in (("auto", "loss"), ("reference", "EA_BACKEND=reference")):
        try:
            with computed_by(backend):
                training = Training([*flags, "--dropout", "0"], settings, tokens=1024 if settings.on_gpu else 128)
                if compiler and backend == "auto":
                    training.trainer.model.compile(backend=compiler)
                updates = [training.update() for _ in range(UPDATES if settings.on_gpu else 3)]
        except Exception as error:
            return Row(name, found, f"{backend} fails ({type(error).__name__}: {first_line(error)})")
        losses[backend], norms[backend] = zip(*updates, strict=True)
        found[title] = f"{losses[backend][-1]:.4f}"
    loss = largest_difference(losses["auto"], losses["reference"])
    norm = largest_difference(norms["auto"], norms["reference"]) / max(norms["reference"])
    found |= {"difference": f"{loss:.1g}", "of gradients, relative": f"{norm:.1g}"}
    if loss <= ALLOWED and norm <= ALLOWED_NORM:
        return Row(name, found)
    limits = f"{ALLOWED} and {ALLOWED_NORM} are allowed"
    return Row(name, found, f"losses differ from PyTorch's by {loss:.2g}, norms of gradients by {norm:.2g}: {limits}")
