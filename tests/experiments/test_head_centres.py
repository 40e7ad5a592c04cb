"""attention_maps.py --centres shows where the heads of quadratic attention looked, checkpoint by checkpoint."""

import csv
from itertools import product
from pathlib import Path

import pytest
import torch

from checkpoints import loud_trainer, save_dictionaries, save_loud
from drawn_figures import band, lines
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.head_centres import HeadCentre, draw

UPDATES = (0, 10, 200)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A training's folder, whose last checkpoint has another name, too, with an average; and other models."""
    home = tmp_path_factory.mktemp("home")
    data = save_dictionaries(home)
    (home / "run").mkdir()
    trainer = loud_trainer(data, arch="quadratic_transformer")
    trainer.consolidate_optimizer()
    terms = [
        layer.self_attn.terms[0] for side in ("encoder", "decoder") for layer in getattr(trainer.model, side).layers
    ]
    for update in UPDATES:
        with torch.no_grad():
            for number, term in enumerate(terms):
                term.centre.copy_(torch.tensor([1.0 + number + update, 0.0]))
                term.sharpness.copy_(torch.tensor([-0.5, 4.0]))
        trainer.set_num_updates(update)
        trainer.save_checkpoint(str(home / "run" / f"checkpoint_1_{update}.pt"), {})
    trainer.save_checkpoint(str(home / "run" / "checkpoint_last.pt"), {})
    average = torch.load(home / "run" / "checkpoint_last.pt", weights_only=False) | {"averaged": ["checkpoint_1_10.pt"]}
    for name, tensor in average["model"].items():
        if name.endswith(".centre"):
            tensor.fill_(99.0)
    (home / "averages").mkdir()
    for folder in ("run", "averages"):
        torch.save(average, home / folder / "checkpoint_released.pt")
    save_loud(data, home / "plain.pt", arch="transformer")
    (home / "empty").mkdir()
    return home


@pytest.fixture
def show(home, attention_maps):
    """Runs the script on a checkpoint or a folder of them; returns what it prints."""
    return lambda path, *flags: attention_maps(home / path, "--centres", *flags)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "centres.csv").open() as file:
        return list(csv.DictReader(file))


def test_each_head_of_each_layer_has_a_row_for_each_update(home, show):
    printed = show("run")
    out = home / "run" / "attention_maps"
    assert printed == f"written to {out}: centres.csv, centres.png, centres.svg\n"
    assert {path.name for path in out.iterdir()} == {"centres.csv", "centres.png", "centres.svg"}
    found = {tuple(row.values())[:4]: (float(row["centre"]), float(row["width"])) for row in rows(out)}
    places = product(("encoder", "decoder"), (1, 2), (1, 2), UPDATES)
    expected = {}
    for kind, layer, head, update in places:
        first = 1 + layer - 1 + update if kind == "encoder" else -(1 + layer + 1 + update)  # a decoder looks back
        expected[kind, str(layer), str(head), str(update)] = (first, 2.0) if head == 1 else (0.0, 0.25)
    assert found == expected


def test_a_line_is_a_heads_centre_and_its_band_one_width_on_both_sides(drawn, tmp_path):
    courses = [(0, 1.0, 2.0), (10, 5.0, 0.5)], [(0, -3.0, 0.25), (10, -2.0, 1.0)]
    found = [HeadCentre("encoder", 1, head, *moment) for head, course in enumerate(courses, 1) for moment in course]
    draw(found, tmp_path / "centres")
    (panel,) = drawn[0].axes
    assert lines(panel) == [[(update, centre) for update, centre, _ in course] for course in courses]
    bands = [{update: (centre - width, centre + width) for update, centre, width in course} for course in courses]
    assert [band(found) for found in panel.collections] == bands


def test_the_same_bytes_every_time(show, tmp_path):
    for folder in ("one", "two"):
        show("run", "--out", tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_one_checkpoint_alone_is_shown(show, tmp_path):
    show("run/checkpoint_1_10.pt", "--out", tmp_path)
    assert {row["update"] for row in rows(tmp_path)} == {"10"} and (tmp_path / "centres.png").is_file()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("plain.pt", "has no quadratic attention: give one of a model with --relative-positions quadratic."),
        ("empty", "has no checkpoints of a training: give the folder of a training, or name a file."),
        ("averages", "has no checkpoints of a training: give the folder of a training, or name a file."),
        ("nowhere", "there is no checkpoint"),
    ],
)
def test_what_has_no_centres_is_refused_in_one_sentence(show, tmp_path, path, message):
    with pytest.raises(UserError) as refusal:
        show(path, "--out", tmp_path)
    assert message in str(refusal.value) and not list(tmp_path.iterdir())


def test_a_comparison_is_of_maps(show):
    with pytest.raises(SystemExit, match="--compare goes with --source, --series, --image or --statistics"):
        show("run", "--compare", "run")
