"""The call of native code that translates a batch: tokens in, hypotheses out."""

from ctypes import Structure, byref

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.cpu.interface import FUNCTIONS
from ea_fairseq.search.native_model import NativeModel, pack_linear
from ea_fairseq.search.support import max_target_length, source_lengths

NO_MEMORY = 1  # returned by translate, which returns 2 if no token has a finite score

Hypothesis = dict[str, Tensor]


class Vocabulary:
    """All target tokens of a model; a token's index in the output projection is its index in the dictionary.

    Attributes:
        decoder: the decoder with the embeddings of these tokens.
        projection: the output projection to these tokens.
    """

    decoder: Structure
    projection: Structure

    def __init__(self, native: NativeModel):
        self.decoder, self.projection = native.decoder, native.output_projection

    def indices(self, tokens: Tensor) -> Tensor:
        """The indices of tokens, int32."""
        return tokens.int().contiguous()

    def tokens(self, indices: Tensor) -> Tensor:
        """The tokens at indices, int64."""
        return indices.long()


class ShortlistVocabulary(Vocabulary):
    """Some target tokens (W,) in ascending order; a token's index is its place among them.

    The decoder has the positional embeddings that are packed when this is made.
    """

    def __init__(self, native: NativeModel, chosen: Tensor):
        self._chosen = chosen
        self._indices = torch.full((native.vocabulary_sizes[1],), -1).index_copy(0, chosen, torch.arange(len(chosen)))
        # The structs point to these tensors, so they are stored here.
        self._embeddings = native.target_embeddings[chosen]
        bias = None if native.output_bias is None else native.output_bias[chosen]
        self.projection, self._packed = pack_linear(native.output_weight[chosen], bias, native.precision)
        self.decoder = type(native.decoder).from_buffer_copy(native.decoder)
        self.decoder.embeddings = self._embeddings.data_ptr()

    def indices(self, tokens: Tensor) -> Tensor:
        return self._indices[tokens].int()

    def tokens(self, indices: Tensor) -> Tensor:
        return self._chosen[indices.long()]


def vocabulary_of(generator: SequenceGenerator, native: NativeModel, source: Tensor, required: Tensor) -> Vocabulary:
    """The vocabulary of a search: all target tokens, or those that the generator's shortlist has for source tokens,
    with some required ones."""
    shortlist = getattr(generator, "shortlist", None)
    if shortlist is None:
        return Vocabulary(native)
    required = torch.cat([required, required.new_tensor([generator.eos, generator.pad, generator.unk])])
    return ShortlistVocabulary(native, shortlist.target_tokens(source, required))


