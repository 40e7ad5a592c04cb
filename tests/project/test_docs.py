"""The pages for readers: links lead somewhere, examples work, and the README leads to every page and mechanism."""

import ast
import re
import subprocess
from pathlib import Path

import fairseq
import pytest

from commands import ROOT

SECTIONS = [path for path in ROOT.glob("docs/*/*.md") if path.name != "section.md"]  # of results, generated
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *SECTIONS, *ROOT.glob("checkpoints/**/*.md")])
README = (ROOT / "README.md").read_text()
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")

LINE = re.compile(r"([\w./-]+):(\d+)")
SPAN = re.compile(r"`([^`\n]+)`")
IS_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|sh|c|h|md|tsv|toml))")


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


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name)
def test_a_page_is_short(page):
    assert len(page.read_text().splitlines()) <= 250


def test_the_readme_leads_to_every_page():
    linked = {place for place, _ in LINK.findall(README)}
    assert {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")} <= linked


def test_the_readme_lists_every_mechanism():
    files = set(re.findall(r"`((?:mechanisms|terms|models)/\w+\.py)` \|", README))
    assert all((ROOT / "ea_fairseq" / file).is_file() for file in files)
    assert {f"mechanisms/{path.name}" for path in ROOT.glob("ea_fairseq/mechanisms/[a-z]*.py")} <= files


def test_the_example_of_the_readme_prints_what_it_says(tmp_path, monkeypatch, capsys):
    (example,) = re.findall("```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "checkpoints").symlink_to(ROOT / "checkpoints")
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", example, re.MULTILINE) != []
    assert "Der Arzt bringt Wein mit." in (tmp_path / "page.html").read_text()


def test_scripts_that_pages_name_are_there():
    tracked = set(subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split())
    for page in PAGES:
        for script in re.findall(r"(?:bash|python) ((?:scripts|data-prep)/[\w./-]+\.(?:sh|py))", page.read_text()):
            assert (ROOT / script).is_file() and (not tracked or script in tracked), f"{page.name}: {script}"


def test_the_attention_alone_runs_as_its_page_says():
    (example,) = re.findall("```python\n(.*?)```", (ROOT / "docs/models.md").read_text(), re.DOTALL)
    found = {}
    exec(example, found)
    assert found["x"].shape == (50, 8, 64) and found["passed"].logits.shape == (8, 4, 50, 50)
    found["x"].sum().backward()
    assert all(parameter.grad is not None for parameter in found["layers"].parameters())


def named_file(path: str) -> Path:
    """A path of this project, or of fairseq, as a page names it."""
    return next((root / path for root in (ROOT, Path(fairseq.__file__).parents[1]) if (root / path).exists()), None)


def defined_names(file: Path) -> set[str]:
    """The functions, classes and constants of a Python file, and the methods as ``Class.method``."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names |= {node.name, *(f"{node.name}.{inner.name}" for inner in node.body if hasattr(inner, "name"))}
    return names


def stale_references(text: str) -> list[str]:
    """Paths in backticks that lead to no file, and names in backticks after a path that the file does not define.

    A name belongs to the path before it where only commas, blanks and other names stand between them. After a path with
    the number of a line comes code that the line has.
    """
    stale, file, line, end = [], None, None, 0
    for span in SPAN.finditer(text):
        reference, between = span[1], text[end : span.start()]
        end = span.end()
        if line is not None:
            if reference not in line:
                stale.append(reference)
            line = None
        elif match := LINE.fullmatch(reference):
            file, lines = None, named_file(match[1]).read_text().splitlines()
            line = lines[int(match[2]) - 1] if int(match[2]) <= len(lines) else ""
        elif IS_PATH.fullmatch(reference):
            file = named_file(reference)
            if file is None:
                stale.append(reference)
        elif file is None or file.suffix != ".py" or between.strip(", "):
            file = None
        elif reference not in defined_names(file):
            stale.append(f"{reference} in {file.name}")
    return stale


def test_the_design_page_names_what_is_there():
    assert stale_references((ROOT / "docs/design.md").read_text()) == []


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        ("`ea_fairseq/hub/translation.py` `Score`, `TranslationHub.load`", []),
        ("`fairseq/file_io.py` `PathManager.copy` and `--patience`", []),
        ("`ea_fairseq/hub/translation.py` `Score`, `gone`", ["gone in translation.py"]),
        ("`ea_fairseq/hub/translation.py` `Score.gone`", ["Score.gone in translation.py"]),
        ("`ea_fairseq/hub/files.py:1` `trained model`, `ea_fairseq/hub/files.py:1` `import`", ["import"]),
        ("`ea_fairseq/gone.py` `Score`, `ea_fairseq/gone/`", ["ea_fairseq/gone.py", "ea_fairseq/gone/"]),
    ],
)
def test_a_stale_reference_is_noticed(text, stale):
    assert stale_references(text) == stale
