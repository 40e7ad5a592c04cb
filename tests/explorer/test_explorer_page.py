"""The page on which maps are explored: its numbers, its size, and words that are markup."""

import csv
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ea_fairseq.attention.maps import STAGES, AttentionMaps
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.demo.pictures import Browser
from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, model_maps, write_explorer
from ea_fairseq.explorer.fixed_point import MOST_DIGITS, FixedPoint
from ea_fairseq.explorer.page import LayerMaps, ModelMaps, attention_page
from ea_fairseq.hub.maps import AttentionByName
from needs import needs_browser
from page_data import data_of

HEADS, LAYERS = 4, 6
KINDS = {"encoder": "encoder.layers.{}.self_attn", "decoder": "decoder.layers.{}.self_attn"}
KINDS["cross"] = "decoder.layers.{}.encoder_attn"
HEBREW = "\u202e\u05e9\u05dc\u05d5\u05dd"
MARKUP = "</script><script>window.owned = 1</script>"
HOSTILE = [MARKUP, "<!--", "&amp;", HEBREW, "\U0001f642\u200d\U0001f642", "a\u2028b", "", '"']


def draw_maps(seed: int, source: list[str], target: list[str], layers: int = LAYERS, plain: bool = False):
    """Maps as a model returns them, a query of the decoder seeing no later word."""
    generator = torch.Generator().manual_seed(seed)
    found = AttentionByName()
    for kind, name in KINDS.items():
        queries, keys = (source if kind == "encoder" else target), (target if kind == "decoder" else source)
        for layer in range(layers):
            own, mixed, logits = (
                5 * torch.randn(HEADS, len(queries), len(keys), generator=generator) for _ in range(3)
            )
            if plain:
                mixed = logits = own
            if kind == "decoder":
                later = torch.ones(len(queries), len(keys), dtype=torch.bool).triu(1)
                own, mixed, logits = (maps.masked_fill(later, -torch.inf) for maps in (own, mixed, logits))
            maps = AttentionMaps(own, mixed, logits, logits.softmax(-1), queries, keys)
            found[name.format(layer)] = maps
    return found


def words(count: int, letter: str) -> list[str]:
    return [f"{letter}{number}" for number in range(count - 1)] + ["</s>"]


numbers = st.floats(-1e9, 1e9, width=32)


@given(st.lists(numbers, min_size=1, max_size=6), st.integers(0, 5))
def test_a_value_is_off_by_half_of_the_last_digit_that_is_shown(values, hidden):
    maps = torch.tensor(values, dtype=torch.float64).view(1, 1, -1)
    masked = torch.zeros_like(maps, dtype=torch.bool)
    masked[..., hidden:] = True
    found = FixedPoint.of(maps, masked)
    assert found.digits <= MOST_DIGITS
    for head in (0, 1):  # of one head the mean is the same
        for place, value in enumerate(values):
            shown = found.shown(head, 0, place)
            if place >= hidden:
                assert shown == ""
            else:
                assert abs(float(shown) - value) <= 0.5 * 10.0**-found.digits * (1 + 1e-9)


def test_probabilities_have_four_digits_and_a_plain_model_two_stages():
    maps = draw_maps(1, words(5, "s"), words(4, "t"), plain=True)["encoder.layers.0.self_attn"]
    found = LayerMaps.of(maps)
    assert list(found.stages) == ["own", "probabilities"] and found.stages["probabilities"].digits == 4
    assert found.stage("logits") is found.stages["own"]
    mean = maps.probabilities.double().mean(0)
    assert float(found.stage("probabilities").shown(HEADS, 2, 1)) == pytest.approx(mean[2, 1].item(), abs=5.1e-5)


def test_forty_words_of_a_lite_model_are_less_than_five_megabytes():
    page = attention_page([ModelMaps.of("ea", draw_maps(1, words(40, "s"), words(40, "t")))], "forty words")
    assert len(page) < 5e6
    assert not re.search(r"https?://|@import|\bsrc=", page.replace("http://www.w3.org", ""))


def test_words_that_are_markup_stay_words():
    page = attention_page([ModelMaps.of("<b>m", draw_maps(1, HOSTILE, HOSTILE))], "<i>{{data}}</i>")
    data = data_of(page)
    assert data["models"][0]["attentions"]["encoder"]["keys"] == HOSTILE and data["title"] == "<i>{{data}}</i>"
    assert unescape(re.search(r"<title>(.*?)</title>", page)[1]) == "<i>{{data}}</i>"
    assert page.count("<script") == page.count("</script>") == 2


