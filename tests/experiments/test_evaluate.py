"""scripts/evaluate.sh: from checkpoints to scores that others can count again, and to results.json."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils
from sacrebleu.metrics import BLEU

from binary_lines import write_binary
from checkpoints import save_loud
from commands import ROOT, run_python
from corpora import environment, warm_environment
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.data_bin import DataBin
from ea_fairseq.experiments.runs.trained_model import find_model
from ea_fairseq.experiments.runs.training_run import Start, TrainingRun
from ea_fairseq.experiments.scoring import evaluate as evaluate_module
from ea_fairseq.experiments.scoring.results import Results
from ea_fairseq.experiments.scoring.translation import Texts, best_lines, detokenizer

SENTENCES = 11  # no multiple of 8: fairseq-generate by itself leaves some out
WORDS = ["The", "dog", "cat-like", "do@@", "gs", "runs", "&apos;s", ",", "."]
RECIPE = "[train]\n--arch ea_transformer\n\n[evaluate]\n--average 2\n--beam 2\n"
START = Start("2020-01-01T00:00:00+00:00", "abc", "a device", {"python": "3.11"})
TEXTS = ("source.txt", "translation.txt", "translation.tok.txt", "reference.txt", "reference.tok.txt")


def write_data(folder: Path) -> Path:
    """Binarised sentences of a few words, in Moses' tokens with BPE, source and target alike."""
    folder.mkdir(parents=True)
    words = Dictionary()
    for word in WORDS:
        words.add_symbol(word)
    draw = random.Random(1)
    for language in ("de", "en"):
        words.save(str(folder / f"dict.{language}.txt"))
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 8))) for _ in range(SENTENCES)]
        write_binary(folder / f"test.de-en.{language}", words, lines)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """'some data' and 'a run' of two epochs by a recipe that averages both, evaluated."""
    home = tmp_path_factory.mktemp("a home")
    data, run = write_data(home / "some data"), home / "a run"
    run.mkdir()
    for seed in (1, 2):
        save_loud(data, run / f"checkpoint{seed}.pt", "--max-target-positions", "30", languages=("de", "en"), seed=seed)
    (run / "recipe").write_text(RECIPE)
    TrainingRun("my model", "toy/my_model", [], ["fairseq-train", "some data"], [START]).write(run)
    log = [{"loss": "3.5", "num_updates": "10", "wall": "7"}, {"valid_loss": "3", "valid_num_updates": "12"}]
    (run / "train.log").write_text("".join(json.dumps(entry) + "\n" for entry in log))
    return home


def sources(data: Path) -> list[str]:
    """The tokens of the source sentences, subwords joined."""
    words = Dictionary.load(str(data / "dict.de.txt"))
    found = data_utils.load_indexed_dataset(str(data / "test.de-en.de"), words, "mmap")
    return [words.string(tokens, "subword_nmt") for tokens in found]


def command(home: Path, *options, data="some data", run="a run") -> dict:
    """The arguments of subprocess that evaluate."""
    args = ["bash", ROOT / "scripts" / "evaluate.sh", *options, home / data, home / run]
    return {"args": args, "cwd": "/", "env": environment() | {"OMP_NUM_THREADS": "1"}}


