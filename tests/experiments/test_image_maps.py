"""scripts/attention_maps.py writes the page of what attentions do with an image."""

import pytest
from PIL import Image

from ea_fairseq import EAImage, UserError
from ea_fairseq.images.folder import ImageFolder
from image_archives import write_images
from page_data import data_of
from untrained_encoders import save_images


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("a home")
    data = write_images(home / "images", {"train": 30, "test": 4})
    for name, arch in (("evolving", "ea_vit_tiny"), ("plain", "vit_tiny"), ("convolving", "cnn_image")):
        if name == "convolving":
            data = write_images(home / "larger", {"train": 30, "test": 4}, side=8)
        save_images(data, home / name / "checkpoint_best.pt", arch)
    return home


@pytest.fixture
def show(home, attention_maps):
    return lambda model, *flags: attention_maps(home / model, *flags)


def test_a_page_of_an_image_by_its_number_or_its_file(home, show, tmp_path):
    test = ImageFolder(home / "images").read("test")
    Image.fromarray(test.images[1]).save(tmp_path / "one.png")
    pages = [tmp_path / "pages" / name for name in ("number.html", "file.html")]
    printed = [
        show("evolving", "--image", image, "--compare", home / "plain", "--html", page)
        for image, page in zip(("2", tmp_path / "one.png"), pages, strict=True)
    ]
    assert printed[0].startswith("image 2 of test.tar:\n  evolving: True class: dog. Predicted class: ")
    assert printed[1].startswith("image one.png:\n  evolving: Predicted class: ") and "  plain: Pred" in printed[1]
    by_number, by_file = (data_of(page.read_text(encoding="utf-8")) for page in pages)
    assert [one["name"] for one in by_number["models"]] == ["evolving", "plain"]
    assert by_number["pixels"] == by_file["pixels"]
    assert [one["layers"] for one in by_number["models"]] == [one["layers"] for one in by_file["models"]]
    # As Python writes it.
    EAImage.from_pretrained(home / "evolving").attention(test.images[1]).to_html(tmp_path / "python.html")
    assert data_of((tmp_path / "python.html").read_text())["models"][0]["layers"] == by_number["models"][0]["layers"]


PAGE = ["--html", "page.html"]


@pytest.mark.parametrize(
    ("model", "flags", "sentence"),
    [
        ("evolving", ["--image", "5", *PAGE], "--image: .*test.tar has 4 images, and there is no number 5"),
        ("evolving", ["--image", "0", *PAGE], "there is no number 0"),
        ("evolving", ["--image", "1", "--subset", "valid", *PAGE], r"there is no valid\.tar"),
        ("evolving", ["--image", "none.png", *PAGE], "none.png cannot be read"),
        ("convolving", ["--image", "1", *PAGE], "this model has no attention"),
        ("evolving", ["--source", "a"], "reads images: name one with --image"),
    ],
)
def test_what_cannot_be_shown_is_refused(show, tmp_path, monkeypatch, model, flags, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=sentence):
        show(model, *flags)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--image", "1"], "--image: name the page with --html FILE"),
        (["--image", "1", *PAGE, "--heads", "1"], "--heads goes with --source or --series"),
        (
            ["--image", "a.png", *PAGE, "--subset", "test"],
            "--image: --subset and --data are for the number of an image",
        ),
    ],
)
def test_bad_options_are_named(show, flags, part):
    with pytest.raises(SystemExit, match=part):
        show("evolving", *flags)
