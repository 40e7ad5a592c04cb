"""Beam search in native code for CPUs: the patch of fairseq's generator.

One call translates a batch, and each thread works on its own sentences. fairseq's search translates with
``EA_BACKEND=reference``, and if native code does not support the model or an option. Hypotheses have no attention.
"""

import logging
import time
from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.search.model_cache import CachedModel, cached_model, forget_if_trained
from ea_fairseq.search.precision_bleu import accurate
from ea_fairseq.search.support import unsupported_option
from ea_fairseq.search.translation import Hypothesis, translate

logger = logging.getLogger(__name__)
fairseq_generate = SequenceGenerator._generate
fairseq_inference_with_bleu = TranslationTask._inference_with_bleu
logged: set[str] = set()  # reasons for fairseq's search that are in the log already
TIMED_SENTENCES, TIMED_TOKENS, TIMED_ROUNDS = 16, 3, 3  # of the searches that compare the speed of the precisions


def patch_search() -> None:
    """Replaces ``SequenceGenerator._generate``, which all of fairseq's commands translate with, and the function that
    computes BLEU in validation."""
    SequenceGenerator._generate = generate
    TranslationTask._inference_with_bleu = inference_with_bleu


def inference_with_bleu(
    self: TranslationTask, generator: SequenceGenerator, sample: dict, model: torch.nn.Module
) -> Any:
    """fairseq's BLEU of a validation batch; it reads only tokens, so the layers need not return attention weights."""
    for searched in generator.model.models:
        forget_if_trained(searched)
    reads_only_tokens = type(generator) is SequenceGenerator
    layers: list[Any] = [layer for layer in model.modules() if reads_only_tokens and getattr(layer, "need_attn", False)]
    for layer in layers:
        layer.need_attn = False
    try:
        return fairseq_inference_with_bleu(self, generator, sample, model)
    finally:
        for layer in layers:
            layer.need_attn = True


@torch.no_grad()
def generate(
    self: SequenceGenerator,
    sample: dict[str, dict[str, Tensor]],
    prefix_tokens: Tensor | None = None,
    constraints: Tensor | None = None,
    bos_token: int | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence of a batch, best first, as fairseq's ``_generate`` returns them.

    Raises:
        UserError: if the beam size is less than 1.
    """
    from ea_fairseq.models.transformer import MechanismTransformer

    if self.beam_size < 1:
        raise UserError(f"--beam must be at least 1, not {self.beam_size}")
    models = list(self.model.models)
    if len(models) == 1 and isinstance(models[0], MechanismTransformer):
        cached = cached_model(models[0])
        reason = unsupported_option(self, sample, prefix_tokens, constraints) or cached.unsupported_reason
        if reason is None:
            source = sample["net_input"]["src_tokens"]
            native = cached.native(models[0], precision_of(self, cached, source, bos_token))
            hypotheses = translate(self, native, sample["net_input"], prefix_tokens, bos_token)
            if hypotheses is not None:
                return hypotheses
            reason = "no token has a finite score"
        log_fallback(self, reason)
    elif requested_options(self):
        log_fallback(self, "native search supports neither ensembles nor fairseq's own models")
    return fairseq_generate(self, sample, prefix_tokens, constraints, bos_token)


def requested_options(generator: SequenceGenerator) -> list[str]:
    """The options of native search that are set on a generator."""
    shortlist = ["the shortlist"] if getattr(generator, "shortlist", None) else []
    return [*shortlist, *getattr(generator, "precisions", ())]


def log_fallback(generator: SequenceGenerator, reason: str) -> None:
    """Logs, once for each reason, that fairseq's search translates, and which options of native search that ignores."""
    if reason not in logged:
        logged.add(reason)
        requested = requested_options(generator)
        without = f", without {' and '.join(requested)}," if requested else ""
        logger.info(f"fairseq's beam search translates{without} because {reason}")


def precision_of(generator: SequenceGenerator, cached: CachedModel, source: Tensor, bos_token: int | None) -> str:
    """The requested precision of linear layers that finds the first tokens of some sentences (B, S) fastest."""
    precisions, measured = ("float32", *getattr(generator, "precisions", ())), getattr(generator, "measured", None)
    beam = generator.beam_size
    if len(precisions) > 1 and (beam, precisions, measured) not in cached.fastest:
        candidates = accurate(precisions, measured) if measured else precisions
        timed = copy(generator)
        timed.max_len_a, timed.max_len_b, timed.min_len, timed.match_source_len = 0, TIMED_TOKENS, 1, False
        net_input = {"src_tokens": source[:TIMED_SENTENCES]}

        def search(precision: str) -> None:
            translate(timed, cached.native(generator.model.single_model, precision), net_input, None, bos_token)

        title = f"{TIMED_TOKENS} tokens of {len(net_input['src_tokens'])} sentences, beam {beam}"
        cached.fastest[beam, precisions, measured] = fastest_precision(search, candidates, title)
    return cached.fastest.get((beam, precisions, measured), "float32")


def fastest_precision(search: Callable[[str], object], precisions: tuple[str, ...], title: str) -> str:
    """Times a search in each precision alternately and returns the one of the fastest run; logs it, as a
    warning if it was chosen among several or is not the one requested.

    Processors with instructions for a precision are not always faster with them, because inputs have to be rounded.

    Args:
        search: a function of the precision of linear layers.
        precisions: float32 and those requested.
        title: a description of the search for the log.
    """
    times: dict[str, list[float]] = {precision: [] for precision in precisions}
    for number in range(1 + TIMED_ROUNDS):
        for precision in precisions:
            begin = time.perf_counter()
            search(precision)
            if number:  # the first round is a warm-up
                times[precision].append(1000 * (time.perf_counter() - begin))
    best = {precision: min(found) for precision, found in times.items()}
    fastest = min(reversed(precisions), key=best.__getitem__)  # not float32 if another takes as long
    is_refused, is_choice = fastest == "float32" and len(precisions) == 2, len(precisions) > 2
    instead = f" instead of {precisions[1]}, which is slower on this processor" if is_refused else ""
    measured = ", ".join(f"{best[precision]:.1f} ms in {precision}" for precision in precisions)
    logger.log(
        logging.WARNING if is_refused or is_choice else logging.INFO,  # translate logs only warnings
        f"native code computes in {fastest}{instead}: {title} take {measured}",
    )
    return fastest