def translate(
    generator: SequenceGenerator,
    native: NativeModel,
    net_input: dict[str, Tensor],
    prefix: Tensor | None,
    bos_token: int | None,
) -> list[list[Hypothesis]] | None:
    """Hypotheses of source sentences (B, S) that begin with prefixes (B, P); None if no token has a finite score.

    Raises:
        IndexError: if a token is not in the model's dictionaries.
        MemoryError: if the decoder's caches do not fit into memory.
    """
    source = net_input["src_tokens"]
    sentences, length = source.shape
    beam = generator.beam_size
    bos = generator.eos if bos_token is None else bos_token
    if (start := generator.model.single_model.decoder.start_token) is not None:  # of --start-with-padding
        bos = start
    prefix = source.new_empty(sentences, 0) if prefix is None else prefix
    suppressed = generator.token_indices_to_suppress
    suppressed = source.new_empty(0) if suppressed is None else suppressed
    # Check the tokens: native code uses them as indices.
    required = torch.cat([source.new_tensor([bos]), prefix.flatten(), suppressed])
    for tokens, vocabulary_size in zip((source, required), native.vocabulary_sizes, strict=True):
        if tokens.numel() and not 0 <= tokens.min() <= tokens.max() < vocabulary_size:
            raise IndexError(f"a token is not one of the {vocabulary_size:,} in the model's dictionary")
    # Limit the length of hypotheses.
    max_len = max_target_length(generator, length)
    if generator.match_source_len:
        max_len = int(source_lengths(generator, net_input).max())
    assert generator.min_len <= max_len, "min_len cannot be larger than max_len, please adjust these!"
    # Remove the padding of the source.
    is_token = source.ne(generator.pad)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), is_token.sum(dim=1).cumsum(dim=0)])
    source_tokens = source[is_token].int()
    # Choose the target vocabulary, and replace tokens by their indices in it.
    native.pack_positions(length, max_len + 1)
    vocabulary = vocabulary_of(generator, native, source, required)
    prefix, suppressed = vocabulary.indices(prefix), vocabulary.indices(suppressed)
    special = torch.tensor([bos, generator.eos, generator.pad, generator.unk])
    bos, eos, pad, unk = vocabulary.indices(special).tolist()
    # Translate.
    tokens = torch.zeros(sentences, beam, max_len + 1, dtype=torch.int32)
    scores = torch.empty(sentences, beam, max_len + 1)
    lengths = torch.zeros(sentences, beam, dtype=torch.int64)
    arguments = FUNCTIONS["translate"](
        encoder=native.encoder,
        decoder=vocabulary.decoder,
        output_projection=vocabulary.projection,
        sentences=sentences,
        source_tokens=source_tokens.data_ptr(),
        source_offsets=offsets.data_ptr(),
        beam_size=beam,
        min_len=generator.min_len,
        max_len=max_len,
        unk_penalty=generator.unk_penalty,
        temperature=generator.temperature,
        bos=bos,
        eos=eos,
        pad=pad,
        unk=unk,
        no_repeat_ngram_size=getattr(generator.repeat_ngram_blocker, "no_repeat_ngram_size", 0),
        prefix_length=prefix.size(1),
        suppressed_count=len(suppressed),
        prefix=prefix.data_ptr(),
        suppressed=suppressed.data_ptr(),
        tokens=tokens.data_ptr(),
        scores=scores.data_ptr(),
        lengths=lengths.data_ptr(),
        parallel=native_library.parallel(),
        threads=torch.get_num_threads(),
    )
    instructions = native_library.reduced_instruction_set(native.precision) or native_library.instruction_set()
    error = native_library.function("translate", instructions)(byref(arguments))
    if error == NO_MEMORY:
        raise MemoryError("the decoder's caches do not fit into memory: translate fewer sentences at once")
    if error:
        return None
    max_lengths = source_lengths(generator, net_input) if generator.match_source_len else None
    return hypotheses_of(generator, vocabulary.tokens(tokens), scores, lengths, max_lengths)


def hypotheses_of(
    generator: SequenceGenerator, tokens: Tensor, scores: Tensor, lengths: Tensor, max_lengths: Tensor | None
) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, best first, in fairseq's form.

    Args:
        tokens: (B, beam, longest).
        scores: (B, beam, longest), the log-probability of a hypothesis up to and including each token.
        lengths: (B, beam), 0 if there is no hypothesis.
        max_lengths: (B), the number of tokens beyond which a hypothesis scores -inf; None without such a limit.
    """
    empty = torch.empty(0)
    positional = scores.diff(dim=-1, prepend=scores.new_zeros(*lengths.shape, 1))
    totals = scores.gather(-1, (lengths - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
    if generator.normalize_scores:
        totals = totals / lengths.clamp(min=1).to(totals) ** generator.len_penalty
    totals = totals.masked_fill(lengths == 0, -torch.inf)
    if max_lengths is not None:
        totals = totals.masked_fill(lengths - 1 > max_lengths.unsqueeze(-1), -torch.inf)
    totals, order = totals.sort(dim=-1, descending=True, stable=True)
    return [
        [
            {
                "tokens": tokens[sentence, index, : lengths[sentence, index]],
                "score": total,
                "attention": empty,
                "alignment": empty,
                "positional_scores": positional[sentence, index, : lengths[sentence, index]],
            }
            for total, index in zip(totals[sentence], order[sentence].tolist(), strict=True)
            if lengths[sentence, index]
        ]
        for sentence in range(len(tokens))
    ]
