"""The pages for readers: their links lead somewhere, and the README leads to every page."""

import re
import subprocess

import pytest

from commands import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("checkpoints/*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def anchors(page) -> set[str]:
    """The names by which links reach the headings of a page: in lower case, with hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    for place, anchor in LINK.findall(page.read_text()):
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), place
        assert not anchor or anchor in anchors(target), f"{place}#{anchor}"


def test_the_readme_leads_to_every_page():
    linked = {place for place, _ in LINK.findall((ROOT / "README.md").read_text())}
    assert {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")} <= linked


def test_scripts_that_pages_name_are_there():
    tracked = set(subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split())
    for page in PAGES:
        for script in re.findall(r"(?:bash|python) ((?:scripts|data-prep)/[\w./-]+\.(?:sh|py))", page.read_text()):
            assert (ROOT / script).is_file() and (not tracked or script in tracked), f"{page.name}: {script}"
