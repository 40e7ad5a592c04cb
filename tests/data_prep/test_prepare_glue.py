"""data-prep/prepare-glue.sh and prepare-sst5.sh: the data is what tables hold, in fairseq's own eyes."""

import gzip
import json
import random
from itertools import chain
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from bert import PIECES
from corpora import checksums
from dataset_runs import TABLE, assert_one_sentence, prepare, prepared
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.tables import plain_form, read_examples
from ea_fairseq.experiments.runs.bert_import import dictionary
from needs import ENCODER_TASKS, needs_file

ROWS = {"train": 60, "valid": 8, "test": 7}
CLASSES = ["apart", "like"]


def write_tables(folder: Path, sentences: int = 2, label=CLASSES.__getitem__, suffix: str = "", splits=ROWS) -> Path:
    """Tables of examples of so many sentences, whose labels a function makes of 0 and 1."""
    folder.mkdir(parents=True)
    chance = random.Random(3)
    for split in splits:
        lines = ["\t".join(["label", "sentence", "sentence2"][: 1 + sentences])]
        for _ in range(ROWS[split]):
            texts = [" ".join(chance.choices(["a", "zebra", "bad", "Café", "b!"], k=4)) for _ in range(sentences)]
            lines.append("\t".join([label(chance.randrange(2)), *texts]))
        text = "".join(f"{line}\n" for line in lines).encode()
        (folder / f"{split}.tsv{suffix}").write_bytes(gzip.compress(text) if suffix else text)
    return folder


def examples(table: Path) -> list[tuple[str, ...]]:
    return list(read_examples(table, plain_form(table)))


def load(data: Path, split: str, **options):
    """What fairseq's task makes of a split: the words of each sentence, and the targets."""
    config = SentencePredictionConfig(data=str(data), num_classes=2, init_token=0, no_shuffle=True)
    vars(config).update({"regression_target": False, "classification_head_name": "head", "seed": 1} | options)
    task = SentencePredictionTask.setup_task(config)
    dataset = task.load_dataset(split)
    words = task.source_dictionary
    texts = [" ".join(words[token] for token in dataset[row]["net_input.src_tokens"]) for row in range(len(dataset))]
    return texts, [torch.as_tensor(dataset[row]["target"]).item() for row in range(len(dataset))]


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """A task of one's own, of pairs, with tables and what was made of them."""
    home = tmp_path_factory.mktemp("a task")
    tables = write_tables(home / "my tables", suffix=".gz")
    options = ["--merges", "20", "--lowercase", "--workers", "1"]
    prepared("glue", "--task", "likeness", "--tsv", tables, *options, home / "out")
    return home


def test_the_data_is_the_tables(own):
    for split in ROWS:
        table = examples(own / f"my tables/{split}.tsv.gz")
        texts, targets = load(own / "out/data-bin", split)
        assert [CLASSES[int(target)] for target in targets] == [label for label, *_ in table]
        for text, (_, *pair) in zip(texts, table, strict=True):
            assert text.startswith("<s> ")
            words = [part.replace("@@ ", "").split() for part in text.removeprefix("<s>").split("</s>")]
            assert words[:2] == [sentence.lower().replace("!", " !").split() for sentence in pair]


