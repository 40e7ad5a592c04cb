"""Batches of invented sentences, as fairseq makes them."""

import random

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate

SHORTEST = 0.8  # of the longest sentence: fairseq puts sentences of about one length together


def lengths(sentences: int, longest: int, seed: int) -> list[int]:
    """Tokens of each sentence; the first is the longest."""
    draw = random.Random(seed)
    shortest = max(2, round(SHORTEST * longest))
    return [longest, *(draw.randint(min(shortest, longest), longest) for _ in range(sentences - 1))]


def batch(dictionary: Dictionary, sentences: int, longest: int, device: torch.device, seed: int) -> dict:
    """Sentence pairs with as many source as target tokens, padded on the left and on the right."""
    generator = torch.Generator().manual_seed(seed)

    def sentence(length: int) -> torch.Tensor:
        words = torch.randint(dictionary.nspecial, len(dictionary), (length,), generator=generator)
        words[-1] = dictionary.eos()
        return words

    pairs = [
        {"id": number, "source": sentence(length), "target": sentence(length)}
        for number, length in enumerate(lengths(sentences, longest, seed))
    ]
    made = collate(pairs, dictionary.pad(), dictionary.eos(), left_pad_source=True, left_pad_target=False)
    return utils.apply_to_sample(lambda tensor: tensor.to(device), made)
