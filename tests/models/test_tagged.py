"""Models that were trained with tags: in Python and in the commands; ea-fairseq translate also samples."""

import csv
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from checkpoints import save_loud
from corpora import LOWERCASED, SIZES, prepared, sentence, write_corpus
from ea_fairseq import EATransformerModel, UserError
from ea_fairseq.experiments.demo.translators import Translators
from ea_fairseq.experiments.maps import attention_maps
from ea_fairseq.experiments.translate import load
from ea_fairseq.plain.precisions import PRECISIONS

POSITIONS = ["--max-source-positions", "20", "--max-target-positions", "30"]
SOURCES = [sentence("de", number) for number in range(5)]
TARGETS = [sentence("en", number) for number in range(5)]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Data whose source sentences have the tags news and talk."""
    home = tmp_path_factory.mktemp("a home")
    corpus = write_corpus(home / "a corpus")
    (corpus / "train.tags").write_text("news\ntalk\n" * (SIZES["train"] // 2))
    prepared(*LOWERCASED, corpus, home / "out")
    save_loud(home / "out/data-bin", home / "out/data-bin/model.pt", *POSITIONS, languages=("de", "en"))
    return home / "out/data-bin"


@pytest.fixture(scope="module")
def hub(data):
    return EATransformerModel.from_pretrained(data)


def translator(data, **changes):
    options = dict.fromkeys(("checkpoint", "data", "beam", "tag", "shortlist"))
    options |= {"sampling": False, "sampling_topk": -1, "seed": 1, **dict.fromkeys(PRECISIONS, False)}
    return load(Namespace(model_dir=data, lenpen=1.0, max_tokens=4096, cpu=True, **options | changes))


@pytest.fixture
def maps(data, tmp_path, monkeypatch):
    """Draws the maps of a source sentence and its translation; returns the table of their values."""

    def run(*flags: str, source: str = SOURCES[0]) -> list[dict[str, str]]:
        page = tmp_path / "page.html"
        command = ["maps", data, "--cpu", "--source", source, "--html", page, *flags]
        monkeypatch.setattr(sys, "argv", list(map(str, command)))
        attention_maps.main()
        return list(csv.DictReader(page.with_suffix(".csv").open()))

    return run


def test_a_tag_is_the_token_before_those_of_the_sentence(hub):
    for source in SOURCES:
        tokens = hub.encode(source, tag="news")
        assert hub.src_dict[tokens[0]] == "<news>" and tokens[1:].equal(hub.encode(source))
    assert tokens[0] not in hub.encode("<news> Hund"), "text is no tag"
    with pytest.raises(UserError, match="source sentence 1 is empty"):
        hub.score("\N{ZERO WIDTH SPACE}", "dog", tag="news")


def test_translations_scores_and_maps_are_those_of_sources_with_the_tag(hub):
    tagged = [hub.encode(source, "talk") for source in SOURCES]
    targets = list(map(hub.encode_target, TARGETS))
    translations = hub.translate(SOURCES, tag="talk")
    assert translations == [hub.decode(beam[0]["tokens"]) for beam in hub.generate(tagged)]
    assert translations != hub.translate(SOURCES, tag="news") != hub.translate(SOURCES)
    assert hub.translate(SOURCES[0], tag="talk") == translations[0]
    scores = hub.score(SOURCES, TARGETS, tag="talk")
    assert [score.total for score in scores] == [score.total for score in hub.score_tokens(tagged, targets)]
    assert hub.score(SOURCES[0], TARGETS[0], tag="news").total != scores[0].total
    maps = hub.attention(SOURCES[0], TARGETS[0], tag="talk")["encoder.layers.0.self_attn"]
    assert maps.keys[0] == "<talk>" and len(maps.keys) == len(tagged[0])


def test_the_demo_and_the_maps_show_sources_with_the_tag(data, hub, maps):
    for tag in ("talk", "news"):
        found = Translators([data], cpu=True, tag=tag).answer(SOURCES[0])
        (hypotheses,) = found.translations.values()
        beam = hub.generate(hub.encode(SOURCES[0], tag))
        assert [one.text for one in hypotheses] == [hub.decode(one["tokens"]) for one in beam[: len(hypotheses)]]
        expected = hub.attention(SOURCES[0], TARGETS[0], tag=tag)["encoder.layers.0.self_attn"]
        rows = [
            row
            for row in maps("--target", TARGETS[0], "--tag", tag)
            if (row["attention"], row["stage"], row["layer"], row["head"]) == ("encoder", "probabilities", "1", "1")
        ]
        assert rows[0]["key word"] == f"<{tag}>" and f"\\u003c{tag}>" in found.page
        drawn = torch.tensor([float(row["value"]) for row in rows])
        torch.testing.assert_close(drawn, expected.probabilities[0].flatten(), atol=1e-3, rtol=0)


def test_an_unknown_tag_is_refused_by_naming_the_known_ones(data, hub, maps, tmp_path):
    for refused in (
        lambda: hub.translate("Hund", tag="sports"),
        lambda: translator(data, tag="sports"),
        lambda: Translators([data], cpu=True, tag="sports"),
        lambda: maps("--tag", "sports"),
    ):
        with pytest.raises(UserError, match="does not know the tag 'sports': it knows news, talk"):
            refused()
    for file in data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (data / "preparation.json").read_text()
    (tmp_path / "preparation.json").write_text(text.replace('"news"', '"sports"'))
    with pytest.raises(UserError, match="source dictionary has no <sports>"):
        translator(tmp_path, tag="sports")
    (tmp_path / "preparation.json").write_text(text.replace('"news"', '"../news"'))
    with pytest.raises(UserError, match=r"'tags' must be a tag of letters"):
        translator(tmp_path)


def test_all_lines_and_all_parts_of_long_lines_are_translated_with_the_tag(data, hub):
    translate = translator(data, tag="news")
    search = {"max_len_a": 1, "max_len_b": 200}
    assert translate([SOURCES[0], "", SOURCES[1]]) == [
        *hub.translate([SOURCES[0], "", SOURCES[1]], tag="news", **search)
    ]
    assert translate(["\N{ZERO WIDTH SPACE}"]) == [""]
    parts = translate.parts(" ".join(SOURCES), 1)
    assert len(parts) > 1 and {hub.src_dict[part[0]] for part in parts} == {"<news>"}
    assert max(map(len, parts)) <= 20


def test_sampling_draws_by_its_seed_and_from_one_token_is_greedy(data):
    lines = SOURCES * 3
    drawn = translator(data, sampling=True)(lines)
    assert drawn == translator(data, sampling=True)(lines)
    assert drawn != translator(data, sampling=True, seed=2)(lines)
    assert len(set(drawn)) > len(set(lines)), "the same sentence is drawn otherwise each time"
    assert translator(data, sampling=True, sampling_topk=1)(lines) == translator(data, beam=1)(lines)
    with pytest.raises(UserError, match=r"--sampling is .* without --shortlist and --native-"):
        translator(data, sampling=True, native_bf16=True)
