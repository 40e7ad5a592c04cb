"""Where a training validates by BLEU, native code translates, with the parameters that it has by then."""

from types import SimpleNamespace

import pytest
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from torch.nn.utils.rnn import pad_sequence

from ea_fairseq.search import native_search
from model_checks import native_only
from searches import WORDS, batch, model_of

pytestmark = native_only


@pytest.fixture
def validated():
    """A model that is asked for attention, as in every training, a generator, and a batch that it translates right."""
    model = model_of("all skips, kernel 5")
    for layer in model.decoder.layers:
        layer.need_attn = True
    sample = batch([3, 1, 9, 17, 5], seed=1)
    generator = SequenceGenerator([model], WORDS, beam_size=4, max_len_b=25, min_len=6)
    best = [hypotheses[0]["tokens"] for hypotheses in native_search.fairseq_generate(generator, sample)]
    sample["target"] = pad_sequence(best, batch_first=True, padding_value=WORDS.pad())
    return model, sample, generator


def bleu_of(model, sample: dict, generator: SequenceGenerator):
    """fairseq's BLEU of a batch, as ``fairseq-train --eval-bleu`` counts it where it validates."""
    cfg = SimpleNamespace(eval_bleu_remove_bpe=None, eval_bleu_print_samples=False, eval_tokenized_bleu=True)
    task = SimpleNamespace(
        cfg=cfg,
        tgt_dict=WORDS,
        tokenizer=None,
        inference_step=lambda generator, models, sample, prefix_tokens: generator.generate(models, sample),
    )
    return TranslationTask._inference_with_bleu(task, generator, sample, model)


def test_native_search_translates_where_a_training_validates_by_bleu(validated, monkeypatch):
    native_search.logged.clear()
    found = bleu_of(*validated)
    assert not native_search.logged, "fairseq's search translated instead"
    monkeypatch.setattr(native_search, "translate", lambda *args: None)
    expected = bleu_of(*validated)
    assert (found.counts, found.totals, found.sys_len) == (expected.counts, expected.totals, expected.sys_len)
    assert found.counts == found.totals and found.counts[0] > 0
    assert all(layer.need_attn for layer in validated[0].decoder.layers)


def test_validations_of_a_training_see_what_its_optimizer_has_changed(validated, monkeypatch):
    """fairseq's optimizers write to ``.data``, which torch counts as no change of a parameter."""
    before = bleu_of(*validated)
    for parameter in validated[0].parameters():
        parameter.data.mul_(0.5)
    after = bleu_of(*validated)
    monkeypatch.setattr(native_search, "translate", lambda *args: None)
    assert bleu_of(*validated).counts == after.counts != before.counts
