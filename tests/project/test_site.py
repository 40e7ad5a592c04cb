"""The site: its links lead somewhere, it loads nothing from other hosts, and its search finds what readers look for."""

import re
import subprocess
import threading
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ea_fairseq
from commands import ROOT
from ea_fairseq.experiments.demo.pictures import Browser
from needs import needs_browser

LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
LOADED = ("stylesheet", "icon", "preload", "modulepreload", "manifest")  # of links, by what they are to the page


def build(folder: Path) -> subprocess.CompletedProcess:
    command = ["bash", ROOT / "scripts" / "site.sh", "--build", folder]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, which is built once."""
    for package in ("furo", "matplotlib", "myst_parser", "sphinx"):
        pytest.importorskip(package, reason="needs pip install 'ea-fairseq[site]'")
    folder = tmp_path_factory.mktemp("site") / "a site"
    result = build(folder)
    assert result.returncode == 0, result.stderr
    return folder


class Page(HTMLParser):
    """What a page of the site links to and loads, and the anchors that it has."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.loads, self.anchors = set(), set(), {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors |= {found.get("id"), found.get("name")}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        if found.get(LOADING.get(tag)) and (tag != "link" or found["rel"] in LOADED):
            self.loads.add(found[LOADING[tag]])


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    """The pages of the site by their files."""
    return {path: Page(path) for path in site.rglob("*.html")}


@pytest.mark.slow
def test_every_link_within_the_site_leads_to_a_page_and_a_heading(site, pages):
    followed = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file() and target.is_relative_to(site.resolve()), f"{path.relative_to(site)}: {link}"
            if target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.relative_to(site)}: {link}"
            followed += 1
    assert followed > 1000


@pytest.mark.slow
def test_no_page_or_style_loads_anything_from_another_host(site, pages):
    for path, page in pages.items():
        for place in page.loads:
            parts = urlsplit(place)
            assert not parts.scheme and not parts.netloc, f"{path.relative_to(site)}: {place}"
            assert (path.parent / unquote(parts.path)).is_file(), f"{path.relative_to(site)}: {place}"
    for path in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", path.read_text()), path


@pytest.mark.slow
def test_it_has_every_page_and_public_name(site, pages):
    sources = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("checkpoints/*/README.md")]
    expected = {str(path.relative_to(ROOT).with_suffix(".html")) for path in sources if path.name != "section.md"}
    assert expected <= {str(path.relative_to(site)) for path in pages}
    assert (site / "index.html").read_text() == (site / "README.html").read_text()
    assert "ea_transformer_lite --ea-learned" in (site / "docs/results.html").read_text()  # hyphens, no dash
    anchors = set.union(*(page.anchors for page in pages.values()))
    public = {f"ea_fairseq.{name}" for name in ea_fairseq.__all__ if name != "FAMILIES"}
    assert (
        public
        | {
            "ea_fairseq.attention.registry.FAMILIES",
            "ea_fairseq.attention.registry.register_mechanism",
            "ea_fairseq.mechanisms.evolving.EvolvingAttention",
            "ea_fairseq.models.mechanism_model.MechanismModel.from_pretrained",
            "ea_fairseq.hub.translation.TranslationHub",
            "ea_fairseq.hub.translation.TranslationHub.attention",
        }
        <= anchors
    )


@contextmanager
def serving(folder: Path):
    """Serves a folder on this machine; yields the address."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@needs_browser
@pytest.mark.slow
def test_in_a_browser(site):
    """Searches find the pages that explain, the maps are live, and all requests are to the site."""
    queries = {
        "skip connection": "docs/models.html#skip-connection",
        "learned alpha": "docs/models.html#learned-alpha-and-beta",
        "IWSLT": "docs/results/03-iwslt14.html",
        "register_mechanism": "docs/site/attention-api.html#ea_fairseq.attention.registry.register_mechanism",
    }
    requested = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    with serving(site) as address, Browser() as browser:
        for words, page in queries.items():
            browser.open(f"{address}/search.html?q={words.replace(' ', '+')}")
            hits = browser.wait_for(
                "return /found/.test(document.querySelector('.search-summary')?.textContent) &&"
                "[...document.querySelectorAll('#search-results li > a')].map(({href}) => new URL(href))"
                ".map(({origin, pathname, hash}) => origin + pathname + hash)"
            )
            assert f"{address}/{page}" in hits[:5], (words, hits[:5])
            assert all(name.startswith(f"{address}/") for name in browser.run(requested))
        browser.open(f"{address}/docs/site/attention.html")
        inside = "document.querySelector('iframe').contentDocument"
        browser.wait_for(f"return {inside}?.querySelectorAll('canvas').length >= 2")
        frame = f"const frame = document.querySelector('iframe'), height = {inside}.body.clientHeight;"
        for width in (1280, 400):
            browser.resize(width, 1000)
            browser.wait_for(f"{frame} return Math.abs(frame.clientHeight - height) <= 1 && height > 500")
        assert all(name.startswith(f"{address}/") for name in browser.run(requested))


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = build(tmp_path)
    assert (result.returncode, result.stderr) == (1, f"site: {tmp_path} exists and is not a site: give a new folder.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [(["--biuld"], "there is no option --biuld"), (["--port"], "--port needs a value"), (["--port", "x"], "--port: ")],
)
def test_flags_that_are_wrong_are_named(flags, sentence):
    result = subprocess.run(["bash", ROOT / "scripts" / "site.sh", *flags], capture_output=True, text=True)
    assert result.returncode == 1 and result.stderr.startswith(f"site: {sentence}") and result.stderr.count("\n") == 1