def evaluate(home: Path, *options, **folders) -> subprocess.CompletedProcess:
    call = command(home, *options, **folders)
    call["env"] |= {"PATH": warm_environment()["PATH"]}
    return subprocess.run(**call, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def evaluated(home) -> str:
    """What the first evaluation printed."""
    result = evaluate(home, "--cpu", "--lenpen", "1.5")
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_results_say_what_was_evaluated_and_how(home, evaluated):
    results = Results.read(home / "a run" / "evaluation")
    assert (results.model, results.arch, results.recipe) == ("my model", "ea_transformer", "toy/my_model")
    assert results.checkpoints == ["checkpoint1.pt", "checkpoint2.pt"]
    assert results.search == {"beam": 2, "lenpen": 1.5}  # of the recipe and of the command
    assert (results.dataset.name, results.dataset.subset) == ("some data", "test")
    assert results.settings["encoder_embed_dim"] == 16 and results.settings["ea_beta"] == 0.5
    assert results.settings["no_cross_conv"] is False
    assert results.training_command == "fairseq-train 'some data'"
    assert "--lenpen 1.5" in results.commands[-1] and results.commands[-1].startswith("ea-fairseq evaluate ")
    assert (results.train_curve[0].loss, results.valid_curve[0].updates) == (3.5, 12)
    assert results.training_device == "a device" and results.parameters > 0 and results.flops > 0


def test_scores_are_those_of_the_texts_and_are_printed(home, evaluated):
    folder = home / "a run" / "evaluation"
    results = Results.read(folder)
    assert list(results.scores) == ["tokenized BLEU", "BLEU", "chrF", "TER"]
    texts = {name: lines_of(folder / name) for name in TEXTS}
    assert {name: len(lines) for name, lines in texts.items()} == dict.fromkeys(TEXTS, SENTENCES)
    tokenized = BLEU(tokenize="none", smooth_method="none")
    for name, suffix, metric in (("tokenized BLEU", ".tok.txt", tokenized), ("BLEU", ".txt", BLEU())):
        score = metric.corpus_score(texts[f"translation{suffix}"], [texts[f"reference{suffix}"]])
        assert results.scores[name].score == round(score.score, 2)
        assert results.scores[name].signature == str(metric.get_signature())
    for score in results.scores.values():
        assert score.signature in evaluated and score.detail in evaluated and f" {score.score:.2f} " in evaluated
    assert "no preparation.json" in evaluated
    joined = "".join(texts["reference.tok.txt"])
    assert "@@" not in joined and "dogs" in joined and "&apos;s" in joined
    assert "&apos;" not in "".join(texts["reference.txt"])
    assert texts["source.txt"] == [detokenizer("moses", "de")(line) for line in sources(home / "some data")]


def state(home: Path) -> dict[str, tuple[int, bytes]]:
    folder = home / "a run" / "evaluation"
    files = [path for path in folder.rglob("*") if path.is_file() and "logs" not in path.parts]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_what_was_made_is_not_made_again_until_something_changes(home, evaluated):
    before = state(home)
    shutil.copy(home / "a run/checkpoint1.pt", home / "a run/checkpoint_released.pt")  # as release.py puts it there
    again = evaluate(home, "--cpu", "--lenpen", "1.5")
    assert again.returncode == 0 and "making it" not in again.stdout
    assert state(home) == before
    assert again.stdout.split("\n\n", 1)[1].rsplit("\n", 2)[0] == evaluated.split("\n\n", 1)[1].rsplit("\n", 2)[0]


def test_what_was_made_is_not_made_again_where_it_was_moved(home, evaluated, tmp_path):
    shutil.copytree(home / "some data", tmp_path / "some data")
    shutil.copytree(home / "a run", tmp_path / "a run")
    moved = evaluate(tmp_path, "--cpu", "--lenpen", "1.5")
    assert "model.pt: already made" in moved.stdout and "generated: already made" in moved.stdout


def test_fairseq_is_not_imported_where_nothing_is_made(home, evaluated):
    code = "import sys; from ea_fairseq.experiments.scoring.evaluate import evaluate; evaluate(sys.argv[1:])"
    words = ["--cpu", "--lenpen", "1.5", home / "some data", home / "a run"]
    again = run_python(f"{code}; print('torch' in sys.modules)", *words, cwd=home)
    assert again.stdout.endswith("\nFalse\n") and "making it" not in again.stdout, again.stdout + again.stderr


def test_what_is_made_depends_on_all_code_that_runs_a_model_and_on_no_other(tmp_path):
    imported = "import ea_fairseq.plugin, sys; from ea_fairseq.hub import encoder, time_series, translation"
    listed = run_python(f"{imported}; print(*sys.modules)", cwd=tmp_path).stdout.split()
    modules = {name.split(".")[1] for name in listed if name.startswith("ea_fairseq.")}
    known = {Path(part).stem for part in evaluate_module.OF_MODELS}
    assert modules - known == {"criterions", "errors", "explorer", "imports", "optim", "plain", "plugin", "python314"}
    (tmp_path / "__init__.py").write_text("one")
    before = evaluate_module.code([], tmp_path)
    (tmp_path / "README.md").write_text("words")
    assert evaluate_module.code([], tmp_path) == before
    (tmp_path / "__init__.py").write_text("another")
    assert evaluate_module.code([], tmp_path) != before


@pytest.mark.slow
def test_the_same_is_made_anew_after_any_loss_and_in_another_folder(home, evaluated):
    folder = home / "a run" / "evaluation"
    contents = {path: content for path, (_, content) in state(home).items()}
    for lost in (*TEXTS, "results.json", "scores.txt", "model.pt", "generated"):
        path = folder / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        again = evaluate(home, "--cpu", "--lenpen", "1.5")
        assert again.returncode == 0 and "making it" in again.stdout, lost
        assert {path: content for path, (_, content) in state(home).items()} == contents, lost
    other = evaluate(home, "--cpu", "--lenpen", "1.5", "--out", home / "another folder")
    assert other.returncode == 0, other.stderr
    for name in TEXTS:
        assert (home / "another folder" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same(home, evaluated, tmp_path):
    out, draw, kills = tmp_path / "out", random.Random(1), 0
    options = ["--cpu", "--lenpen", "1.5", "--out", out]
    while not (out / "results.json").exists() and kills < 5:
        killed = subprocess.Popen(**command(home, *options), start_new_session=True, stdout=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            killed.wait(draw.uniform(1, 15))
        with suppress(ProcessLookupError):
            os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        kills += 1
    assert kills and evaluate(home, *options).returncode == 0
    for name in (*TEXTS, "model.pt"):
        assert (out / name).read_bytes() == (home / "a run" / "evaluation" / name).read_bytes()
    assert Results.read(out).scores == Results.read(home / "a run" / "evaluation").scores


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--average", "3"], "has 2 checkpoints to average, not 3: ask for fewer"),
        (["--checkpoint", "absent.pt"], "--checkpoint: there is no "),
        (["--subset", "valid"], "has no valid.de-en.de.bin: give a folder that has it"),
        (["--compound-split"], "--compound-split is not for some data: the papers split compounds of WMT'14"),
        (["--beam", "0"], "--beam: needs a whole number of at least 1, not '0'"),
        (["--lenpen", "-1"], "--lenpen: needs a number of at least 0, not '-1'"),
        (["--average", "all"], "--average: needs a whole number"),
        (["--reference", "/nowhere"], "--reference: there is no file /nowhere"),
        (["--colour"], "there is no option --colour: see --help"),
        (["/a", "/b"], "there is no option /"),
    ],
)
def test_bad_options_end_in_one_sentence(home, options, sentence, tmp_path):
    result = evaluate(home, "--out", tmp_path / "out", *options)
    assert result.returncode != 0
    assert sentence in result.stderr and len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("folders", "sentence"),
    [
        ({"data": "nowhere"}, "nowhere: give that of the binarised data, DATA_BIN"),
        ({"run": "nowhere"}, "nowhere: give the --save-dir of a training, CHECKPOINT_DIR"),
        ({"run": "some data"}, "some data has no checkpoints: give the --save-dir of a training"),
        ({"data": "a run"}, "a run has no binarised data, such as test.de-en.de.idx"),
    ],
)
def test_folders_that_are_not_what_they_should_be_are_named(home, folders, sentence):
    result = evaluate(home, **folders)
    assert result.returncode != 0
    assert sentence in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_data_of_other_words_are_refused(home, tmp_path):
    run, data = tmp_path / "run", str(home / "some data")
    run.mkdir()
    TrainingRun("m", "r", [], ["fairseq-train"], [START], dictionaries={"dict.de.txt": "of others"}).write(run)
    shutil.copy(home / "a run/checkpoint1.pt", run / "checkpoint_best.pt")
    with pytest.raises(UserError, match="some data is not what the model was trained on"):
        evaluate_module.evaluate([data, str(run)])
    with pytest.raises(UserError, match="some data is not what the model was trained on"):
        find_model(run, data=home / "some data")