def test_it_is_described_like_other_data(own):
    data = own / "out/data-bin"
    manifest = json.loads((data / "manifest.json").read_text())
    assert {split: description["pairs"] for split, description in manifest["splits"].items()} == ROWS
    assert set(manifest["files"]) == {
        str(path.relative_to(data)) for path in data.rglob("*") if path.is_file() and path.name != "manifest.json"
    }
    assert [source["file"] for source in manifest["sources"]] == [f"{split}.tsv.gz" for split in ROWS]
    preparation = json.loads((data / "preparation.json").read_text())
    assert preparation["classes"] == CLASSES and preparation["task"] == "likeness" and preparation["inputs"] == 2
    assert (data / "input0/dict.txt").read_bytes() == (data / "input1/dict.txt").read_bytes()
    labels = Dictionary.load(str(data / "label/dict.txt"))
    assert labels.symbols[labels.nspecial :] == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--task", "mine", "out"], "give --tsv, the folder of its tables"),
        (["out"], "--task needs cola, sst-2"),
        (["--task", "a/b", "out"], "--task needs cola, sst-2"),
        (["--task", "rte", "--regression", "out"], "rte has classes"),
        (["--task", "cola", "--tsv", "nowhere", "out"], "--tsv: there is no folder nowhere"),
        (["--task", "cola", "--vocabulary", "nowhere", "out"], "has no vocab.txt and dict.txt"),
        (["--task", "cola", "--cased", "out"], "--cased is for WordPiece"),
        (["--task", "cola", "--threshold", "0", "out"], "--threshold: needs a whole number"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(tmp_path, arguments, reason):
    result = prepare("glue", *arguments[:-1], "--dry-run", tmp_path / arguments[-1])
    assert_one_sentence(result, reason)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_glues_names_have_their_sentences_and_counts(tmp_path):
    pairs = write_tables(tmp_path / "pairs", label=str)
    assert_one_sentence(prepare("glue", "--task", "cola", "--tsv", pairs, tmp_path / "out"), "cola has 1")
    alone = write_tables(tmp_path / "alone", sentences=1, label=str)
    result = prepare("glue", "--task", "cola", "--tsv", alone, "--merges", "5", tmp_path / "out")
    assert_one_sentence(result, "train 60 instead of 8551")
    classes = write_tables(tmp_path / "classes", sentences=1)
    result = prepare("glue", "--task", "cola", "--tsv", classes, "--merges", "5", tmp_path / "out")
    assert_one_sentence(result, "label 1 of train is", "must be one of 0, 1")


@pytest.mark.slow
def test_nothing_is_made_twice_and_changed_tables_are_made_anew(own, tmp_path):
    options = ["--merges", "20", "--lowercase", "--workers", "1"]
    before = checksums(own / "out")
    prepared("glue", "--task", "likeness", "--tsv", own / "my tables", *options, own / "out")
    assert checksums(own / "out") == before
    tables = write_tables(tmp_path / "tables", splits=["train", "valid"])
    small = ["--subsample", "9", "--remove-intermediate", "--workers", "2"]
    prepared("glue", "--task", "likeness", "--tsv", tables, *options, *small, tmp_path / "out")
    texts, targets = load(tmp_path / "out/data-bin", "train")
    assert len(texts) == len(targets) == 9 and not (tmp_path / "out/extracted").exists()
    (tables / "train.tsv").write_text("label\ta\tb\n" + "like\tzebra\tzebra\nodd\tzebra\tbad\n" * 9)
    result = prepare("glue", "--task", "likeness", "--tsv", tables, *options, *small, tmp_path / "out")
    assert_one_sentence(result, "of valid is apart, and must be one of like, odd")


@pytest.mark.slow
def test_scores_and_words_of_bert(tmp_path):
    tables = write_tables(tmp_path / "tables", label=lambda number: str(number + 0.5))
    words = tmp_path / "bert"
    words.mkdir()
    (words / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    dictionary(PIECES).save(str(words / "dict.txt"))
    prepared("glue", "--task", "mine", "--tsv", tables, "--regression", "--vocabulary", words, tmp_path / "out")
    texts, targets = load(tmp_path / "out/data-bin", "valid", num_classes=1, regression_target=True)
    assert targets == [float(label) for label, *_ in examples(tables / "valid.tsv")]
    assert set(chain(*map(str.split, texts))) <= {"<s>", "</s>", "<unk>", "a", "b", "zebra"}
    assert (tmp_path / "out/data-bin/input0/dict.txt").read_bytes() == (words / "dict.txt").read_bytes()
    (words / "vocab.txt").write_text("a\n")
    result = prepare("glue", "--task", "mine", "--tsv", tables, "--vocabulary", words, tmp_path / "other")
    assert_one_sentence(result, "is no vocabulary of BERT: it has no [CLS]")


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "dev"])
def test_archives_are_verified(tmp_path, split):
    name = f"glue-cola-{split}"
    folder = tmp_path / "archives/CoLA"
    folder.mkdir(parents=True)
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text("gj04\t1\t\tA b.\ngj04\t0\t*\tB b.\n")
    command = ["--task", "cola", "--archives", folder.parent, "--subword", "none", "--mirror", "http://localhost:9"]
    other = {"train": "dev", "dev": "train"}[split]
    choice = f"sha256:{sha256(folder / 'dev.tsv')}"
    result = prepare("glue", *command, "--accept", f"glue-cola-{other}={choice}", tmp_path / "out")
    assert_one_sentence(result, f"--accept {name}={choice} if you trust it")
    assert TABLE[name][0].checksum != choice


@needs_file("sst-5/train.tsv.gz")
@pytest.mark.slow
def test_sst5_keeps_words_seen_twice(tmp_path):
    prepared("sst5", "--tsv", ENCODER_TASKS / "sst-5", tmp_path / "out")
    _, targets = load(tmp_path / "out/data-bin", "test", num_classes=5)
    assert len(targets) == 2210 and set(targets) == {0.0, 1.0, 2.0, 3.0, 4.0}
    words = Dictionary.load(str(tmp_path / "out/data-bin/input0/dict.txt"))
    assert min(words.count[number] for number, word in enumerate(words.symbols) if word.isalpha()) >= 2
    assert len(words) == 8224


@needs_file("mrpc/train.tsv.gz")
@pytest.mark.slow
@pytest.mark.parametrize("task", ["mrpc", "sts-b"])
def test_glues_tables(tmp_path, task):
    prepared("glue", "--task", task, "--tsv", ENCODER_TASKS / task, "--subword", "none", tmp_path / "out")
    regression = {"regression_target": True, "num_classes": 1} if task == "sts-b" else {}
    _, targets = load(tmp_path / "out/data-bin", "valid", **regression)
    scale = 5 if regression else 1
    table = examples(ENCODER_TASKS / task / "valid.tsv.gz")
    assert [target * scale for target in targets] == pytest.approx([float(label) for label, *_ in table])
