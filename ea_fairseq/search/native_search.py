"""Beam search in native code for CPUs: fairseq's generator, where one model and its options allow it.

A batch is translated by one call, in which each thread has sentences of its own; ``EA_BACKEND=reference`` leaves it to
fairseq's search, as do options that native code does not have. Hypotheses have no attention.
"""

import logging
from copy import copy
from ctypes import byref
from typing import Any
from weakref import WeakKeyDictionary

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.cpu.interface import FUNCTIONS
from ea_fairseq.search.native_model import NativeModel
from ea_fairseq.search.native_obstacles import Watch, obstacles
from ea_fairseq.search.native_vocabulary import ShortVocabulary, Vocabulary
from ea_fairseq.search.precision import is_faster_in_bfloat16

logger = logging.getLogger(__name__)
fairseq_generate = SequenceGenerator._generate
fairseq_inference_with_bleu = TranslationTask._inference_with_bleu
models_known: WeakKeyDictionary[torch.nn.Module, "KnownModel"] = WeakKeyDictionary()
norms_known: WeakKeyDictionary[torch.nn.Module, Tensor] = WeakKeyDictionary()  # of parameters, in validation
told: set[str] = set()  # the reasons that were logged
ASKED = {"shortlist": "the shortlist", "native_bf16": "bfloat16"}  # what a generator may have of native search
NO_MEMORY, NOT_FINITE = 1, 2  # what translate returns
BRIEF_SENTENCES, BRIEF_WORDS = 16, 3  # of the search that tells whether bfloat16 pays

Hypothesis = dict[str, Tensor]


class KnownModel:
    """A model in native code, or what keeps it from that, as long as its parameters stay what they are."""

    def __init__(self, model: torch.nn.Module):
        self.watch = Watch(model)
        self.state = self.watch.state()
        self.obstacle = next(obstacles(model), None)
        self.packed: dict[bool, NativeModel] = {}
        self.bfloat16_pays: dict[int, bool] = {}  # by the width of the beam

    def native(self, model: torch.nn.Module, bfloat16: bool) -> NativeModel:
        """The model's parameters, packed once."""
        if bfloat16 not in self.packed:
            self.packed[bfloat16] = NativeModel(model, bfloat16)
        return self.packed[bfloat16]


def known(model: torch.nn.Module) -> KnownModel:
    """What is known of a model, found out anew where something has changed."""
    found = models_known.get(model)
    if found is None or found.state != found.watch.state():
        found = models_known[model] = KnownModel(model)
    return found


def patch_search() -> None:
    """Replaces ``SequenceGenerator._generate``, which all of fairseq's commands translate with, and what scores BLEU
    in validation."""
    SequenceGenerator._generate = generate
    TranslationTask._inference_with_bleu = inference_with_bleu


def forget_if_changed(model: torch.nn.Module) -> None:
    """Forgets a model that was trained meanwhile: optimizers write to ``.data``, which torch does not count."""
    norms = torch.stack([parameter.detach().float().norm() for parameter in model.parameters()])
    if model not in norms_known or not torch.equal(norms, norms_known[model]):
        norms_known[model] = norms
        models_known.pop(model, None)


def inference_with_bleu(
    self: TranslationTask, generator: SequenceGenerator, sample: dict, model: torch.nn.Module
) -> Any:
    """fairseq's BLEU of a batch in validation, which reads no attention: so layers need not return it."""
    for searched in generator.model.models:
        forget_if_changed(searched)
    reads_tokens = type(generator) is SequenceGenerator
    layers: list[Any] = [layer for layer in model.modules() if getattr(layer, "need_attn", False) and reads_tokens]
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
    """Hypotheses of each sentence of a batch, the best first, as fairseq's ``_generate`` returns them.

    Raises:
        UserError: where the beam has no room for a hypothesis.
    """
    from ea_fairseq.models.transformer import MechanismTransformer

    if self.beam_size < 1:
        raise UserError(f"--beam must be at least 1, not {self.beam_size}")
    models = list(self.model.models)
    asked = [said for name, said in ASKED.items() if getattr(self, name, None)]
    if len(models) == 1 and isinstance(models[0], MechanismTransformer):
        model = known(models[0])
        reason = refusal(self, sample, prefix_tokens, constraints) or model.obstacle
        if reason is None:
            bfloat16 = getattr(self, "native_bf16", False)
            if bfloat16 and self.beam_size not in model.bfloat16_pays:
                source = sample["net_input"]["src_tokens"]
                model.bfloat16_pays[self.beam_size] = does_bfloat16_pay(self, model, source, bos_token)
            native = model.native(models[0], bfloat16 and model.bfloat16_pays[self.beam_size])
            hypotheses = translate(self, native, sample["net_input"], prefix_tokens, bos_token)
            if hypotheses is not None:
                return hypotheses
            reason = "scores are not finite"
        tell(reason, asked)
    elif asked:
        tell("it is an ensemble, or a model of fairseq's own", asked)
    return fairseq_generate(self, sample, prefix_tokens, constraints, bos_token)


