"""fairseq's beam search scores a hypothesis as one full pass over it does."""

import pytest
import torch
from fairseq.data.language_pair_dataset import collate
from fairseq.sequence_generator import SequenceGenerator

from tiny import SKIPS, TINY, build, build_loud, dictionary, make_varied, random_tokens

WORDS = dictionary()
LONGEST = 6
SETTINGS = {
    "kernel 1": {"ea_kernel_size": 1, **SKIPS},
    "kernel 3": {"ea_kernel_size": 3, **SKIPS},
    "kernel 5": {"ea_kernel_size": 5, **SKIPS},
    "paper": {},
    "plain encoder-decoder attention": {"no_cross_conv": True},
    "plain decoder attention": {"no_decoder_conv": True},
}


def sentence(length: int, seed: int) -> torch.Tensor:
    words = random_tokens(torch.Generator().manual_seed(seed), 1, length)[0]
    return torch.cat([words, torch.tensor([WORDS.eos()])])


SOURCES = [sentence(length, seed=length) for length in (1, 3, 8, 5)]


def batch(sources, targets):
    """The batch fairseq makes: sources padded on the left, targets on the right."""
    samples = [
        {"id": index, "source": source, "target": target}
        for index, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
    sample = collate(samples, WORDS.pad(), WORDS.eos(), left_pad_source=True, left_pad_target=False)
    return sample, sample["id"].tolist()


def loud_model(**options):
    return make_varied(build_loud(**options))


def search(models, beam: int, prefix=None):
    """Beam search in one batch; yields (source, hypothesis, source padding on the left) for each hypothesis."""
    sample, order = batch(SOURCES, SOURCES)
    for model in models:
        model.make_generation_fast_(need_attn=True)
    generator = SequenceGenerator(models, WORDS, beam_size=beam, max_len_b=LONGEST)
    results = generator.generate(models, sample, prefix_tokens=prefix)
    longest = sample["net_input"]["src_tokens"].size(1)
    for index, hypotheses in zip(order, results, strict=True):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            yield SOURCES[index], hypothesis, longest - len(SOURCES[index])


def full_pass(model, source, target):
    """Log-probabilities (T,) of one target and the alignment (T, S) of one teacher-forced pass."""
    sample, _ = batch([source], [target])
    with torch.no_grad():
        output = model(**sample["net_input"])
    log_probs = model.get_normalized_probs(output, log_probs=True)[0]
    return log_probs.gather(1, target.unsqueeze(1)).squeeze(1), output[1]["attn"][0][0]


@pytest.mark.parametrize("beam", [1, 3, 5])
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_scores_and_alignments_are_those_of_a_full_pass(options, beam):
    model = loud_model(**options)
    for source, hypothesis, padding in search([model], beam):
        log_probs, alignment = full_pass(model, source, hypothesis["tokens"])
        torch.testing.assert_close(hypothesis["positional_scores"], log_probs, atol=1e-4, rtol=0)
        assert hypothesis["score"].item() == pytest.approx(log_probs.mean().item(), abs=1e-4)

        found = hypothesis["attention"].T  # (T, padding + S)
        assert found.shape == (len(hypothesis["tokens"]), padding + len(source))
        torch.testing.assert_close(found.sum(1), torch.ones(len(found)))
        torch.testing.assert_close(found[:, padding:], alignment, atol=1e-4, rtol=0)


ENSEMBLES = {
    "evolving": lambda: [loud_model(seed=seed, **SKIPS) for seed in (1, 2)],
    "with a plain Transformer": lambda: [loud_model(**SKIPS), make_varied(build("transformer", seed=2, **TINY))],
}


@pytest.mark.parametrize("ensemble", ENSEMBLES.values(), ids=ENSEMBLES)
def test_an_ensemble_averages_probabilities(ensemble):
    models = ensemble()
    for source, hypothesis, _ in search(models, beam=3):
        log_probs = [full_pass(model, source, hypothesis["tokens"])[0] for model in models]
        average = torch.stack(log_probs).exp().mean(0).log()
        assert hypothesis["score"].item() == pytest.approx(average.mean().item(), abs=1e-4)


def test_hypotheses_continue_the_prefix():
    model = loud_model(**SKIPS)
    prefix = random_tokens(torch.Generator().manual_seed(3), 1, 3).repeat(len(SOURCES), 1)
    for source, hypothesis, _ in search([model], 3, prefix):
        assert torch.equal(hypothesis["tokens"][:3], prefix[0])
        log_probs, _ = full_pass(model, source, hypothesis["tokens"])
        assert hypothesis["score"].item() == pytest.approx(log_probs.mean().item(), abs=1e-4)


def test_hypotheses_differ_in_length_and_words():
    """Otherwise the tests above would say little."""
    hypotheses = [hypothesis["tokens"].tolist() for _, hypothesis, _ in search([loud_model(**SKIPS)], beam=5)]
    assert len({tuple(tokens) for tokens in hypotheses}) > len(hypotheses) / 2
    assert len({len(tokens) for tokens in hypotheses}) > 1
