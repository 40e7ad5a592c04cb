"""A few updates of other mechanisms, and of a compiled model, beside the same by plain PyTorch."""

from collections.abc import Iterator

from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import (
    Settings,
    computed_by,
    exact_products,
    in_processes,
    largest_difference,
)
from ea_fairseq.experiments.gpu_check.updates import Training
from ea_fairseq.experiments.runs.recipe import model_flags
from ea_fairseq.kernels.self_check import first_line

MODELS = {
    "RealFormer": ("realformer_lite", ()),
    "EA, --ea-learned": ("ea_transformer_lite", ("--ea-learned",)),
    "EA, --relative-positions shaw": ("ea_transformer_lite", ("--relative-positions", "shaw")),
    "predictive attention, by PyTorch": ("pa_transformer_lite", ()),
}
UPDATES = 10
ALLOWED = 1e-4  # bits a token, after ten updates
ALLOWED_NORM = 1e-3  # relative: where the ReLU's input is all but zero, a rounding decides what it passes on


def check(settings: Settings) -> Iterator[Row]:
    """A row for each mechanism, and one for ``torch.compile``."""
    cases = [(name, [*model_flags(model), *flags], settings) for name, (model, flags) in MODELS.items()]
    # Inductor compiles for minutes on a CPU.
    compiler = "inductor" if settings.on_gpu else "aot_eager"
    compiled = f"EA, torch.compile by {compiler}", model_flags("ea_transformer_lite"), settings, compiler
    yield from in_processes(compare, [*cases, compiled])


def compare(name: str, flags: list[str], settings: Settings, compiler: str | None = None) -> Row:
    """Losses and norms of gradients of a few updates without dropout; if there is a compiler, of the compiled model."""
    exact_products()
    found, losses, norms = {}, {}, {}
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