def test_the_best_translations_are_taken_in_the_order_of_the_data():
    generated = "S-1\tx\nT-1\tlast one\nH-1\t-0.5\tb\nD-1\t-0.5\tz\nH-1\t-2\tworse\nINFO H-0\nT-0\t\nH-0\t-1.5\ta H-1\n"
    assert best_lines(generated, "H", 2) == ["a H-1", "b"]
    assert best_lines(generated, "T", 2) == ["", "last one"]
    with pytest.raises(UserError, match=r"fairseq-generate wrote 2 of 3 lines H-"):
        best_lines(generated, "H", 3)


def test_raw_text_of_another_length_is_refused(home, evaluated, tmp_path):
    data = DataBin(home / "some data")
    generated = home / "a run" / "evaluation" / "generated" / "generate-test.txt"
    reference = tmp_path / "raw.en"
    reference.write_text("A raw reference.\n" * SENTENCES)
    assert Texts.read(generated, data, "test", reference).raw[1] == ["A raw reference."] * SENTENCES
    assert Texts.read(generated, data, "test", source=reference).sources == ["A raw reference."] * SENTENCES
    reference.write_text("A raw reference.\n" * 3)
    with pytest.raises(UserError, match=rf"raw.en has 3 lines, and test of .* has {SENTENCES} sentences"):
        Texts.read(generated, data, "test", reference)
    with pytest.raises(UserError, match=r"--source: .*raw.en has 3 lines"):
        Texts.read(generated, data, "test", source=reference)
    reference.write_bytes("Größe\n".encode("latin-1") * SENTENCES)
    cut = tmp_path / "raw.en.gz"
    cut.write_bytes(gzip.compress(b"a reference\n" * SENTENCES)[:-9])
    for file in (reference, cut):
        with pytest.raises(UserError, match=rf"--reference: .*{file.name} is not UTF-8, or a damaged .gz"):
            Texts.read(generated, data, "test", file)