def test_two_models_stand_side_by_side_where_they_read_the_same(tmp_path):
    source, target = words(4, "s"), words(3, "t")
    first, same = draw_maps(1, source, target), draw_maps(2, source, target, layers=2)
    assert first.to_html(tmp_path / "both.html", plain=same) == tmp_path / "both.html"
    assert [model["name"] for model in data_of((tmp_path / "both.html").read_text())["models"]] == ["model", "plain"]
    assert data_of((tmp_path / "both.html").read_text())["title"] == "Attention of model and plain"
    other = draw_maps(2, source, words(5, "t"))
    first.to_html(tmp_path / "part.html", other=other)
    assert list(data_of((tmp_path / "part.html").read_text())["models"][1]["attentions"]) == ["encoder"]
    with pytest.raises(UserError, match="no attention in common"):
        first.to_html(tmp_path / "none.html", other=draw_maps(2, words(5, "s"), words(5, "t")))
    with pytest.raises(UserError, match="no attention maps of a Transformer"):
        AttentionByName().to_html(tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists() and not list(tmp_path.glob("*.tmp"))


def write_page(folder: Path, source: list[str], target: list[str]) -> list[dict[str, str]]:
    """A page of two models, and the rows of its table."""
    models = []
    for number, name in enumerate(("evolving", "plain")):
        maps = draw_maps(number, source, target, plain=name == "plain")
        kinds = {kind: [maps[path.format(layer)] for layer in range(LAYERS)] for kind, path in KINDS.items()}
        models.append(SentenceMaps(name, kinds, "none"))
    write_explorer(list(map(model_maps, models)), "drawn", folder / "page.html")
    with (folder / "page.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@needs_browser
def test_what_the_page_says_is_what_the_table_has(tmp_path):
    rows = write_page(tmp_path, words(6, "s"), words(5, "t"))
    places = ("model", "attention", "stage", "layer", "head", "query", "key")
    table, random = {tuple(row[name] for name in places): row for row in rows}, np.random.default_rng(1)
    with Browser() as browser:
        browser.open((tmp_path / "page.html").as_uri())
        for _ in range(12):
            attention, stage = random.choice(list(KINDS)), random.choice(STAGES)
            head, layer = int(random.integers(HEADS + 1)), int(random.integers(LAYERS))
            for name, value in (("attention", attention), ("stage", stage), ("head", head), ("layer", layer + 1)):
                browser.choose(name, str(value))
            browser.run("document.querySelector('canvas').focus()")
            browser.press(*random.choice(["up", "down", "left", "right"], size=4).tolist())
            said = browser.run("return [...document.querySelectorAll('.entry')].map((entry) => entry.textContent)")
            for model, text in zip(("evolving", "plain"), said, strict=True):
                query, asks, key, reads, value = re.fullmatch(r"(\d+) “(.*)” → (\d+) “(.*)”: (.*)", text).groups()
                place = (
                    model,
                    attention,
                    stage,
                    str(layer + 1),
                    "mean" if head == HEADS else str(head + 1),
                    query,
                    key,
                )
                if value == "masked":
                    assert attention == "decoder" and int(key) > int(query) and place not in table
                else:
                    row = table[place]
                    assert (row["query word"], row["key word"], row["value"]) == (asks, reads, value)
        assert browser.complaints() == []


@needs_browser
@pytest.mark.slow
def test_layers_play_views_change_and_keys_work(tmp_path):
    write_page(tmp_path, words(6, "s"), words(5, "t"))
    with Browser() as browser:
        browser.open((tmp_path / "page.html").as_uri())
        shown = {"attention": "cross", "stage": "probabilities", "head": f"{HEADS}", "view": "map"}
        for name, value in shown.items():
            assert browser.run("return document.getElementById(arguments[0]).value", name) == value
        assert browser.text("#number") == "6 of 6" and "source word" in browser.text("#about")
        browser.press(",", ",", ",", "[")
        assert browser.text("#number") == "3 of 6"
        assert browser.run("return document.getElementById('head').value") == "3"
        browser.press("p")
        assert browser.text("#play") == "Stop"
        for layer in (4, 6, 1, 2):
            browser.wait_for(f"return document.getElementById('number').textContent === '{layer} of 6'")
        browser.press("p", "v")
        assert browser.run("return document.getElementById('view').value") == "links"
        assert "The stronger a line" in browser.text("#about")
        before = browser.run("return getComputedStyle(document.body).backgroundColor")
        browser.run("document.getElementById('theme').click()")
        assert browser.run("return getComputedStyle(document.body).backgroundColor") != before
        for width in (1280, 400):
            browser.resize(width, 900)
            assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []


@needs_browser
@pytest.mark.slow
def test_any_words_are_shown_and_nothing_of_them_runs(tmp_path):
    write_page(tmp_path, HOSTILE, words(4, "t"))
    with Browser() as browser:
        browser.open((tmp_path / "page.html").as_uri())
        browser.choose("attention", "encoder")
        browser.run("document.querySelector('canvas').focus()")
        browser.press("down", "up")
        assert f"1 “{MARKUP}” → 1 “{MARKUP}”" in browser.text(".entry")
        browser.choose("view", "links")
        assert browser.run("return window.owned") is None
        assert browser.run("return document.querySelectorAll('script').length") == 2
        assert browser.complaints() == []


def test_bertviz_takes_the_maps():
    source, target = words(4, "s"), words(3, "t")
    maps = draw_maps(1, source, target)
    found = maps.bertviz()
    assert (found.pop("encoder_tokens"), found.pop("decoder_tokens")) == (source, target)
    sizes = {"encoder": (4, 4), "decoder": (3, 3), "cross": (3, 4)}
    assert {name: {tuple(layer.shape) for layer in layers} for name, layers in found.items()} == {
        f"{kind}_attention": {(1, HEADS, *size)} for kind, size in sizes.items()
    }
    torch.testing.assert_close(found["cross_attention"][5][0], maps["decoder.layers.5.encoder_attn"].probabilities)
    alone = AttentionByName({name: one for name, one in maps.items() if name.startswith("encoder.")}).bertviz()
    assert alone.keys() == {"attention", "tokens"} and alone["tokens"] == source


def test_more_words_than_a_page_shows_are_refused(tmp_path):
    maps = draw_maps(1, words(300, "s"), words(3, "t"), layers=1)
    with pytest.raises(UserError, match="a sentence has 300 tokens, but a page shows 120: shorten it"):
        maps.to_html(tmp_path / "page.html")
    assert not list(tmp_path.iterdir())
