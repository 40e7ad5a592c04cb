"""report.html: whole without anything beside it, and what it does when one points, clicks and sorts."""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from html import escape
from importlib import util

import pytest

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.demo.pictures import Browser
from ea_fairseq.experiments.page import page, picture
from ea_fairseq.experiments.reports.interactive_curves import library
from ea_fairseq.experiments.scoring.results import SOURCE, TRANSLATION, Results
from ea_fairseq.experiments.tables import Table
from fake_results import EVOLVING, PLAIN, SENTENCES, make, references, write_results
from needs import needs_browser

DARK = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
NAMES = ("training-loss", "validation-loss", "validation-bleu")
LOWEST = {PLAIN: "plain", EVOLVING: "evolving"}  # seed 1
MARKUP = "</script><img src=x onerror=window.owned=1>"


def test_the_page_needs_nothing_beside_itself_and_has_every_figure(two_models, tmp_path, monkeypatch):
    written = make(monkeypatch, tmp_path / "out", two_models)
    page = written["report.html"].decode().replace(library(), "")
    assert not re.search(r"<link|@import|url\(|href=|src=", page)
    drawn = {name.removeprefix("figures/multi30k-deen-") for name in written if name.startswith("figures/")}
    assert drawn == {f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")}
    assert page.count("<figure>") == page.count("Plotly.newPlot") == len(NAMES)
    for name in NAMES:
        ElementTree.fromstring(written[f"figures/multi30k-deen-{name}.svg"])
    for fact in ("fairseq-train data --arch", "some processor", "c" * 40, "a" * 64, "nrefs:1|case:mixed", "chrF2 = "):
        assert fact in page


def test_without_plotly_the_page_has_the_same_figures_as_pictures(two_models, tmp_path, monkeypatch, capsys):
    find = util.find_spec
    monkeypatch.setattr(
        "ea_fairseq.experiments.reports.report.find_spec", lambda name: None if name == "plotly" else find(name)
    )
    page = make(monkeypatch, tmp_path / "out", two_models)["report.html"].decode()
    assert len(re.findall(r'<img src="data:image/svg\+xml;base64,', page)) == len(NAMES) and "Plotly" not in page
    assert "pip install 'ea-fairseq[plots]'" in capsys.readouterr().err


def test_attention_maps_are_linked_where_they_are(tmp_path, monkeypatch):
    write_results(tmp_path / "runs" / "with # maps" / "evaluation", PLAIN)
    write_results(tmp_path / "runs" / "without" / "evaluation", EVOLVING)
    maps = tmp_path / "runs" / "with # maps" / "attention_maps"
    maps.mkdir()
    for name in ("page.html", "cross-mean.svg", "cross-mean.png", "maps.csv"):
        (maps / name).touch()
    page = make(monkeypatch, tmp_path / "a report", tmp_path / "runs")["report.html"].decode()
    places = re.findall(r'<a href="([^"]*)">([^<]*)</a>', page)
    folder = "../runs/with%20%23%20maps/attention_maps"
    assert places == [(f"{folder}/{name}", name) for name in ("cross-mean.svg", "page.html")]


def test_each_model_translates_the_same_sentences_on_the_page(two_models, tmp_path, monkeypatch):
    page = make(monkeypatch, tmp_path / "without", two_models)["report.html"].decode()
    assert f"<dt>reference</dt><dd dir=auto>{references()[0]}</dd>" in page and "<dt>source</dt>" not in page
    folder = shutil.copytree(two_models, tmp_path / "two models")
    source = [f"{MARKUP} {number}" for number in range(SENTENCES)]
    (folder / "evolving-1" / SOURCE).write_text("\n".join(source) + "\n")
    page = make(monkeypatch, tmp_path / "with", folder)["report.html"].decode()
    texts = {"source": source, "reference": references()}
    texts |= {model: Results.read(folder / f"{name}-1").raw()[0] for model, name in LOWEST.items()}
    found = re.findall(r"<dl class=sample>(.*?)</dl>", page)
    assert [re.findall(r"<dt>(.*?)</dt><dd dir=auto>(.*?)</dd>", sample) for sample in found] == [
        [(label, escape(lines[number])) for label, lines in texts.items()]
        for number in range(0, SENTENCES, SENTENCES // 5)
    ]


def test_samples_need_translations_with_a_line_for_each_sentence(tmp_path, monkeypatch):
    write_results(tmp_path / "in", PLAIN)
    with (tmp_path / "in" / TRANSLATION).open("a") as file:
        file.write("one more\n")
    with pytest.raises(UserError, match="differ in their number of lines: evaluate the model again"):
        make(monkeypatch, tmp_path / "out", tmp_path / "in", "--no-p-values")
    (tmp_path / "in" / TRANSLATION).unlink()
    assert b"Sample translations" not in make(monkeypatch, tmp_path / "out", tmp_path / "in")["report.html"]


@pytest.fixture
def browser(two_models, tmp_path, monkeypatch):
    write_results(tmp_path / "large", MARKUP, seed=2, wrong=0.5, parameters=12_500_000)
    make(monkeypatch, tmp_path / "out", two_models, tmp_path / "large")
    with Browser() as browser:
        browser.open((tmp_path / "out" / "report.html").as_uri())
        yield browser
        assert browser.complaints() == []
        assert browser.run("return performance.getEntriesByType('resource').map((found) => found.name)") == []
        assert browser.run("return window.owned") is None


def column(browser, place: int) -> list[str]:
    return browser.run(f"return [...document.querySelector('tbody').rows].map((row) => row.cells[{place}].textContent)")


@needs_browser
@pytest.mark.slow
def test_a_heading_sorts_the_table_by_what_numbers_are_worth(browser):
    headings = browser.run("return [...document.querySelectorAll('thead button')].map((one) => one.textContent)")
    place = headings.index("parameters")
    for expected in (["12.50M", "2.49M", "2.48M"], ["2.48M", "2.49M", "12.50M"]):
        browser.run(f"document.querySelectorAll('thead button')[{place}].click()")
        assert column(browser, place) == expected
    assert browser.run(f"return document.querySelectorAll('th')[{place}].ariaSort") == "ascending"
    place = headings.index("difference")  # which the baseline has not
    for _ in range(2):
        browser.run(f"document.querySelectorAll('thead button')[{place}].click()")
        assert column(browser, place)[-1] == "\u2013"
    browser.run("document.querySelectorAll('thead button')[0].click()")
    assert column(browser, 0) == sorted([PLAIN, EVOLVING, MARKUP], key=lambda name: name.strip("<"))


@needs_browser
@pytest.mark.slow
def test_curves_tell_numbers_hide_models_and_change_their_axes(browser):
    curves = "document.getElementById('curves-1')"
    browser.wait_for(f"return {curves}.querySelectorAll('.legend .traces').length === 3")
    browser.run(f"{curves}.scrollIntoView()")
    browser.move_to("#curves-1 .nsewdrag")
    said = browser.wait_for(f"return {curves}.querySelector('.hoverlayer').textContent")
    assert EVOLVING in said and MARKUP[:12] in said and re.search(r"\d\.\d{3}", said)
    for place, changed, expected in (
        (1, "layout.xaxis.title.text", "wall-clock (minutes)"),
        (0, "layout.xaxis.title.text", "updates"),
        (3, "layout.yaxis.type", "log"),
        (2, "layout.yaxis.type", "linear"),
    ):
        browser.run(
            f"{curves}.querySelectorAll('.updatemenu-button')[{place}]"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        browser.wait_for(f"return {curves}.{changed} === '{expected}'")
    press = "for (const kind of ['mousedown', 'mouseup']) toggle.dispatchEvent(new MouseEvent(kind, {bubbles: true}))"
    browser.run(f"const toggle = {curves}.querySelector('.legendtoggle'); {press}")
    browser.wait_for(f"return {curves}.data.filter((trace) => trace.visible === 'legendonly').length === 2")
    for width in (1280, 400):
        browser.resize(width, 900)
        assert browser.run("return document.documentElement.scrollWidth") <= width


@needs_browser
@pytest.mark.slow
def test_wide_pictures_and_tables_scroll_within_themselves(tmp_path):
    picture_file = tmp_path / "wide.svg"
    picture_file.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="10"/>')
    table = Table(["model", *map(str, range(99))], [["a" * 99] * 100], ["b" * 999])
    written = tmp_path / "page.html"
    written.write_text(page("c" * 99, table.html(), [picture(picture_file, "d" * 99)], ["<p>"]))
    with Browser() as browser:
        browser.resize(400, 900)
        browser.open(written.as_uri())
        assert browser.run("return document.querySelector('img').offsetWidth") == 2000
        assert browser.run("return document.documentElement.scrollWidth") == 400


@needs_browser
@pytest.mark.slow
def test_the_page_is_dark_for_readers_who_prefer_that(browser):
    colours = "const found = getComputedStyle(document.body); return [found.backgroundColor, found.color]"
    light = browser.run(colours)
    browser.send("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": DARK})
    dark = browser.run(colours)
    brightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in (*light, *dark)]
    assert brightness[0] > 700 > 100 > brightness[1] and brightness[3] > 600 > 100 > brightness[2]
