"""A trained encoder in Python: from_pretrained, predict, features, fill_mask and attention."""

import json

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import collate_tokens
from omegaconf import OmegaConf

from binary_lines import write_binary
from ea_fairseq import EABertModel, EARobertaModel, EATransformerModel, UserError
from forked import run_forked_well
from sentence_data import PAIRS, TEXT, binarize_sentences, encoder_command

SENTENCES = ["a b c", "d e", "h g f e d"]
TEXTS = [*SENTENCES, ("a b", "b c"), ("f g h", "a")]
WORDS, BERT, PA = "words", "bert", "pa"
COMMANDS = {  # of trainings, by their folders
    WORDS: encoder_command("masked_lm", WORDS, 2),
    BERT: encoder_command("sentence_prediction", BERT, 2, arch="ea_bert_tiny"),
    PA: encoder_command("sentence_prediction", PA, 2, arch="pa_transformer_classifier"),
}
each_classifier = pytest.mark.parametrize("folder", [BERT, pytest.param(PA, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return binarize_sentences(tmp_path_factory.mktemp("user"))


def load(home, folder, data=PAIRS, model=EARobertaModel, **options):
    """The model of a training, which is done where it has not been."""
    if folder in COMMANDS and not (home / folder).is_dir():
        run_forked_well(*COMMANDS[folder], cwd=home)
    return model.from_pretrained(home / folder, "checkpoint_last.pt", home / data, **options)


@pytest.fixture(scope="module")
def classifier(home):
    return load(home, BERT)


@each_classifier
def test_classes_are_those_of_fairseqs_task(home, folder):
    hub = load(home, folder)
    path, data = str(home / folder / "checkpoint_last.pt"), {"data": str(home / PAIRS)}
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path], data)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    examples = [dataset[number] for number in range(len(dataset))]
    tokens = collate_tokens([example["net_input.src_tokens"] for example in examples], task.source_dictionary.pad())
    with torch.no_grad():
        scores = model.eval()(tokens, classification_head_name="sentence_classification_head")[0]
    lines = zip(*((home / f"valid.input{n}").read_text().splitlines() for n in (0, 1)), strict=True)
    for found, expected in zip(hub.predict(lines), scores.softmax(dim=-1), strict=True):
        assert set(found.probabilities) == {"0", "1"}
        by_label = torch.tensor([found.probabilities[task.label_dictionary[4 + number]] for number in (0, 1)])
        torch.testing.assert_close(by_label, expected, rtol=0, atol=1e-5)
        assert found.label == max(found.probabilities, key=found.probabilities.get)


def test_a_text_alone_gives_what_it_gives_among_others(classifier):
    together = classifier.predict(TEXTS), classifier.features(TEXTS)
    for text, found, features in zip(TEXTS, *together, strict=True):
        pair = (text,) if isinstance(text, str) else text
        alone = classifier.predict(*pair).probabilities
        assert alone == pytest.approx(found.probabilities, abs=1e-5)
        torch.testing.assert_close(classifier.features(*pair), features, rtol=0, atol=1e-4)
        assert features.shape == (len(classifier.encode(*pair)), 128)
    assert classifier.predict([]) == []


def test_a_pair_is_put_together_as_in_training(classifier):
    words = [classifier.dictionary[token] for token in classifier.encode("a b", "c")]
    assert words == ["<s>", "a", "b", "</s>", "c", "</s>"]


@pytest.mark.parametrize("limit", [16, 7], ids=["of the model", "of the task"])
def test_of_a_text_that_is_too_long_it_reads_what_fairseqs_task_does(home, classifier, monkeypatch, limit):
    texts = ["a b c d e f g h", "h g f e d c b a"]
    for number, text in enumerate(texts):
        write_binary(home / PAIRS / f"input{number}" / "long", classifier.dictionary, [text])
    shortened = {"shorten_method": "truncate", "max_positions": limit}
    monkeypatch.setattr(classifier.task, "cfg", OmegaConf.merge(classifier.task.cfg, shortened))
    expected = classifier.task.load_dataset("long")[0]["net_input.src_tokens"]
    assert len(expected) == limit
    assert torch.equal(classifier.encode(*texts), expected)


def test_a_regression_gives_a_number(classifier):
    classifier.task.cfg.regression_target = True
    try:
        found = classifier.predict(SENTENCES)
        assert all(isinstance(number, float) for number in found)
        assert found[0] == pytest.approx(classifier.predict(SENTENCES[0]), abs=1e-5)
    finally:
        classifier.task.cfg.regression_target = False


def test_masked_words_are_filled_by_their_probability(home):
    hub = load(home, WORDS, TEXT)
    found = hub.fill_mask("a <mask> c", topk=3)
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    assert all(one.sentence == f"a {one.word} c" for one in found)
    tokens = hub.dictionary.encode_line("<s> a <mask> c", add_if_not_exist=False).long()
    expected = hub.run(tokens.unsqueeze(0))[0, 2].softmax(dim=-1)
    assert found[0].probability == pytest.approx(expected.max().item(), abs=1e-6)
    assert sum(one.probability for one in hub.fill_mask("<mask>", topk=10**6)) == pytest.approx(1, abs=1e-4)
    with pytest.raises(UserError, match=r"^this model classifies nothing"):
        hub.predict("a b")
    for text in ("a b", "<mask> a <mask>"):
        with pytest.raises(UserError, match=r"^fill_mask needs a sentence with one <mask>"):
            hub.fill_mask(text)
    with pytest.raises(UserError, match=r"^topk must be at least 1, not 0"):
        hub.fill_mask("a <mask>", topk=0)
    hub.task.cfg.shorten_method = "truncate"
    with pytest.raises(UserError, match=r"^<mask> is beyond the 16 tokens"):
        hub.fill_mask("a " * 16 + "<mask>")


def test_a_folder_is_all_it_takes_and_text_is_prepared_as_its_data_was(home, classifier, monkeypatch):
    monkeypatch.chdir(home)
    description = {"tokenizer": "moses", "lowercase": True, "subword": "none", "models": []}
    (home / PAIRS / "preparation.json").write_text(json.dumps(description))
    try:
        hub = EARobertaModel.from_pretrained(BERT)
        assert torch.equal(hub.encode("A  b\u2028C."), classifier.encode("a b c ."))
        given = EARobertaModel.from_pretrained(BERT, tokenizer=None)
        assert torch.equal(given.encode("A b"), classifier.encode("A b"))
    finally:
        (home / PAIRS / "preparation.json").unlink()


@each_classifier
def test_attention_maps_are_those_of_translation(home, folder):
    hub = load(home, folder, model=EABertModel)
    maps = hub.attention("a b c", "d e")
    layers = len(hub.model.encoder.sentence_encoder.layers)
    assert list(maps) == [f"encoder.sentence_encoder.layers.{layer}.self_attn" for layer in range(layers)]
    for found in maps.values():
        assert found.queries == found.keys == [hub.dictionary[token] for token in hub.encode("a b c", "d e")]
        assert found.own.shape == (found.own.size(0), len(found.queries), len(found.keys))
        torch.testing.assert_close(found.logits.softmax(-1), found.probabilities)


def test_what_cannot_be_done_is_said_in_a_sentence(home, classifier, tmp_path):
    with pytest.raises(UserError, match=r"^a text has 18 tokens and the model reads at most 16: shorten it"):
        classifier.predict("a " * 16)
    for several in (classifier.predict, classifier.features):
        with pytest.raises(UserError, match=r"^a second sentence needs one first one"):
            several(["a", "b"], "c")
    with pytest.raises(UserError, match=r"^there is no folder "):
        load(home, "nothing")
    with pytest.raises(UserError, match=r"^there is no dictionary .*dict\.txt"):
        load(home, BERT, data=TEXT)
    torch.save({"model": tmp_path}, tmp_path / "checkpoint_last.pt")
    with pytest.raises(UserError, match=r"is refused: it wants to run pathlib"):
        load(tmp_path, ".", home / PAIRS)
    (home / BERT / "preparation.json").write_text(
        '{"tokenizer": "none", "lowercase": false, "subword": "none", "models": []}'
    )
    with pytest.raises(UserError, match=r"is an encoder: load it with EARobertaModel"):
        load(home, BERT, model=EATransformerModel)


@pytest.mark.slow
def test_a_classifier_fills_no_mask(home):
    with pytest.raises(UserError, match=r"^this model does not predict words"):
        load(home, PA).fill_mask("a <mask>")
