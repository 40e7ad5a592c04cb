"""Sphinx's settings for the project's site: the pages as GitHub shows them, the API, and a page of attention maps."""

import shutil
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]

project = "ea-fairseq"
html_title = "ea-fairseq"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "docs/site/*.rst", "checkpoints/*/README.md"]
exclude_patterns = ["docs/**/section.md"]

myst_heading_anchors = 4
highlight_language = "text"
smartquotes = False  # or two hyphens, as of flags, become a dash
autodoc_default_options = {"members": True, "member-order": "bysource", "no-value": True, "show-inheritance": True}
autodoc_class_signature = "separated"
autodoc_inherit_docstrings = False

html_theme = "furo"
html_show_copyright = False
html_copy_source = False
html_static_path = ["style.css"]
html_css_files = ["style.css"]

# Pages in the order of the sidebar, appended to the first page.
CONTENTS = {
    "First steps": ["docs/quickstart", "docs/installing", "docs/from-fairseq", "docs/site/attention", "docs/explorer"],
    "Models": [
        "docs/models",
        "docs/mechanisms",
        "docs/rivals",
        "docs/terms",
        "docs/layers",
        "docs/encoders",
        "docs/t5",
        "docs/time-series",
        "docs/graphs",
        "docs/images",
    ],
    "Use": [
        "docs/data",
        "docs/back-translation",
        "docs/encoders-data",
        "docs/training",
        "docs/gpu",
        "docs/translating",
        "docs/exporting",
    ],
    "Experiments": [
        "docs/experiments",
        "docs/encoder-experiments",
        "docs/rationales",
        "docs/representations",
        "docs/speed",
    ],
    "Results": [
        "docs/results",
        "docs/encoder-results",
        "docs/time-series-results",
        "docs/graph-results",
        "docs/image-results",
        "docs/rationale-results",
        "docs/site/checkpoints",
    ],
    "API": ["docs/site/models-api", "docs/site/attention-api", "docs/site/mechanisms-api", "docs/site/training-api"],
    "Project": ["docs/design", "CONTRIBUTING", "CHANGELOG", "SECURITY"],
}
SENTENCE = "Sie sieht den Koch, der eine Blume pflanzt."


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Appends to the first page the list of all pages, and to a page of results those of its sections."""
    if page == root_doc:
        source[0] += "".join(contents(pages, f":caption: {title}") for title, pages in CONTENTS.items())
    elif page in CONTENTS["Results"] and (ROOT / page).is_dir():
        source[0] += contents([f"{Path(page).name}/*"], ":glob:")


def contents(pages: list[str], option: str) -> str:
    """A list of pages that only the sidebar shows."""
    return "\n\n" + "\n".join(["```{toctree}", ":hidden:", option, *pages, "```"])


def leave_out_of_search(app: Sphinx, page: nodes.document) -> None:
    """Keeps commands and versions of single trainings, which are in HTML, out of the index of the search."""
    for block in page.findall(nodes.raw):
        block["classes"].append("no-search")


def write_attention(app: Sphinx) -> None:
    """Writes the maps of two released models into the site, to be explored there."""
    evolving, plain = (f"checkpoints/embedded-{name}" for name in ("ea_transformer_lite", "transformer_lite"))
    command = [sys.executable, "-m", "ea_fairseq", "maps", evolving, "--compare", plain, "--source", SENTENCE]
    command += ["--html", Path(app.outdir, "attention.html")]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Makes the README the page of the folder."""
    if error is None:
        shutil.copyfile(Path(app.outdir, "README.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    """Connects these functions with the steps of a build."""
    app.connect("builder-inited", write_attention)
    app.connect("source-read", add_contents)
    app.connect("doctree-read", leave_out_of_search)
    app.connect("build-finished", write_index)
