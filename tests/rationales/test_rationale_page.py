"""The page of rationales: it shows the words with what people and models mark, and runs nothing of them."""

import re

import numpy as np
import pytest

from ea_fairseq.data.documents import Document
from ea_fairseq.experiments.demo.pictures import Browser
from ea_fairseq.experiments.rationales.evaluation import Explanation, Explanations, Predictions
from ea_fairseq.experiments.rationales.metrics import PERCENTS
from ea_fairseq.experiments.rationales.page import MOST_DOCUMENTS, rationales_page
from needs import needs_browser
from page_data import data_of

MARKUP = "</script><script>window.owned=1</script>"
HOSTILE = (MARKUP, "<!--", "&amp;", "\u202e\u05e9\u05dc", "\u2028", '"', "w" * 300)
DOCUMENTS = [
    Document("one", "POS", tuple("abcdefghij"), ((0, 2), (5, 6))),
    Document(MARKUP, "NEG", HOSTILE * 3, ((1, 4),), MARKUP),
]


def page(documents=DOCUMENTS, names=("plain", MARKUP)) -> str:
    draw = np.random.default_rng(1)

    def said() -> Explanations:
        rows = [Explanation(0.25, 0.5, -0.125, draw.permutation(len(one.words)).tolist()) for one in documents]
        return Explanations(rows)

    predictions = Predictions([{"NEG": 0.25, "POS": 0.75}] * len(documents))
    return rationales_page(documents, {name: (predictions, {"attention": said(), "gold": said()}) for name in names})


def test_the_page_has_the_words_and_for_each_the_best_percents_that_it_is_in():
    data = data_of(page())
    assert [tuple(one["words"]) for one in data["documents"]] == [one.words for one in DOCUMENTS]
    assert data["documents"][0]["gold"] == "1100010000"
    draw = np.random.default_rng(1)
    levels = data["models"][0]["sources"]["attention"][0]["levels"]
    place = 9 - draw.permutation(10)  # 0 is the best of ten words
    assert [int(level) for level in levels] == [sum(best < -(-10 * p // 100) for p in PERCENTS) for best in place]


def test_nothing_is_loaded_and_a_page_has_a_limit():
    text = page([DOCUMENTS[0]] * (MOST_DOCUMENTS + 5))
    assert not re.search(r"https?:|@import|url\(|src=", text)
    data = data_of(text)
    assert len(data["documents"]) == len(data["models"][0]["predictions"]) == MOST_DOCUMENTS


@needs_browser
@pytest.mark.slow
def test_any_words_are_shown_and_nothing_of_them_runs(tmp_path):
    (tmp_path / "page.html").write_text(page(), encoding="utf-8")
    with Browser() as browser:
        browser.open((tmp_path / "page.html").as_uri())
        assert browser.run("return document.querySelectorAll('section').length") == 2
        assert browser.text(".text").split() == list("abcdefghij")
        assert browser.text("section").startswith("plainpredicts POS, probability 0.750AUPRC 0.250")
        gold = browser.run(
            "return [...document.querySelectorAll('section:first-child .gold')].map((e) => e.textContent)"
        )
        assert " ".join(gold).split() == ["a", "b", "f"]
        shown = "return document.querySelector('section').innerHTML"
        before = browser.run(shown)
        browser.choose("source", "gold")
        assert browser.run(shown) != before
        browser.run("document.getElementById('next').click()")
        assert MARKUP in browser.text(".text") and MARKUP in browser.text("#about")
        assert browser.run("return document.getElementById('next').disabled")
        for width in (1280, 400):
            browser.resize(width, 900)
            assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run("return window.owned") is None
        assert browser.complaints() == []
