"""A beam search of fairseq over a batch of random sentences, in this process."""

import torch
from fairseq.sequence_generator import SequenceGenerator

from tiny import dictionary, random_tokens


def generator_of(models, beam=3, **options) -> SequenceGenerator:
    return SequenceGenerator(models, dictionary(), beam_size=beam, max_len_b=20, min_len=18, **options)


def sample(seed: int) -> dict:
    source = random_tokens(torch.Generator().manual_seed(seed), 4, 6)
    return {"net_input": {"src_tokens": source, "src_lengths": torch.full((4,), 6)}}


def found(hypotheses: list) -> list:
    return [(hypothesis["tokens"].tolist(), hypothesis["score"].item()) for beam in hypotheses for hypothesis in beam]
