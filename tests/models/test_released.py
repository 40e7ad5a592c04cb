"""The models in checkpoints/: whole, described as they are, and as good as their cards say."""

import re
import subprocess
import sys
import zipfile
from argparse import Namespace
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from commands import ROOT
from ea_fairseq import EATransformerModel
from ea_fairseq.experiments.runs.release import card
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.scores import raw_score
from ea_fairseq.experiments.translate import load
from ea_fairseq.plain.precisions import PRECISIONS

CHECKPOINTS = ROOT / "checkpoints"
MODELS = sorted(path.parent for path in CHECKPOINTS.glob("*/model.safetensors"))
MOST_BYTES = 10_000_000
MADE_BY = ("train", "evaluate", "release")
NEAR = 0.2  # BLEU: other processors add up in another order


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """The embedded corpus, whose test set the models are scored on."""
    out = tmp_path_factory.mktemp("embedded corpus")
    script = ROOT / "data-prep" / "embedded_corpus.py"
    subprocess.run([sys.executable, script, "--out", out], check=True)
    return out


def test_an_evolving_and_a_plain_model_are_released():
    assert {Results.read(folder).arch for folder in MODELS} == {"transformer_lite", "ea_transformer_lite"}


@pytest.mark.parametrize("folder", sorted(CHECKPOINTS.glob("*/SHA256SUMS")), ids=lambda path: path.parent.name)
def test_checksums_are_those_of_the_files_and_of_the_card(folder):
    sums = dict(reversed(line.split("  ")) for line in folder.read_text().splitlines())
    (model,) = {"model.safetensors", "model.pt"}.intersection(sums)
    assert sums[model] in (folder.parent / "README.md").read_text()
    for name, expected in sums.items():
        path = folder.parent / name
        if (folder.parent / model).exists() or path.exists():
            assert sha256(path.read_bytes()).hexdigest() == expected, path


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_a_model_is_small_has_no_pickle_and_names_no_folder(folder):
    assert (folder / "model.safetensors").stat().st_size < MOST_BYTES
    assert not [path for path in folder.iterdir() if zipfile.is_zipfile(path)]  # a pickle of torch
    assert "/" not in (folder / "config.json").read_text()


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_a_model_has_the_scores_of_its_card(folder, corpus):
    source, reference = ((corpus / f"test.{language}").read_text().splitlines() for language in ("de", "en"))
    search = {"beam": 5, "lenpen": 1.0, "max_tokens": 4096, "shortlist": None, **dict.fromkeys(PRECISIONS, False)}
    options = {"checkpoint": None, "data": None, "cpu": True, **search}
    found = raw_score("BLEU", load(Namespace(model_dir=folder, sampling=False, tag=None, **options))(source), reference)
    released = Results.read(folder).scores
    assert abs(found.score - released["BLEU"].score) <= NEAR


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_a_model_translates_in_python_with_its_folder_alone(folder):
    source = "Der Arzt bringt Wein mit."
    assert EATransformerModel.from_pretrained(folder).translate(source) == "The doctor brings along wine."


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_the_metadata_of_a_card_are_what_a_hub_of_models_reads(folder):
    _, metadata, text = (folder / "README.md").read_text().split("---\n", 2)
    found, results = yaml.safe_load(metadata), Results.read(folder)
    assert found["language"] == [results.dataset.source_lang, results.dataset.target_lang]
    assert (found["license"], found["pipeline_tag"]) == ("mit", "translation") and "MIT" in text
    assert found["metrics"] == ["bleu", "chrf", "ter"] and results.arch in found["tags"]


@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: folder.name)
def test_a_card_is_made_of_the_results_beside_it(folder):
    model, about = (folder / "model.safetensors").read_bytes(), (CHECKPOINTS / "embedded-corpus.md").read_text()
    made = card(folder.name, Results.read(folder), len(model), sha256(model).hexdigest(), about, "mit", True)
    assert (folder / "README.md").read_text() == made


@pytest.mark.parametrize("path", sorted(CHECKPOINTS.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_a_stranger_can_repeat_what_a_card_says(path):
    made = path.read_text().partition("## Made by")[2]
    program = r"(ea-fairseq {0}|(bash|python) scripts/{0}\.(sh|py))"
    assert all(re.search(f"^{program.format(name)} ", made, re.MULTILINE) for name in MADE_BY)
    assert not re.search(r"[\s=]/\w|checkpoint_released", made)


@pytest.mark.parametrize("path", sorted(CHECKPOINTS.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_the_rows_of_a_cards_tables_have_as_many_cells_as_their_heads(path):
    tables = [table.splitlines() for table in path.read_text().split("\n\n") if table.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table}) == 1