def test_tags_are_no_part_of_a_source(home, tmp_path):
    """Where the preparation knows them, and else they are words like others."""
    folder = shutil.copytree(home / "some data", tmp_path / "some data")
    generated, lines = tmp_path / "generate-test.txt", []
    for number in range(SENTENCES):
        lines += [f"S-{number}\t<BT> a dog , <BT>", f"T-{number}\tx", f"H-{number}\t-1\tx"]
    generated.write_text("\n".join(lines))
    description = {"source_lang": "de", "target_lang": "en", "tokenizer": "moses", "lowercase": False}
    description |= {"subword": "none", "models": []}
    for tags, source in (([], "<BT> a dog, <BT>"), (["BT"], "a dog, <BT>")):
        (folder / "preparation.json").write_text(json.dumps(description | {"tags": tags}))
        assert Texts.read(generated, DataBin(folder), "test").sources == [source] * SENTENCES


def test_an_evaluation_that_fails_leaves_the_results_that_are_there(home, evaluated, tmp_path):
    folder = shutil.copytree(home / "a run" / "evaluation", tmp_path / "evaluation")
    results = (folder / "results.json").read_bytes()
    (tmp_path / "short.en").write_text("A raw reference.\n")
    flags = ["--cpu", "--lenpen", "1.5", "--out", folder, "--reference", tmp_path / "short.en"]
    refused = evaluate(home, *flags)
    assert refused.returncode == 1 and "short.en has 1 line" in refused.stderr
    assert (folder / "results.json").read_bytes() == results


def test_moses_tokens_are_put_together_and_others_left_as_they_are():
    tokens = "He said , &quot; it &apos;s a well @-@ known &#91; dog &#93; . &quot;"
    raw = {"moses": 'He said, "it\'s a well-known [dog]."', "none": tokens}
    for tokenizer, expected in raw.items():
        assert detokenizer(tokenizer, "en")(tokens) == expected