def does_bfloat16_pay(generator: SequenceGenerator, model: KnownModel, source: Tensor, first: int | None) -> bool:
    """Whether the first words of some sentences (B, S) are found as fast in bfloat16 as in float32; logs if not."""
    brief = copy(generator)
    brief.max_len_a, brief.max_len_b, brief.min_len, brief.match_source_len = 0, BRIEF_WORDS, 1, False
    source = source[:BRIEF_SENTENCES]
    search = f"{BRIEF_WORDS} words of {len(source)} sentences, beam {generator.beam_size}"

    def translate_briefly(bfloat16: bool) -> None:
        translate(brief, model.native(generator.model.single_model, bfloat16), {"src_tokens": source}, None, first)

    return is_faster_in_bfloat16(translate_briefly, search)


def tell(reason: str, asked: list[str]) -> None:
    """Logs once why fairseq's search translates, and without which of native search's options."""
    if reason not in told:
        told.add(reason)
        without = f", and without {' and '.join(asked)}" if asked else ""
        logger.info(f"fairseq's beam search translates, not native code{without}: {reason}")


def refusal(
    generator: SequenceGenerator, sample: dict, prefix_tokens: Tensor | None, constraints: Tensor | None
) -> str | None:
    """Which option of the search native code does not have, in words; None where it has all."""
    source = sample["net_input"].get("src_tokens")
    refused = {
        "another kind of search": type(generator) is not SequenceGenerator or type(generator.search) is not BeamSearch,
        "such prefix tokens": has_odd_prefix(generator, source, prefix_tokens),
        "constraints": constraints is not None,
        "a language model": generator.lm_model is not None,
        "a beam as wide as the vocabulary": 2 * generator.beam_size + 3 > generator.vocab_size,
        "sources that are no words": source is None,
        "--match-source-len of such long sentences": is_beyond(generator, sample["net_input"]),
        "sentences without words": has_empty_sentence(source, generator.pad),
        "sentences of more words than there are positions": has_long_sentence(generator, source),
    }
    return next((f"it does not know {option}" for option, is_asked in refused.items() if is_asked), None)


def has_empty_sentence(source: Tensor | None, padding: int) -> bool:
    """Whether one of the sentences (B, S) is all padding, or there is none."""
    return source is not None and not (len(source) and source.ne(padding).any(dim=1).all())


def longest_target(generator: SequenceGenerator, source: int) -> int:
    """The most words of a hypothesis, without the end of sentence, for sources of so many words."""
    return min(int(generator.max_len_a * source + generator.max_len_b), generator.max_len - 1)


def has_long_sentence(generator: SequenceGenerator, source: Tensor | None) -> bool:
    """Whether sentences (B, S) or their hypotheses may have more words than there are positions."""
    if source is None:
        return False
    model, words = generator.model.single_model, source.size(1)
    lengths = (model.encoder, words), (model.decoder, longest_target(generator, words) + 1)
    tables = ((side.embed_positions, length) for side, length in lengths if side.embed_positions is not None)
    return any(length > table.max_positions for table, length in tables)


def has_odd_prefix(generator: SequenceGenerator, source: Tensor | None, prefix: Tensor | None) -> bool:
    """Whether prefixes (B, P) are those of other sentences, or end after a word that is searched, which fails."""
    if prefix is None or source is None:
        return False
    is_searched = prefix.eq(generator.pad).cumsum(dim=-1) > 0
    return len(prefix) != len(source) or bool((prefix.eq(generator.eos) & is_searched).any())


