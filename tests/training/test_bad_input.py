"""Bad flags, files and checkpoints: each ends a command with one sentence that names it, and leaves nothing behind."""

import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

import ea_fairseq  # noqa: F401
from commands import PLUGIN, run
from forked import run_forked
from reversal import DATA, generate_command, train, train_command

NEW = "new"  # folder that a training would save to
LOADING = {
    "finetune": lambda path: train_command(NEW, 2, "--finetune-from-model", path),
    "restore": lambda path: train_command(NEW, 2, "--restore-file", path),
    "generate": lambda path: generate_command("--path", path),
    "ensemble": lambda path: generate_command("--path", f"evolving/checkpoint_last.pt:{path}"),
}


class Hostile:
    """Creates a file named marker when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch marker",)


@pytest.fixture(scope="module")
def home(home):
    """A user's folder with data, the checkpoints of a plain and of an evolving model, and spoilt ones of all kinds."""
    train(home, "plain", 1, arch="transformer")
    train(home, "evolving", 1)
    whole = (home / "evolving" / "checkpoint_last.pt").read_bytes()
    (home / "truncated.pt").write_bytes(whole[: len(whole) // 2])
    (home / "text.pt").write_text("This is a text.\n" * 10)
    (home / "pickle.pt").write_bytes(pickle.dumps({"model": Hostile()}, protocol=2))
    (home / "folder.pt").mkdir()
    state = torch.load(home / "evolving" / "checkpoint_last.pt")
    torch.save({**state, "extra_state": Hostile()}, home / "hostile.pt")
    torch.save(state["model"], home / "only-parameters.pt")
    torch.save([1, 2, 3], home / "list.pt")
    for name, change in {
        "without-a-convolution.pt": lambda model: model.pop("encoder.layers.1.self_attn.conv.weight"),
        "wide-kernel.pt": lambda model: model.update(
            {"decoder.layers.0.self_attn.conv.weight": torch.zeros(2, 2, 5, 5)}
        ),
        "small-vocabulary.pt": lambda model: model.update({"encoder.embed_tokens.weight": torch.zeros(5, 16)}),
        "more.pt": lambda model: model.update({"encoder.layers.0.self_attn.gate": torch.zeros(1)}),
    }.items():
        model = dict(state["model"])
        change(model)
        torch.save({**state, "model": model}, home / name)
    (home / "a file").write_text("text\n")
    return home


FLAGS = {
    "alpha above one": (["--ea-alpha", "2"], "--ea-alpha must be a number from 0 to 1, not '2'"),
    "even kernel": (["--ea-kernel-size", "4"], "--ea-kernel-size must be an odd number from 1 up, not '4'"),
    "unknown start": (["--ea-init", "zero"], "--ea-init must be one of auto, identity, random, not 'zero'"),
    "missing value": (["--ea-alpha"], "--ea-alpha: expected one argument"),
    "unknown architecture": (["--arch", "ea_transformer_huge"], "'ea_transformer_huge'"),
    "misspelt architecture": (
        ["--arch", "ea_transfromer_lite"],
        "--arch/-a: there is no 'ea_transfromer_lite': did you mean ea_transformer_lite or",
    ),
    "unknown flag": (["--ea-gamma", "1"], "--ea-gamma"),
    "cross-self-attention": (["--cross-self-attention"], "ea_transformer does not support --cross-self-attention: "),
    "heads": (["--encoder-attention-heads", "3"], "--encoder-attention-heads must divide --encoder-embed-dim"),
    "no heads": (["--decoder-attention-heads", "0"], "--decoder-attention-heads must divide"),
    "two widths": (["--share-all-embeddings", "--decoder-embed-dim", "8"], "requires --encoder-embed-dim to match"),
    "Muon in half precision": (
        ["--optimizer", "muon", "--fp16", "--fp16-no-flatten-grads"],
        "--optimizer muon cannot tell embeddings from other matrices under --fp16 and --bf16: train with --autocast",
    ),
    "file for a folder": (["--save-dir", "a file"], "a file"),
    "another model's optimizer": (["--restore-file", "plain/checkpoint_last.pt"], "--reset-optimizer"),
    "missing start of a training": (["--restore-file", "plane.pt"], "--restore-file: there is no file plane.pt"),
    "missing start": (["--finetune-from-model", "missing.pt"], "--finetune-from-model missing.pt does not exist"),
    "two starts": (
        ["--finetune-from-model", "plain/checkpoint_last.pt", "--restore-file", "evolving/checkpoint_last.pt"],
        "--finetune-from-model and --restore-file (non-default value) can not be specified together",
    ),
    "start with resets": (
        ["--finetune-from-model", "plain/checkpoint_last.pt", "--reset-optimizer"],
        "--finetune-from-model can not be set together with either --reset-optimizer",
    ),
    "missing split": (["--valid-subset", "validation"], "validation"),
    "BLEU that is not measured": (
        ["--best-checkpoint-metric", "bleu"],
        "--best-checkpoint-metric bleu needs --eval-bleu",
    ),
    "options of BLEU": (
        ["--eval-bleu", "--eval-bleu-args", "{beam:2}"],
        "--eval-bleu-args must be an object of JSON, such as '{\"beam\": 5}', not '{beam:2}'",
    ),
    "detokenizer": (
        ["--eval-bleu", "--eval-bleu-detok", "nosuch"],
        "--eval-bleu-detok must be moses, nltk or space, not 'nosuch'",
    ),
    "one beta": (["--adam-betas", "0.9"], "--adam-betas must be two numbers, such as '(0.9, 0.98)', not '0.9'"),
    "two rates": (
        ["--lr", "1e-3,5e-4", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "2"],
        "Cannot use a fixed learning rate schedule with inverse_sqrt.",
    ),
    "short batches": (["--max-tokens", "5"], "Sentences lengths should not exceed max_tokens=5"),
    "blocks": (
        ["--quant-noise-pq", "0.1", "--quant-noise-pq-block-size", "7"],
        "Input features must be a multiple of block sizes",
    ),
    "short positions": (["--max-source-positions", "5"], "valid: Size of sample #"),
    "tied tables": (
        ["--adaptive-softmax-cutoff", "5", "--criterion", "adaptive_loss", "--tie-adaptive-weights"],
        "--tie-adaptive-weights needs --adaptive-input",
    ),
    "asynchronous writing": (["--write-checkpoints-asynchronously"], "needs iopath: pip install iopath"),
    "place of several": (["--save-dir", "a:b"], "--save-dir must have no ':'"),
}
CHECKPOINTS = {
    "truncated.pt": "truncated.pt is not whole: its end is missing or damaged",
    "text.pt": "text.pt is not a checkpoint of fairseq",
    "list.pt": "list.pt is not a checkpoint of fairseq",
    "only-parameters.pt": "only-parameters.pt is not a checkpoint of fairseq",
    "hostile.pt": "hostile.pt is refused: it wants to run posix.system, and a checkpoint is data",
    "pickle.pt": "pickle.pt is refused: it wants to run posix.system, and a checkpoint is data",
    "without-a-convolution.pt": "has no encoder.layers.1.self_attn.conv.weight",
    "wide-kernel.pt": "decoder.layers.0.self_attn.conv.weight is 2 x 2 x 5 x 5 in the checkpoint",
    "small-vocabulary.pt": "encoder.embed_tokens.weight is 5 x 16 in the checkpoint",
    "more.pt": "the model has no encoder.layers.0.self_attn.gate",
}
MODEL = ["--path", "evolving/checkpoint_last.pt"]
TRANSLATIONS = {
    "missing checkpoint": (["--path", "missing.pt"], "missing.pt"),
    "missing in an ensemble": (["--path", "evolving/checkpoint_last.pt:missing.pt"], "missing.pt"),
    "folder for a checkpoint": (["--path", "folder.pt"], "folder.pt"),
    "missing split": (["--path", "evolving/checkpoint_last.pt", "--gen-subset", "tests"], "tests"),
    "override of another kernel": (
        ["--path", "evolving/checkpoint_last.pt", "--model-overrides", "{'ea_kernel_size': 5}"],
        "encoder.layers.0.self_attn.conv.weight is 2 x 2 x 3 x 3 in the checkpoint",
    ),
    "override out of range": (
        ["--path", "evolving/checkpoint_last.pt", "--model-overrides", "{'ea_alpha': 3}"],
        "--ea-alpha must be a number from 0 to 1, not 3",
    ),
    "constraints": ([*MODEL, "--constraints"], "--constraints is for fairseq-interactive"),
    "temperature": ([*MODEL, "--temperature", "0"], "--temperature must be greater than 0"),
    "sampling": ([*MODEL, "--sampling", "--beam", "5"], "--sampling requires --nbest to be equal to --beam"),
    "groups": ([*MODEL, "--diverse-beam-groups", "3", "--beam", "5"], "requires --beam to be divisible by the number"),
    "overrides": ([*MODEL, "--model-overrides", "{bad"], "--model-overrides must be a dictionary of Python's"),
    "steps": ([*MODEL, "--print-step"], "--print-step is for models that refine a translation"),
    "short batches": ([*MODEL, "--max-tokens", "2"], "Sentences lengths should not exceed max_tokens=2"),
    "nothing left": (
        [*MODEL, "--max-source-positions", "1", "--skip-invalid-size-inputs-valid-test"],
        "all 6 sentences are longer than (1, 1024) tokens",
    ),
    "unknown words": ([*MODEL, "--replace-unk", "--remove-bpe"], "--replace-unk requires a raw text dataset"),
}


def files(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def assert_refused(command, home: Path, culprit: str):
    """The command fails with a last line that holds the culprit, without a traceback, and changes no file."""
    before = files(home)
    result = run_forked(*command, cwd=home)
    assert result.returncode in (1, 2), result.stdout + result.stderr
    assert "Traceback" not in result.stderr + result.stdout, result.stderr
    last_line = result.stderr.splitlines()[-1]
    assert last_line.startswith(f"{command[0]}: "), last_line
    assert culprit in last_line
    assert files(home) == before


@pytest.mark.parametrize(("flags", "culprit"), FLAGS.values(), ids=FLAGS)
def test_a_flag(home, flags, culprit):
    assert_refused(train_command(NEW, 1, *flags), home, culprit)


@pytest.mark.parametrize("load", ["finetune", pytest.param("generate", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint(home, name, load):
    assert_refused(LOADING[load](name), home, CHECKPOINTS[name])


@pytest.mark.parametrize("load", ["restore", "generate", "ensemble"])
@pytest.mark.parametrize("name", ["truncated.pt", "hostile.pt", "wide-kernel.pt"])
def test_a_checkpoint_otherwise(home, name, load):
    assert_refused(LOADING[load](name), home, CHECKPOINTS[name])


@pytest.mark.parametrize(("flags", "culprit"), TRANSLATIONS.values(), ids=TRANSLATIONS)
def test_a_translation(home, flags, culprit):
    assert_refused(generate_command(*flags), home, culprit)


def test_data_without_a_dictionary(home):
    culprit = "empty data/dict.src.txt"
    (home / "empty data").mkdir()
    command = generate_command("--path", "evolving/checkpoint_last.pt", "-s", "src", "-t", "tgt", data="empty data")
    assert_refused(command, home, culprit)
    train_flags = ["-s", "src", "-t", "tgt"]
    assert_refused(["fairseq-train", "empty data", *train_command(NEW, 1, *train_flags)[2:]], home, culprit)


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (lambda lines: [*lines, lines[2]], "spoilt data/dict.tgt.txt has the word 'c' of line 13 in line 3 already"),
        (
            lambda lines: [*lines, b"<s> 1\n"],
            "has the word '<s>' of line 13 among fairseq's symbols already",
        ),
        (lambda lines: [lines[0], b"word\n"], "dict.tgt.txt needs a word, a space and a count in line 2, not 'word'"),
        (lambda lines: [b"\xe4 1\n"], "the dictionary spoilt data/dict.tgt.txt is not UTF-8"),
        (lambda lines: lines[1:], "the dictionary has another number of tokens than in training"),
    ],
    ids=["twice", "symbol", "no count", "Latin-1", "a line less"],
)
def test_data_with_a_spoilt_dictionary(home, change, culprit):
    shutil.copytree(home / DATA, home / "spoilt data")
    try:
        lines = sorted((home / DATA / "dict.tgt.txt").read_bytes().splitlines(keepends=True))
        assert len(lines) == 12
        (home / "spoilt data/dict.tgt.txt").write_bytes(b"".join(change(lines)))
        command = generate_command("--path", "evolving/checkpoint_last.pt", data="spoilt data")
        assert_refused(command, home, culprit)
    finally:
        shutil.rmtree(home / "spoilt data")


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_text_that_is_not_utf8(home, workers):
    (home / "latin.src").write_bytes(b"a b\nc \xe4 d\n")
    (home / "latin.tgt").write_text("a\nb\n")
    prefixes = ["-s", "src", "-t", "tgt", "--trainpref", "latin", "--user-dir", PLUGIN, "--workers", workers]
    for more in ([], ["--srcdict", f"{DATA}/dict.src.txt", "--tgtdict", f"{DATA}/dict.tgt.txt"]):
        result = run_forked("fairseq-preprocess", *prefixes, *more, "--destdir", "latin data", cwd=home)
        assert result.returncode == 1 and "Traceback" not in result.stderr
        assert result.stderr.splitlines()[-1] == "fairseq-preprocess: latin.src is not UTF-8: line 2 has the byte 0xe4"
    assert not list((home / "latin data").glob("*.bin"))


LINES = {  # of fairseq-interactive: its input, more flags, and what the last line says
    "Latin-1": (b"a b\n\xe4 b\n", [], "lines is not UTF-8: line 2 has the byte 0xe4"),
    "long line": (
        b"a " * 1601,
        [],
        "Size of sample #0 is invalid (=(np.int64(1602), 0)) since max_",
    ),
}


@pytest.mark.parametrize(("lines", "flags", "culprit"), LINES.values(), ids=LINES)
def test_lines_to_translate(home, lines, flags, culprit):
    (home / "lines").write_bytes(lines)
    command = ["fairseq-interactive", *generate_command(*MODEL, "--input", "lines", *flags)[1:]]
    assert_refused(command, home, culprit)


def test_lines_without_words_stay_so_and_long_ones_are_truncated(home):
    (home / "lines").write_text(f"a b\n\n  \n{'c ' * 1601}\nd\n")
    flags = ["--input", "lines", "--truncate-source", "--buffer-size", "5", "--max-len-b", "4", "--max-len-a", "0"]
    command = ["fairseq-interactive", *generate_command(*MODEL, *flags, "--beam", "2", "--nbest", "2")[1:]]
    result = run_forked(*command, cwd=home)
    assert result.returncode == 0, result.stderr
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    source = {row[0]: row[1].split() for row in rows if row[0].startswith("S-")}
    assert [len(source[f"S-{number}"]) for number in range(5)] == [2, 0, 0, 1023, 1]
    found = [(row[0], len(row[2].split())) for row in rows if row[0].startswith("D-")]
    assert [name for name, _ in found] == ["D-0", "D-0", "D-1", "D-2", "D-3", "D-3", "D-4", "D-4"]
    assert [name for name, words in found if not words] == ["D-1", "D-2"]


def test_a_validation_without_a_task(home):
    command = ["fairseq-validate", DATA, "--user-dir", PLUGIN, *MODEL, "--cpu"]
    result = run(*command, cwd=home)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("fairseq-validate: --task is missing: give the model")


def test_right_flags_beside_those_that_are_refused(home, tmp_path):
    """The same flags with values that work."""
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 5}', "--best-checkpoint-metric", "bleu"]
    sizes = ["--max-source-positions", "9", "--required-batch-size-multiple", "1"]
    others = ["--adam-betas", "(0.9, 0.98)", "--lr", "1e-3,5e-4", "--quant-noise-pq", "0.1"]
    flags = [*bleu, *sizes, *others, "--quant-noise-pq-block-size", "8", "--eval-bleu-detok", "space"]
    train(home, tmp_path, 1, *flags, "--maximize-best-checkpoint-metric")
    searches = ["--sampling", "--beam", "5", "--nbest", "5"], ["--diverse-beam-groups", "3", "--beam", "6"]
    for search in (*searches, ["--model-overrides", "{'dropout': 0.1}", "--temperature", "0.5", "--max-tokens", "50"]):
        assert run_forked(*generate_command(*MODEL, *search), cwd=home).returncode == 0


def test_the_table_says_something(home, monkeypatch):
    """What is refused above is accepted when it is whole, and a hostile file would have run what it holds."""
    assert run_forked(*LOADING["ensemble"]("evolving/checkpoint_last.pt"), cwd=home).returncode == 0
    assert run_forked(*LOADING["finetune"]("plain/checkpoint_last.pt"), cwd=home).returncode == 0
    monkeypatch.chdir(home)
    torch.load("hostile.pt", weights_only=False)
    assert (home / "marker").exists()
