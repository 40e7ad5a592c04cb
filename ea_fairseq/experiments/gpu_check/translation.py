"""Compares translations of the embedded corpus' test set by the released models, with kernels and in plain PyTorch."""

import time
from collections.abc import Iterator

from ea_fairseq.experiments.gpu_check.rows import Row
from ea_fairseq.experiments.gpu_check.settings import Settings, computed_by, exact_products
from ea_fairseq.experiments.runs.trained_model import find_model, load_translation
from ea_fairseq.hub.translation import TranslationHub
from ea_fairseq.kernels.self_check import first_line
from ea_fairseq.plain.project import PROJECT

MODELS = {"Transformer-Lite": "embedded-transformer_lite", "EA-Transformer-Lite": "embedded-ea_transformer_lite"}
BEAMS = {"beam 5": 5, "greedy": 1}
ALLOWED = 0.01  # of the sentences, because two hypotheses may have almost equal scores


def check(settings: Settings) -> Iterator[Row]:
    """Yields a row for each model and beam size."""
    exact_products()
    sentences = (settings.text / "test.de").read_text(encoding="utf-8").splitlines()
    for name, folder in MODELS.items():
        try:
            model = load_translation(find_model(PROJECT / "checkpoints" / folder), cpu=not settings.on_gpu)
        except Exception as error:
            yield Row(name, {}, f"cannot be loaded ({type(error).__name__}: {first_line(error)})")
            continue
        for search, beam in BEAMS.items():
            yield compare(f"{name}, {search}", model, sentences[: None if settings.on_gpu else 100], beam, settings)


def compare(name: str, model: TranslationHub, sentences: list[str], beam: int, settings: Settings) -> Row:
    """Compares the hypotheses and the speed of a search with those of plain PyTorch."""
    tokens = sum(len(model.encode(sentence)) for sentence in sentences)
    found: dict[str, str] = {}
    translations: dict[str, list[str]] = {}
    for backend, title in (("auto", "default"), ("reference", "EA_BACKEND=reference")):
        try:
            with computed_by(backend):
                model.translate(sentences, beam)  # warm-up: cuDNN plans anew for maps of another size
                settings.synchronize()
                begin = time.perf_counter()
                translations[backend] = [*model.translate(sentences, beam)]
        except Exception as error:
            return Row(name, found, f"{title} fails ({type(error).__name__}: {first_line(error)})")
        found[title] = f"{tokens / (time.perf_counter() - begin):,.0f}"
    others = sum(map(str.__ne__, translations["auto"], translations["reference"]))
    found["differ"] = f"{others} of {len(sentences)}"
    is_right = others <= ALLOWED * len(sentences)
    return Row(name, found, "" if is_right else f"{others} of {len(sentences)} translations are not PyTorch's")
