"""A trained model in Python: from_pretrained, translate and score."""

from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from sacremoses import MosesTokenizer

from checkpoints import save_loud
from commands import ROOT, run_python
from corpora import SIZES, WORDS, sentence
from ea_fairseq import EATransformerModel, UserError
from ea_fairseq.data.subword_models import learn_bpe, learn_sentencepiece
from ea_fairseq.text.subwords import make_segmenter
from tiny import build, random_tokens

SHORT = ["--max-source-positions", "24", "--max-target-positions", "20"]
SOURCES = [sentence("de", number) for number in range(4)]
TARGETS = [sentence("en", number) for number in range(4)]


def save_dictionaries(folder: Path, kind: str, model: Path):
    """One dictionary for both languages, of the pieces that a subword model makes of the sentences."""
    segment, words = make_segmenter(kind, model), Dictionary()
    for language in WORDS:
        for number in range(SIZES["train"]):
            for piece in segment(sentence(language, number)).split():
                words.add_symbol(piece)
    folder.mkdir()
    for language in WORDS:
        words.save(str(folder / f"dict.{language}.txt"))


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Folders with a space in their names: models a.pt and b.pt over BPE, with their dictionaries, and pieces.pt."""
    home = tmp_path_factory.mktemp("a home")
    texts = []
    for language in WORDS:
        texts.append(home / f"train.{language}")
        texts[-1].write_text("".join(sentence(language, number) + "\n" for number in range(SIZES["train"])))
    learn_bpe(texts, 20, home / "codes.both")
    learn_bpe(texts[1:], 5, home / "codes.en")
    learn_sentencepiece(texts, 40, home / "spm.model")
    save_dictionaries(home / "a model", "bpe", home / "codes.both")
    save_dictionaries(home / "pieces", "sentencepiece", home / "spm.model")
    for seed, name in enumerate(("a.pt", "b.pt")):
        save_loud(home / "a model", home / "a model" / name, *SHORT, languages=("de", "en"), seed=seed)
    save_loud(home / "pieces", home / "pieces" / "model.pt", *SHORT, languages=("de", "en"))
    return home


def load(home, checkpoints="a.pt:b.pt", **options):
    options = {"tokenizer": "moses", "bpe": "subword_nmt", "bpe_codes": str(home / "codes.both")} | options
    return EATransformerModel.from_pretrained(str(home / "a model"), checkpoint_file=checkpoints, **options)


@pytest.fixture(scope="module")
def hub(home):
    return load(home)


IN_PYTHON = """
import sys
from ea_fairseq import EATransformerModel
folder, codes = sys.argv[1:]
m = EATransformerModel.from_pretrained(
    folder, checkpoint_file="a.pt:b.pt", data_name_or_path=folder, tokenizer="moses", bpe="subword_nmt", bpe_codes=codes
)
print(m.translate("Der Hund schläft."))
print(m.score("Der Hund schläft.", "The dog sleeps.").mean)
print(m.attention("Der Hund schläft.", "The dog sleeps.", model=1)["decoder.layers.1.encoder_attn"].logits.sum().item())
"""


@pytest.mark.slow
def test_a_plain_python_translates_scores_and_shows_attention(home, hub):
    arguments = home / "a model", home / "codes.both"
    result = run_python(IN_PYTHON, *arguments, cwd=home, PYTHONPATH=str(ROOT))
    assert result.returncode == 0, result.stderr
    translation, score, logits = result.stdout.splitlines()
    pair = "Der Hund schläft.", "The dog sleeps."
    assert translation == hub.translate(pair[0])
    assert float(score) == pytest.approx(hub.score(*pair).mean, abs=1e-5)
    expected = hub.attention(*pair, model=1)["decoder.layers.1.encoder_attn"].logits.sum().item()
    assert float(logits) == pytest.approx(expected, abs=1e-3)


def test_a_page_of_maps_says_what_was_read_and_by_which_model(hub, tmp_path):
    page = hub.attention("Der Hund.", "The dog <i>.").to_html(tmp_path / "page.html").read_text()
    title = "Attention of ea_transformer while reading “Der Hund.” and “The dog &lt;i&gt;.”"
    assert f"<title>{title}</title>" in page and f"<h1>{title}</h1>" in page


def test_a_list_is_translated_in_its_order(hub):
    sentences = [SOURCES[3], "Hund", SOURCES[0], "die die", SOURCES[1]]
    translations = hub.translate(sentences)
    assert translations == [hub.translate(sentence) for sentence in sentences]
    assert len(set(translations)) > 2
    assert not any("@@" in translation for translation in translations)
    assert hub.translate([]) == []


def test_sentences_may_come_one_by_one(hub):
    assert hub.translate(sentence for sentence in [SOURCES[3], "Hund"]) == hub.translate([SOURCES[3], "Hund"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lenpem": 0.6}, "translate has no option lenpem: did you mean lenpen[?]"),
        ({"zzzzz": 1}, "translate has no option zzzzz"),
        ({"nbest": 3}, "nbest: translate returns only the best translation, model.generate the whole beam"),
        ({"print_alignment": "hard"}, "print_alignment: alignments are only printed with verbose=True"),
    ],
    ids=["misspelt", "unknown", "nbest", "alignment"],
)
def test_an_option_that_would_be_ignored_is_refused(hub, options, sentence):
    with pytest.raises(UserError, match=f"^{sentence}$"):
        hub.translate("Hund", **options)


def test_options_of_beam_search_are_taken(hub):
    taken = {"lenpen": 0.6, "max_len_b": 3, "nbest": 1, "no_repeat_ngram_size": 2, "skip_invalid_size_inputs": True}
    assert len(hub.translate("Hund", **taken).split()) <= 3


def test_an_empty_sentence_stays_empty(hub):
    assert hub.translate(" ") == ""
    assert hub.translate(["", "Hund", "\u3000"]) == ["", hub.translate("Hund"), ""]


def test_sentences_longer_than_a_training_batch_are_translated(home):
    hub = load(home, max_tokens=3)
    assert hub.translate(SOURCES) == load(home).translate(SOURCES)
    assert hub.translate([]) == []


def test_a_sentence_that_is_skipped_keeps_its_place(home):
    hub = load(home)
    too_long = "Hund " * hub.max_positions[0]
    found = hub.translate([too_long, "Hund", too_long], skip_invalid_size_inputs=True)
    assert found == ["", hub.translate("Hund"), ""]


def test_sentencepiece_goes_in_and_out(home):
    hub = EATransformerModel.from_pretrained(
        home / "pieces", bpe="sentencepiece", sentencepiece_model=str(home / "spm.model")
    )
    for source, target in zip(SOURCES, TARGETS, strict=True):
        assert hub.decode(hub.encode(source)) == source
        assert hub.decode(hub.encode_target(target)) == target
    translation = hub.translate(SOURCES[0])
    assert translation and "\u2581" not in translation
    assert "".join(hub.score(SOURCES[0], TARGETS[0]).words) == "\u2581" + TARGETS[0].replace(" ", "\u2581") + "</s>"


def test_moses_tokenizes_by_the_languages_of_the_model(hub):
    text = "Das kostet ca. Hund bzw. Katze, says Mr. Dog."
    german, english = (MosesTokenizer(language).tokenize(text, return_str=True) for language in ("de", "en"))
    assert german != english
    assert hub.tokenize(text) == german
    assert hub.target_tokenizer.encode(text) == english
    assert hub.target_tokenizer.decode("Mr. Dog 's tree .") == "Mr. Dog's tree."


def test_the_target_can_have_its_own_subword_model(home, hub):
    separate = load(home, target_subword=home / "codes.en")
    assert torch.equal(separate.encode(SOURCES[0]), hub.encode(SOURCES[0]))
    segment = make_segmenter("bpe", home / "codes.en")
    tokenized = MosesTokenizer("en").tokenize(TARGETS[0], return_str=True)
    expected = hub.tgt_dict.encode_line(segment(tokenized), add_if_not_exist=False).long()
    assert torch.equal(separate.encode_target(TARGETS[0]), expected)
    assert not torch.equal(hub.encode_target(TARGETS[0]), expected)


@pytest.mark.parametrize("checkpoints", ["a.pt", "a.pt:b.pt"])
def test_beam_search_and_score_agree_on_the_translations_found(home, checkpoints):
    hub = load(home, checkpoints)
    sources = [hub.encode(source) for source in SOURCES]
    for source, hypotheses in zip(sources, hub.generate(sources, beam=5, nbest=5), strict=True):
        found = hub.score_tokens([source] * len(hypotheses), [hypothesis["tokens"] for hypothesis in hypotheses])
        assert len({tuple(score.words) for score in found}) == 5
        for score, hypothesis in zip(found, hypotheses, strict=True):
            torch.testing.assert_close(score.log_probs, hypothesis["positional_scores"], atol=1e-4, rtol=0)
            assert score.mean == pytest.approx(hypothesis["score"].item(), abs=1e-4)


def test_scores_are_the_log_probabilities_of_a_teacher_forced_pass(home):
    hub = load(home, "a.pt")
    (score,) = hub.score(SOURCES[:1], TARGETS[:1])
    source, target = hub.encode(SOURCES[0]), hub.encode_target(TARGETS[0])
    with torch.no_grad():
        output = hub.models[0](source.unsqueeze(0), torch.tensor([len(source)]), target.roll(1).unsqueeze(0))[0][0]
    expected = output.log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(score.log_probs, expected, atol=1e-5, rtol=0)
    assert score.words == [*hub.tgt_dict.string(target).split(), "</s>"]
    assert score.total == pytest.approx(expected.sum().item(), abs=1e-4)
    assert score.mean == pytest.approx(expected.mean().item(), abs=1e-5)


def test_an_ensemble_scores_by_the_average_of_probabilities(home, hub):
    both = [load(home, name).score(SOURCES[0], TARGETS[0]).log_probs.exp() for name in ("a.pt", "b.pt")]
    assert not torch.allclose(*both)
    found = hub.score(SOURCES[0], TARGETS[0]).log_probs.exp()
    torch.testing.assert_close(found, (both[0] + both[1]) / 2, atol=1e-6, rtol=1e-4)


def test_pairs_are_scored_alike_alone_and_in_a_list(hub):
    sources, targets = ["Hund", *SOURCES, "die Katze"], [TARGETS[3], *TARGETS, "a"]
    for found, source, target in zip(hub.score(sources, targets), sources, targets, strict=True):
        alone = hub.score(source, target)
        assert found.words == alone.words
        torch.testing.assert_close(found.log_probs, alone.log_probs, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("data", "cwd"), [(".", "."), ("./../a model", "."), ("a model", "."), ("../a model", "pieces")]
)
def test_a_data_path_is_relative_to_the_model_where_it_starts_with_a_dot(home, monkeypatch, data, cwd):
    monkeypatch.chdir(home / cwd)
    hub = EATransformerModel.from_pretrained(home / "a model", "a.pt", data)
    assert len(hub.src_dict) == len(Dictionary.load(str(home / "a model" / "dict.de.txt")))


def test_a_plain_data_path_is_not_relative_to_the_model(home, monkeypatch):
    (home / "a model" / "inner").mkdir(exist_ok=True)
    monkeypatch.chdir(home)
    with pytest.raises(UserError, match="no folder inner"):
        EATransformerModel.from_pretrained(home / "a model", "a.pt", "inner")


@pytest.mark.parametrize(
    ("folder", "options", "parts"),
    [
        ("nowhere", {}, ["no folder", "nowhere"]),
        ("a model", {"checkpoint_file": "a.pt:c.pt"}, ["no checkpoint", "c.pt"]),
        ("a model", {"checkpoint_file": "half.pt"}, ["half.pt is not whole"]),
        ("a model", {"data_name_or_path": "/nowhere"}, ["no folder /nowhere", "data_name_or_path"]),
        ("a model", {"data_name_or_path": ".."}, ["no dictionary", "dict.de.txt", "data_name_or_path"]),
        ("a model", {"bpe": "subword_nmt"}, ["bpe='subword_nmt' needs bpe_codes"]),
        ("a model", {"bpe": "subword_nmt", "bpe_codes": "/no/codes"}, ["no file /no/codes", "bpe_codes"]),
        ("a model", {"bpe": "sentencepiece"}, ["bpe='sentencepiece' needs sentencepiece_model"]),
        ("a model", {"target_subword": "codes.en"}, ["target_subword needs bpe"]),
    ],
)
def test_what_is_missing_is_named_in_one_sentence(home, folder, options, parts):
    whole = (home / "a model" / "a.pt").read_bytes()
    (home / "a model" / "half.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError) as refusal:
        EATransformerModel.from_pretrained(home / folder, **{"checkpoint_file": "a.pt"} | options)
    assert all(part in str(refusal.value) for part in parts)
    assert str(refusal.value).endswith(".") and "\n" not in str(refusal.value)


def test_codes_without_their_version_are_refused(home, tmp_path):
    """subword-nmt takes them for those of version 0.1, which segment words otherwise."""
    codes = tmp_path / "codes"
    codes.write_text((home / "codes.both").read_text().partition("\n")[2])
    with pytest.raises(UserError, match=f"^line 1 of {codes} is not '#version: 0.2' or 0.1"):
        load(home, bpe_codes=str(codes))


LONG = " ".join(["die"] * 30)


@pytest.mark.parametrize(
    ("source", "target", "part"),
    [
        (["Hund", "Katze"], ["dog", ""], "target sentence 2 is empty"),
        ("Hund", "  ", "target sentence 1 is empty"),
        ("", "dog", "source sentence 1 is empty"),
        ("Hund", LONG.replace("die", "a"), r"target sentence 1 has \d\d tokens and the model reads at most 20"),
        (["Hund", LONG], ["dog", "dog"], r"source sentence 2 has \d\d tokens and the model reads at most 24"),
        (["Hund"], ["dog", "dog"], "a target for each source"),
        ("Hund", ["dog"], "a target for each source"),
    ],
)
def test_pairs_that_cannot_be_scored_are_refused(hub, source, target, part):
    with pytest.raises(UserError, match=part):
        hub.score(source, target)
    if isinstance(source, str) and isinstance(target, str):
        with pytest.raises(UserError, match=part):
            hub.attention(source, target)


def test_a_sentence_that_is_too_long_is_refused_or_left_out(hub):
    with pytest.raises(UserError, match="source sentence 2 has"):
        hub.translate(["Hund", LONG])
    tokens = [hub.encode("Hund"), hub.encode(LONG)]
    assert len(hub.generate(tokens, skip_invalid_size_inputs=True)) == 1


def test_a_plain_transformer_translates_scores_and_shows_maps(home):
    save_loud(home / "a model", home / "plain.pt", arch="transformer", languages=("de", "en"))
    hub = EATransformerModel.from_pretrained(home, "plain.pt", home / "a model")
    source, target = (random_tokens(torch.Generator().manual_seed(1), 1, 4)[0] for _ in range(2))
    assert hub.score_tokens([source], [target])[0].mean < 0
    assert len(hub.attention("Hund", "dog")) == 6


def test_a_model_without_attention_shows_no_maps(home):
    hub = load(home, "a.pt")
    hub.models[0] = build("lstm", criterion="cross_entropy")
    with pytest.raises(UserError, match="no attention"):
        hub.attention("Hund", "dog")