def translate(
    generator: SequenceGenerator,
    native: NativeModel,
    net_input: dict[str, Tensor],
    prefix: Tensor | None,
    first: int | None,
) -> list[list[Hypothesis]] | None:
    """Hypotheses of source sentences (B, S), with prefixes (B, P); None where no word has a finite score.

    Raises:
        IndexError: where a token is none of the model's; MemoryError: where there is none for the caches.
    """
    source = net_input["src_tokens"]
    sentences, length = source.shape
    first = generator.eos if first is None else first
    prefix = source.new_empty(sentences, 0) if prefix is None else prefix
    suppressed = generator.token_indices_to_suppress
    suppressed = source.new_empty(0) if suppressed is None else suppressed
    in_target = torch.cat([source.new_tensor([first]), prefix.flatten(), suppressed])
    for tokens, symbols in zip((source, in_target), native.symbols, strict=True):
        if tokens.numel() and not 0 <= tokens.min() <= tokens.max() < symbols:
            raise IndexError(f"a token is none of the {symbols:,} that the model knows")
    beam = generator.beam_size
    limit = longest_target(generator, length)
    if generator.match_source_len:
        limit = int(source_lengths(generator, net_input).max())
    assert generator.min_len <= limit, "min_len cannot be larger than max_len, please adjust these!"
    words = source.ne(generator.pad)
    begins = torch.cat([torch.zeros(1, dtype=torch.int64), words.sum(dim=1).cumsum(dim=0)])
    tokens = source[words].int()
    native.make_positions(length, limit + 1)
    vocabulary = vocabulary_of(generator, native, source, in_target)
    prefix, suppressed = vocabulary.places(prefix), vocabulary.places(suppressed)
    first, eos, pad, unk = vocabulary.places(
        torch.tensor([first, generator.eos, generator.pad, generator.unk])
    ).tolist()
    found = torch.zeros(sentences, beam, limit + 1, dtype=torch.int32)
    scores = torch.empty(sentences, beam, limit + 1)
    lengths = torch.zeros(sentences, beam, dtype=torch.int64)
    fields = FUNCTIONS["translate"](
        encoder=native.encoder,
        decoder=vocabulary.decoder,
        vocabulary=vocabulary.projection,
        sentences=sentences,
        source=tokens.data_ptr(),
        begins=begins.data_ptr(),
        beam=beam,
        min_len=generator.min_len,
        max_len=limit,
        unk_penalty=generator.unk_penalty,
        temperature=generator.temperature,
        first=first,
        eos=eos,
        pad=pad,
        unk=unk,
        ngram=getattr(generator.repeat_ngram_blocker, "no_repeat_ngram_size", 0),
        prefix_length=prefix.size(1),
        suppressed_words=len(suppressed),
        prefix=prefix.data_ptr(),
        suppressed=suppressed.data_ptr(),
        tokens=found.data_ptr(),
        scores=scores.data_ptr(),
        lengths=lengths.data_ptr(),
        parallel=native_library.parallel(),
        threads=torch.get_num_threads(),
    )
    instructions = "avx512_bf16" if native.bfloat16 else native_library.instruction_set()
    failed = native_library.function("translate", instructions)(byref(fields))
    if failed == NO_MEMORY:
        raise MemoryError("there is no memory for the caches of the decoder: translate fewer sentences at once")
    if failed:
        return None
    longest = source_lengths(generator, net_input) if generator.match_source_len else None
    return hypotheses_of(generator, vocabulary.words(found), scores, lengths, longest)


def vocabulary_of(generator: SequenceGenerator, native: NativeModel, source: Tensor, others: Tensor) -> Vocabulary:
    """The target words to choose from: those of the generator's shortlist, if it has one, and some others."""
    shortlist = getattr(generator, "shortlist", None)
    if shortlist is None:
        return Vocabulary(native)
    others = torch.cat([others, others.new_tensor([generator.eos, generator.pad, generator.unk])])
    return ShortVocabulary(native, shortlist.words(source, others))


def is_beyond(generator: SequenceGenerator, net_input: dict[str, Tensor]) -> bool:
    """Whether ``--match-source-len`` lets a target be longer than the decoder has positions."""
    is_asked = generator.match_source_len and "src_tokens" in net_input
    return is_asked and bool((source_lengths(generator, net_input) >= generator.max_len).any())


def source_lengths(generator: SequenceGenerator, net_input: dict[str, Tensor]) -> Tensor:
    """What ``--match-source-len`` compares with, (B): the collater's lengths, or words without the end of sentence."""
    source = net_input["src_tokens"]
    return net_input.get("src_lengths", (source.ne(generator.eos) & source.ne(generator.pad)).sum(dim=1))


def hypotheses_of(
    generator: SequenceGenerator, tokens: Tensor, scores: Tensor, lengths: Tensor, longest: Tensor | None
) -> list[list[Hypothesis]]:
    """What fairseq returns of hypotheses that ended.

    Args:
        tokens, scores: (sentences, beam, longest), scores of a hypothesis up to and with each token.
        lengths: (sentences, beam), 0 where there is no hypothesis.
        longest: (sentences), the words beyond which a hypothesis scores -inf, if there is such a limit.
    """
    none = torch.empty(0)
    positional = scores.diff(dim=-1, prepend=scores.new_zeros(*lengths.shape, 1))
    totals = scores.gather(-1, (lengths - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
    if generator.normalize_scores:
        totals = totals / lengths.clamp(min=1).to(totals) ** generator.len_penalty
    totals = totals.masked_fill(lengths == 0, -torch.inf)
    if longest is not None:
        totals = totals.masked_fill(lengths - 1 > longest.unsqueeze(-1), -torch.inf)
    totals, order = totals.sort(dim=-1, descending=True, stable=True)
    return [
        [
            {
                "tokens": tokens[sentence, place, : lengths[sentence, place]],
                "score": total,
                "attention": none,
                "alignment": none,
                "positional_scores": positional[sentence, place, : lengths[sentence, place]],
            }
            for total, place in zip(totals[sentence], order[sentence].tolist(), strict=True)
            if lengths[sentence, place]
        ]
        for sentence in range(len(tokens))
    ]
