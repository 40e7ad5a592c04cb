"""scripts/translate.sh translates raw text line for line, as fairseq-generate translates the prepared text."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
from argparse import Namespace
from io import BytesIO
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from checkpoints import save_loud
from commands import ROOT
from corpora import LOWERCASED, SIZES, WORDS, environment, prepared, sentence, write_corpus
from ea_fairseq import EATransformerModel
from ea_fairseq.data.subword_models import learn_sentencepiece
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.scoring.translation import best_lines
from ea_fairseq.experiments.translate import Translator, load, read_lines, uninterrupted
from ea_fairseq.plain.precisions import PRECISIONS
from ea_fairseq.plain.text_lines import read_lines as prepared_lines
from ea_fairseq.text.preparation import Preparation
from ea_fairseq.text.subwords import make_segmenter
from generation import generated

SCRIPT = ROOT / "scripts" / "translate.sh"
POSITIONS = ["--max-source-positions", "100", "--max-target-positions", "30"]
RAW = {
    "de": [
        "Der Hund läuft über die Wiese.",
        "Er sagt: „Ja & nein“ [1]",
        "Hund",
        "Die Hund-Katze schläft ca. über dem  BAUM…",
        "die grünen\u2028Katze\x0cgrößer\x85die Wiese",
    ],
    "en": ["The dog runs.", "He says: “Yes”", "dog", "The cat - dog sleeps...", "a\u2028tree"],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """'data-bin' is a corpus prepared with lower-casing, moses and BPE; 'a model' has checkpoints trained on it."""
    home = tmp_path_factory.mktemp("a home")
    corpus = write_corpus(home / "a corpus")
    for language, lines in RAW.items():
        (corpus / f"test.{language}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    prepared(*LOWERCASED, corpus, home / "out")
    (home / "data-bin").symlink_to("out/data-bin")
    (home / "a model").mkdir()
    for seed, name in enumerate(("a.pt", "b.pt")):
        save_loud(home / "data-bin", home / "a model" / name, *POSITIONS, languages=("de", "en"), seed=seed)
    shutil.copy(home / "a model/a.pt", home / "a model/checkpoint_best.pt")
    return home


def start(home, *flags, **files) -> subprocess.Popen:
    command = ["bash", SCRIPT, *flags, home / "a model", "--cpu"]
    return subprocess.Popen(command, env=environment() | {"OMP_NUM_THREADS": "1"}, cwd="/", **files)


def translate(home, text: bytes, *flags) -> tuple[int, list[str], list[str]]:
    """Exit status, lines of stdout and lines of stderr."""
    with start(home, *flags, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        output, errors = process.communicate(text, timeout=120)
    assert not output or output.endswith(b"\n")
    return process.returncode, output.decode().split("\n")[:-1], re.split("[\r\n]+", errors.decode().strip())


def arguments(folder: Path, **changes) -> Namespace:
    defaults = {
        "checkpoint": None,
        "data": None,
        "beam": 3,
        "lenpen": 1.0,
        "max_tokens": 4096,
        "cpu": True,
        "tag": None,
        "sampling": False,
        "shortlist": None,
        **dict.fromkeys(PRECISIONS, False),
    }
    return Namespace(model_dir=folder, **defaults | changes)


@pytest.fixture(scope="module")
def translator(home) -> Translator:
    return load(arguments(home / "a model"))


def test_translations_are_those_of_fairseq_generate_line_for_line(home):
    checkpoints = ":".join(str(home / "a model" / name) for name in ("a.pt", "b.pt"))
    flags = ["-s", "de", "-t", "en", "--path", checkpoints, "--remove-bpe", "--tokenizer", "moses"]
    flags += ["--beam", 4, "--lenpen", 2, "--max-tokens", 300]
    expected = best_lines(generated(home / "data-bin", home / "results", *flags), "D", SIZES["test"])
    assert len(set(expected)) > 3

    first, second, third, fourth, fifth = RAW["de"]
    lines = ["\ufeff" + first, "", second, " \t\u2028 ", third, fourth, "\r", fifth]
    search = ["--checkpoint", "a.pt:b.pt", "--beam", "4", "--lenpen", "2", "--buffer-size", "3"]
    status, output, errors = translate(home, "\r\n".join(lines).encode(), *search)
    assert status == 0, errors
    assert output == [expected[0], "", expected[1], "", *expected[2:4], "", expected[4]]
    assert errors == [""], "a handful of lines needs no progress"


def test_without_standard_input_it_asks_for_some(home):
    closed = ["bash", "-c", 'exec bash "$@" <&-', "-", SCRIPT, home / "a model", "--cpu"]
    result = subprocess.run(closed, env=environment(), capture_output=True, text=True)
    assert result.returncode == 1 and "there is no standard input: give the text by" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_ctrl_c_leaves_whole_lines_and_says_how_many(home):
    pipe = subprocess.PIPE
    with start(home, "--buffer-size", "2", stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdin.write("".join(line + "\n" for line in RAW["de"][:3]).encode())
        process.stdin.flush()
        translated = process.stdout.readline() + process.stdout.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert translated.count(b"\n") == 2 and output == b""
    assert errors.decode().splitlines()[-1] == "translate: stopped; the first 2 lines are translated."
    assert b"Traceback" not in errors


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_quietly(home):
    pipe = subprocess.PIPE
    with start(home, "--buffer-size", "1", stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdin.write(b"Hund\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"Hund\n")
        errors = process.communicate(timeout=60)[1].decode()
    assert process.returncode == -signal.SIGPIPE
    assert all("lines/s" in line for line in re.split("[\r\n]+", errors) if line)


def test_a_terminal_shows_nothing_but_translations(home, translator):
    terminal, end = pty.openpty()
    with start(home, "--buffer-size", "1", "--beam", "3", stdin=subprocess.PIPE, stdout=end, stderr=end) as process:
        os.close(end)
        process.stdin.write("".join(line + "\n" for line in RAW["de"]).encode())
        process.stdin.close()
        shown = b"".join(written_to(terminal))
    assert shown.decode().split("\r\n") == [*translator(RAW["de"]), ""]


def written_to(terminal: int):
    """What a terminal is given until all programs have left it."""
    while True:
        try:
            yield os.read(terminal, 1000)
        except OSError:  # so Linux says that nobody writes any more
            return


@pytest.mark.slow
def test_long_lines_are_translated_in_parts_and_text_that_is_not_utf8_is_refused(home):
    lines = [b"Hund", "Der Hund läuft über die Wiese. ".encode() * 20, b"", b"Hund \xff", b"Hund"]
    status, output, errors = translate(home, b"\n".join(lines), "--buffer-size", "1")
    assert status == 1
    assert len(output) == 3 and output[0] and len(output[1].split()) > 30 and not output[2]
    (report,) = [line for line in errors if "line 2 " in line]
    assert re.search(r"more than the 100 tokens .* in \d parts", report)
    assert errors[-1] == "translate: line 4 of the input is not UTF-8: convert the input with iconv."


def test_order_is_restored_and_an_empty_line_stays_empty(translator):
    lines = ["die Katze schläft größer über", "", "Hund", "Der Hund läuft.", "", "die Katze"]
    together = translator(lines)
    assert together == [translator([line])[0] for line in lines]
    assert [index for index, line in enumerate(together) if not line] == [1, 4]
    assert len(set(together)) == 5
    assert translator([""]) == [""]


def test_batches_smaller_than_a_line_change_nothing(home, translator):
    assert load(arguments(home / "a model", max_tokens=1))(RAW["de"]) == translator(RAW["de"])


def test_a_higher_length_penalty_gives_longer_translations(home):
    lengths = []
    for penalty in (0.0, 3.0):
        translator = load(arguments(home / "a model", lenpen=penalty))
        decoder = translator.hub.models[0].decoder
        with torch.no_grad():  # a constant lets sentences end anywhere
            decoder.layers[-1].final_layer_norm.bias.fill_(1)
            decoder.output_projection.weight[translator.hub.tgt_dict.eos()] += 0.5
        lengths.append(sum(len(line.split()) for line in translator(RAW["de"])))
    assert lengths[0] < lengths[1]


def test_a_long_line_is_the_translations_of_its_sentences_or_words(translator, capsys):
    sentence = "Der Hund schläft über die grünen Wiese."
    fitting = next(count for count in range(9, 0, -1) if len(translator.cut(" ".join([sentence] * count), 1)) == 1)
    half = " ".join([sentence] * fitting)
    assert translator([f"{half} {half}", half], first=7) == [" ".join(translator([half]) * 2), *translator([half])]
    assert "line 7 has more than the 100 tokens" in capsys.readouterr().err


def test_text_is_prepared_as_the_data_was(home):
    preparation = Preparation.read(home / "data-bin")
    for language in WORDS:
        raw = read_lines(BytesIO("".join(line + "\n" for line in RAW[language]).encode()))
        expected = list(prepared_lines(home / f"out/subword/test/text.{language}"))
        assert list(map(preparation.preparer(language), raw)) == expected


@pytest.mark.parametrize("checkpoints", ["a.pt", "a.pt:b.pt"])
def test_a_checkpoint_is_read_once(home, monkeypatch, checkpoints):
    read, torch_load = [], torch.load

    def noting(path, *args, **options):
        read.append(Path(path).name)
        return torch_load(path, *args, **options)

    monkeypatch.setattr(torch, "load", noting)
    load(arguments(home / "a model", checkpoint=checkpoints))
    assert read == checkpoints.split(":")


def test_in_python_text_is_prepared_as_the_data_was_too(home, translator):
    hub = EATransformerModel.from_pretrained(home / "a model", "a.pt", home / "data-bin")
    assert hub.translate(RAW["de"], beam=3, lenpen=1, max_len_a=1, max_len_b=200) == translator(RAW["de"])
    for language, dictionary, encode in (("de", hub.src_dict, hub.encode), ("en", hub.tgt_dict, hub.encode_target)):
        expected = [dictionary.encode_line(line) for line in prepared_lines(home / f"out/subword/test/text.{language}")]
        assert all(map(torch.equal, map(torch.Tensor.int, map(encode, RAW[language])), expected))


def test_what_is_given_in_python_wins_over_the_preparation(home):
    raw, options = RAW["de"][0], {"tokenizer": "moses", "bpe": None}
    for given in ({"tokenizer": "moses"}, {"bpe": None}, options):
        hub = EATransformerModel.from_pretrained(home / "a model", "a.pt", home / "data-bin", **given)
        assert (hub.bpe is None) == ("bpe" in given)
        assert (hub.tokenize(raw) == raw.lower().replace(".", " .")) == ("tokenizer" not in given)
    with pytest.raises(UserError, match=r"bpe='sentencepiece' needs sentencepiece_model"):
        EATransformerModel.from_pretrained(home / "a model", "a.pt", home / "data-bin", bpe="sentencepiece")


def test_sentencepiece_goes_in_and_out_with_the_model_of_the_source(tmp_path):
    words = Dictionary()
    for language, name in (("de", "one.model"), ("en", "two.model")):
        text = tmp_path / f"train.{language}"
        text.write_text("".join(sentence(language, number) + "\n" for number in range(40)), encoding="utf-8")
        learn_sentencepiece([text], 32, tmp_path / name)
        segment = make_segmenter("sentencepiece", tmp_path / name)
        for piece in " ".join(map(segment, prepared_lines(text))).split():
            words.add_symbol(piece)
    for language in WORDS:
        words.save(str(tmp_path / f"dict.{language}.txt"))
    description = {"source_lang": "de", "target_lang": "en", "tokenizer": "none", "lowercase": False}
    description |= {"subword": "sentencepiece", "models": ["one.model", "two.model"]}
    (tmp_path / "preparation.json").write_text(json.dumps(description))
    for source, target, model in (("de", "en", "one.model"), ("en", "de", "two.model")):
        save_loud(tmp_path, tmp_path / "model.pt", *POSITIONS, languages=(source, target))
        translator = load(arguments(tmp_path))
        line = sentence(source, 3)
        segmented = make_segmenter("sentencepiece", tmp_path / model)(line)
        assert translator.hub.decode(translator.hub.binarize(segmented)) == line
        assert "\u2581" not in translator([line])[0]
        hub = EATransformerModel.from_pretrained(tmp_path)
        assert hub.string(hub.encode(line)) == segmented


def test_ctrl_c_waits_until_a_window_is_written():
    written = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        written.append("whole")
    assert written == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("what", "changes", "parts"),
    [
        ("no folder", {}, ["no folder", "a copy"]),
        ("no checkpoint", {}, ["no checkpoint", "checkpoint_best.pt"]),
        ("a card alone", {}, ["a copy is the card of a model whose weights are not published: train it by the recipe"]),
        ("whole", {"checkpoint": "checkpoint_best.pt:c.pt"}, ["no checkpoint", "c.pt"]),
        ("no target dictionary", {}, ["no dictionary", "a copy/dict.en.txt"]),
        ("no dictionaries", {}, ["a copy has no dictionaries", "/nowhere", "--data"]),
        ("no codes", {}, ["no subword model", "a copy/bpe.codes"]),
        ("no preparation", {}, ["no", "a copy/preparation.json"]),
        ("half a preparation", {}, ["preparation.json", "'tokenizer'"]),
        ("whole", {"data": Path("/none")}, ["/none"]),
    ],
)
def test_what_a_folder_lacks_is_named_in_one_sentence(home, tmp_path, what, changes, parts):
    folder = tmp_path / "a copy"
    if what != "no folder":
        shutil.copytree(home / "a model", folder)
        for name in ("dict.de.txt", "dict.en.txt", "bpe.codes", "preparation.json"):
            shutil.copy(home / "data-bin" / name, folder)
    match what:
        case "no checkpoint":
            (folder / "checkpoint_best.pt").unlink()
        case "a card alone":
            (folder / "checkpoint_best.pt").unlink()
            for name in ("README.md", "SHA256SUMS"):
                shutil.copy(ROOT / "checkpoints/multi30k-deen-ea_transformer_lite" / name, folder)
        case "no target dictionary":
            (folder / "dict.en.txt").unlink()
        case "no dictionaries":
            for dictionary in folder.glob("dict.*"):
                dictionary.unlink()
            state = torch.load(folder / "checkpoint_best.pt")
            state["cfg"]["task"]["data"] = "/nowhere"
            torch.save(state, folder / "checkpoint_best.pt")
        case "no codes":
            (folder / "bpe.codes").unlink()
        case "no preparation":
            (folder / "preparation.json").unlink()
        case "half a preparation":
            (folder / "preparation.json").write_text(json.dumps({"source_lang": "de", "target_lang": "en"}))
    with pytest.raises(UserError) as refusal:
        load(arguments(folder, **changes))
    assert all(part in str(refusal.value) for part in parts), refusal.value
    assert str(refusal.value).endswith(".") and "\n" not in str(refusal.value)


def test_a_folder_that_has_all_needs_no_data_folder(home, tmp_path, translator):
    for path in [home / "a model/checkpoint_best.pt", *(home / "data-bin").glob("[dbp]*.*")]:
        shutil.copy(path, tmp_path)
    (tmp_path / "checkpoint_best.pt").rename(tmp_path / "model.pt")
    assert load(arguments(tmp_path))(RAW["de"]) == translator(RAW["de"])


def test_data_are_found_from_where_a_model_was_moved_with_them(home, tmp_path, translator, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(home / "data-bin", tmp_path / "data/data-bin")
    (tmp_path / "runs/seed-1/evaluation").mkdir(parents=True)
    state = torch.load(home / "a model/checkpoint_best.pt")
    state["cfg"]["task"]["data"] = "/old/project/data/data-bin"
    state["cfg"]["checkpoint"]["save_dir"] = "/old/project/runs/seed-1"
    for name in ("checkpoint_best.pt", "evaluation/model.pt"):
        checkpoint = tmp_path / "runs/seed-1" / name
        torch.save(state, checkpoint)
        assert load(arguments(checkpoint.parent))(RAW["de"]) == translator(RAW["de"])


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--beam", "0"], "--beam: needs a whole number of at least 1, not '0'"),
        (["--lenpen", "much"], "--lenpen: needs a number of at least 0, not 'much'"),
        (["--lenpen", "inf"], "--lenpen: needs a number of at least 0, not 'inf'"),
        (["--max-tokens", "2.5"], "--max-tokens: needs a whole number"),
        (["--colour"], "--colour"),
    ],
)
def test_bad_options_are_named_in_one_sentence(home, flags, part):
    status, output, errors = translate(home, b"Hund\n", *flags)
    assert status != 0 and output == [] and len(errors) == 1
    assert part in errors[0]
