"""scripts/profile.py prints what models cost, or one sentence."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from commands import ROOT
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.costs import profile, profiled_model
from ea_fairseq.experiments.reports.papers import DATASETS, PAPER, paper_flags
from recipes import flags_of

LITE = ["--arch", "ea_transformer_lite", "--share-all-embeddings", "--vocab", "8848"]
SMALL = ["--encoder-layers", "1", "--decoder-layers", "1", "--vocab", "50"]
REFUSED = {
    "--arch": [],
    "--all": ["--all", "--src-len", "20"],
    "--all takes no other options": ["--all", "--encoder-layers", "3"],
    "ea_transformer_lite": ["--arch", "no_such"],
    "--arch lstm": ["--arch", "lstm"],
    "--ea-alpha must be": ["--arch", "ea_transformer_lite", "--ea-alpha", "2"],
    "--ea-kernel-size": ["--arch", "ea_transformer_lite", "--ea-kernel-size", "4"],
    "--encoder-attention-heads must divide": ["--arch", "ea_transformer_lite", "--encoder-attention-heads", "3"],
    "divisible": ["--arch", "transformer_lite", "--encoder-attention-heads", "3"],
    "--encoder-layers": ["--arch", "transformer_lite", "--encoder-layers", "six"],
    "there is no option": ["--arch", "transformer_lite", "--layers", "6"],
    "--src-len": ["--arch", "transformer_lite", "--src-len", "0"],
    "--tgt-len": ["--arch", "transformer_lite", "--tgt-len", "x"],
    "--max-target-positions": ["--arch", "transformer_lite", "--tgt-len", "1025"],
    "--vocab": ["--arch", "transformer_lite", "--vocab", "0"],
    "joined dictionary": ["--arch", "transformer_lite", "--share-all-embeddings", "--tgt-vocab", "9"],
    "no target side": ["--arch", "ea_roberta_tiny", "--tgt-len", "4"],
    "--max-positions": ["--arch", "ea_roberta_tiny", "--src-len", "513"],
    "--decoder-skip is a flag of decoders": ["--arch", "ea_roberta_tiny", "--decoder-skip"],
    "xFormers": ["--arch", "transformer_lite", "--encoder-xformers-att-config", "{}"],
    "process group": ["--arch", "transformer_lite", "--base-layers", "1"],
    "--classes: models of images": ["--arch", "vit_tiny", "--classes", "0"],
    "--user-dir: there is no folder": ["--arch", "my_transformer_lite", "--user-dir", "no_such"],
}


@pytest.fixture
def profiles(monkeypatch, capsys):
    """Runs the command in this process and returns what it prints."""

    def run(*flags: str) -> str:
        monkeypatch.setattr(sys, "argv", ["profile.py", *flags])
        monkeypatch.setattr("logging.disable", lambda level: None)
        profile.main()
        return capsys.readouterr().out

    return run


def numbers(line: str) -> list[int]:
    """The whole numbers of a line of a table: parameters, MACs and FLOPs."""
    return [int(number.replace(",", "")) for number in re.findall(r"(?<=  )[\d,]+(?!\S)", line)]


def figures(text: str, name: str) -> list[int]:
    """The numbers of the first line that begins with a name."""
    return numbers(re.search(rf"^ *{re.escape(name)}  .*$", text, re.MULTILINE)[0])


@pytest.mark.slow
def test_the_papers_models_are_within_their_figures(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "profile.py"), "--all"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    for label in PAPER:
        line = next(line for line in result.stdout.splitlines() if line.startswith(f"{label} "))
        differences = [float(number) for number in re.findall(r"([-+][\d.]+)%", line)]
        assert len(differences) == 2 * bool(PAPER[label].parameters)
        assert not differences or (differences[0] == 0 and abs(differences[1]) < 1)


def test_the_table_adds_up_and_matches(profiles):
    text = profiles(*LITE, "--src-len", "9", "--tgt-len", "11")
    assert "9 source and 11 target tokens" in text
    lines = text.partition("\ntotal")[0].splitlines()[1:]
    groups = [numbers(line) for line in lines if line[0] != " "]
    parts = [numbers(line) for line in lines if line[0] == " "]
    whole, output = figures(text, "total"), groups[-1]
    assert [sum(column) for column in zip(*groups, strict=True)] == whole == figures(text, "all")
    assert [sum(column) for column in zip(*parts, output, strict=True)] == whole
    assert groups[0][0] == 8848 * 160
    assert output == [0, 11 * 8848 * 160, 2 * 11 * 8848 * 160]
    assert figures(text, "without embeddings and output projection")[0] == 2_485_224
    assert "fp32" in text


def test_an_encoder_is_profiled_on_a_sentence(profiles):
    text = profiles("--arch", "ea_roberta_tiny", "--vocab", "80", "--src-len", "9", "--num-classes", "3")
    assert "a sentence of 9 tokens" in text
    assert figures(text, "tokens") == [80 * 128, 9 * 128, 2 * 9 * 128]
    whole, scored = figures(text, "all"), figures(text, "language model's head")
    assert [a - b for a, b in zip(whole, scored, strict=True)] == figures(text, "without language model's head")
    pooled, masked = (
        figures(text, name)[0]
        for name in (
            "BERT, EA: with pooler, without language model's head",
            "COMP: with language model's head, without pooler",
        )
    )
    assert pooled - masked == figures(text, "pooler")[0] - scored[0]
    assert pooled == whole[0] - scored[0] - figures(text, "linear layer to classes")[0] + 128
    assert "fairseq lacks RoBERTa's row of token types (128 parameters), which these count" in re.sub(r"\s+", " ", text)
    assert "decoder layer" not in text


def test_a_classifier_without_attention_is_profiled(profiles):
    text = profiles("--arch", "cnn_classifier", "--dense-connections", "--num-classes", "5")
    assert figures(text, "PA: without embeddings of words")[:1] == [2_774_277]
    assert "attention" not in text


def test_a_mechanism_without_costs_of_its_own_has_no_rows(profiles):
    text = profiles("--arch", "composite_transformer_lite", *SMALL)
    assert "attention parameters" not in text and "terms of scores" in text


def test_dictionaries_may_differ(profiles):
    text = profiles("--arch", "transformer_lite", "--vocab", "80", "--tgt-vocab", "60", *SMALL[:4])
    assert figures(text, "source tokens")[0] == 80 * 160
    assert figures(text, "target tokens")[0] == 60 * 160
    assert figures(text, "output projection")[0] == 60 * 160


def test_the_flags_of_a_recipe_are_taken(profiles):
    flags = flags_of("multi30k-deen/ea_transformer_lite")
    assert "2,485,224 parameters, 162.97M FLOPs" in re.sub(r"\s+", " ", profiles(*flags))


@pytest.mark.parametrize("other", [{"parameters": "2.48M"}, {"flops": "165.00M"}, {"flops": "161.00M"}])
def test_figures_other_than_the_papers_end_with_a_sentence(other, profiles, monkeypatch):
    label = "ea_transformer_lite"
    monkeypatch.setattr(profiled_model, "paper_flags", lambda: {label: paper_flags()[label]})
    assert "2,485,224" in profiles("--all")
    monkeypatch.setitem(PAPER, label, replace(PAPER[label], **other))
    with pytest.raises(UserError, match=label):
        profiles("--all")


@pytest.mark.parametrize("part", REFUSED)
def test_bad_flags_are_refused_in_one_sentence(part, profiles, capsys):
    with pytest.raises((UserError, SystemExit)) as stopped:
        profiles(*REFUSED[part])
    sentence = str(stopped.value)
    assert part in sentence
    assert "\n" not in sentence
    assert len(sentence) < 250
    assert capsys.readouterr().out == ""


def test_a_user_dir_that_cannot_be_imported_is_named_with_its_line(profiles, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "__init__.py").write_text("\nmissing\n")
    with pytest.raises(SystemExit, match=r"--user-dir: .* \(.*/broken/__init__.py, line 2: NameError: [^\n]*\)"):
        profiles("--arch", "my_transformer_lite", "--user-dir", str(folder))


def test_every_model_of_the_paper_has_flags_and_scores():
    assert list(paper_flags()) == list(PAPER)
    assert all(set(model.bleu) == set(DATASETS) for model in PAPER.values())


@pytest.mark.parametrize(("count", "text"), [(512, "0.5 KiB"), (1 << 20, "1.0 MiB"), (3 << 29, "1.5 GiB")])
def test_sizes_have_a_unit(count, text):
    assert profiled_model.size(count) == text


def test_recomputed_activations_are_not_kept(profiles):
    arch = ("--arch", "transformer_lite", *SMALL)
    kept, recomputed = (sizes_of(profiles(*arch, *flags)) for flags in ((), ("--checkpoint-activations",)))
    assert recomputed[0] < kept[0] / 2
    assert kept[1] < 0.8 * kept[0]


def sizes_of(text: str) -> list[float]:
    """KiB that the table says are kept for the backward pass, in single and in half precision."""
    return [float(number) for number in re.findall(r"([\d.]+) KiB", text.partition("kept for backward")[2])]


@pytest.mark.parametrize("arch", ["ea_vit_tiny", "aa_resnet_20", "conv_image_small"])
def test_a_model_of_images_is_profiled_on_one(arch, profiles):
    text = profiles("--arch", arch, "--image-size", "32", "--classes", "9")
    assert "an image of 32 x 32 pixels and 3 channels" in text
    parameters, macs, _ = figures(text, "classification head")
    assert parameters == macs + 9  # one product for each weight, none for a bias
    lines = text.partition("\ntotal")[0].splitlines()[1:]
    groups = [numbers(line) for line in lines if line[0] != " "]
    assert [sum(column) for column in zip(*groups, strict=True)] == figures(text, "total")
    assert "others" not in text


@pytest.mark.parametrize("arch", ["ea_dc_transformer", "time_series_gru"])
def test_a_model_of_time_series_is_profiled_on_the_longest(arch, monkeypatch, capsys):
    flags = ["--arch", arch, "--channels", "12", "--steps", "29", "--classes", "9", "--width", "32", "--blocks", "1"]
    monkeypatch.setattr(sys, "argv", ["profile.py", *flags])
    profile.main()
    printed = capsys.readouterr().out
    assert "a series of 29 steps and 12 channels" in printed
    assert figures(printed, "classification head")[:2] == [(29 * 32 + 1) * 9, 29 * 32 * 9]


@pytest.mark.parametrize(
    ("arch", "flag", "kind"),
    [
        ("dc_transformer", "--vocab", "time series"),
        ("ea_transformer", "--steps", "text"),
        ("ea_vit", "--steps", "images"),
        ("dc_transformer", "--image-size", "time series"),
    ],
)
def test_options_of_other_kinds_of_models_are_refused(arch, flag, kind, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["profile.py", "--arch", arch, flag, "9"])
    with pytest.raises(SystemExit, match=f"{flag}: {arch} reads {kind}"):
        profile.main()
