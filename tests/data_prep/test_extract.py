"""ea_fairseq/data/extract.py: from archives to text, whatever is in them; lines are read as grep and sed read them."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ea_fairseq.data.extract import FORMATS, FormatError, extract, extract_verified
from ea_fairseq.data.text_folder import TextFolder
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import MAX_LINE, read_lines, tidy
from small_archives import TEST_SETS, pack, sentence, talks_for_testing, training_sentence, write_archives

TRAIN, TEST = 90, 12
PAIR = {"de": ["x.de"], "en": ["x.en"]}
TWO_PAIRS = {"de": ["x.de", "y.de"], "en": ["x.en", "y.en"]}


PIPELINES = {
    "tags": "grep -v '<url>' | grep -v '<talkid>' | grep -v '<keywords>' | sed -e 's/<title>//g' "
    r"-e 's/<\/title>//g' -e 's/<description>//g' -e 's/<\/description>//g'",
    "segments": r"""grep '<seg id' | sed -e 's/<seg id="[0-9]*">\s*//g' """
    r"""| sed -e 's/\s*<\/seg>\s*//g' | sed -e "s/\QUOTE/\'/g" """.replace("QUOTE", "\u2019"),
}
TAGS = "<url> <talkid> <keywords> <title> </title> <description> </description> <speaker> <tit le> </doc> <b>"
PIECES = [*TAGS.split(), "a", "ß", "&amp;", " ", "\t", "\r", "\u2028", "\xa0", "\u2019", "\\", "'", "\ufeff"]
ANYTHING = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"))
texts = st.lists(st.sampled_from(PIECES) | ANYTHING, max_size=7).map("".join)
SEGMENT_PIECES = ['<seg id="1">', "</seg>", "<seg>", "<seg id='2'>", "a", " "]
broken = st.lists(st.sampled_from(SEGMENT_PIECES), max_size=4).map("".join)
segments = st.tuples(st.integers(0, 999), st.text(" \t\r", max_size=2), texts).map(
    lambda parts: f'{parts[1]}<seg id="{parts[0]}">{parts[1]}{parts[2]}{parts[1]}</seg>{parts[1]}'
)


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> Path:
    return write_archives(tmp_path_factory.mktemp("small") / "the archives", TRAIN, TEST)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "an output"


def lines_of(output: Path, language: str) -> list[str]:
    (path,) = output.glob(f"text.{language}*")
    return list(read_lines(path))


def extracted(archive: Path, output: Path, names=PAIR, form: str = "lines") -> dict[str, list[str]]:
    extract([archive], names, form, False, output)
    return {language: lines_of(output, language) for language in names}


def packed(folder: Path, de: bytes, en: bytes, name: str = "a.tgz") -> Path:
    return pack(folder / name, {"x.de": de, "x.en": en})


def archive_folder(folder: Path, archive: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / archive.name).symlink_to(archive)
    checksum = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    source = {"archive": folder.name, "file": archive.name, "address": f"https://example.org/{archive.name}"}
    source |= {"size": archive.stat().st_size, "checksum": checksum, "accepted": False}
    (folder / "source.json").write_text(json.dumps(source))
    return folder


def parallel(prefix: str) -> dict[str, list[str]]:
    return {language: [f"{prefix}.{language}"] for language in ("en", "fr")}


@given(order=st.permutations(range(2 * len(TEST_SETS))))
@settings(max_examples=15)
def test_members_are_joined_as_asked_for_in_whatever_order_they_come(tmp_path_factory, order: list[int]):
    folder = tmp_path_factory.mktemp("orders")
    names = {language: [f"{name}.{language}.xml" for name in TEST_SETS] for language in ("de", "en")}
    members = [
        (f"{name}.{language}.xml", talks_for_testing(language, name, 3)) for name in TEST_SETS for language in names
    ]
    archive = pack(folder / "a.tar", dict(members[place] for place in order))
    extract([archive], names, "segments", True, folder / "out")
    for language in names:
        expected = [sentence(language, f"{name} {number}") for name in TEST_SETS for number in range(3)]
        assert lines_of(folder / "out", language) == [tidy(line).replace("\u2019", "'") for line in expected]
    assert {path.name for path in (folder / "out").iterdir()} == {"text.de.gz", "text.en.gz"}


def test_compressed_text_is_the_same_bytes_everywhere(archives: Path, tmp_path: Path):
    names = parallel("europarl-v7.fr-en")
    archive = archives / "training-parallel-europarl-v7.tgz"
    outputs = [tmp_path / name for name in ("plain", "a", "another b")]
    for output in outputs:
        extract([archive], names, "lines", output.name != "plain", output)
    plain, first, second = outputs
    for language in names:
        data = (first / f"text.{language}.gz").read_bytes()
        assert data == (second / f"text.{language}.gz").read_bytes()
        assert gzip.decompress(data) == (plain / f"text.{language}").read_bytes()
        assert data[3:8] == bytes(5)  # no file name and no time


@pytest.mark.parametrize(
    ("de", "en", "message"),
    [
        (b"ein\nzw\xfc\n", b"a\nb\n", "line 2 of x.de in .*a.tgz is not UTF-8"),
        (b"a\nb\n\xed\xa0\x80\n", b"a\nb\nc\n", "line 3 of x.de in .*a.tgz is not UTF-8"),
        ("eins\n".encode("utf-16"), b"a\n", "line 1 of x.de in .*a.tgz is not UTF-8"),
        (b"a\nb\n", b"a\n", "x.de in .*a.tgz has 2 sentences and x.en in .*a.tgz has 1"),
        (b"", b"", "x.de in .*a.tgz has no sentence"),
        (b"a\n", b"", "x.de in .*a.tgz has 1 sentences and x.en in .*a.tgz has 0"),
        (
            b"a\n" + b"b" * (MAX_LINE + 1),
            b"a\nb\n",
            f"line 2 of x.de in .*a.tgz has more than {MAX_LINE} bytes",
        ),
    ],
)
def test_text_that_will_not_do_is_refused(tmp_path: Path, output: Path, de: bytes, en: bytes, message: str):
    with pytest.raises(UserError, match=message):
        extract([packed(tmp_path, de, en)], PAIR, "lines", False, output)


@pytest.mark.parametrize(
    ("line", "part"),
    [('<seg id="2"> goes on', "is not one whole segment"), ('<seg id="2">\0</seg>', "has an empty segment")],
)
def test_lines_that_will_not_do_are_named(tmp_path: Path, output: Path, line: str, part: str):
    archive = packed(tmp_path, f'<doc>\n<seg id="1">gut</seg>\n{line}\n'.encode(), b"")
    with pytest.raises(UserError, match=f"line 3 of x.de in .*a.tgz {part}"):
        extract([archive], PAIR, "segments", False, output)


def test_counts_are_compared_member_by_member(tmp_path: Path, output: Path):
    members = {"x.de": b"a\nb\n", "x.en": b"a\n", "y.de": b"a\n", "y.en": b"a\nb\n"}
    with pytest.raises(UserError, match=r"x.de in .* has 2 sentences and x.en in .* has 1"):
        extract([pack(tmp_path / "a.tar", members)], TWO_PAIRS, "lines", False, output)


@given(pairs=st.lists(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\n"))] * 2), min_size=2))
@settings(max_examples=50)
def test_every_pair_of_lines_becomes_a_pair_in_order(tmp_path_factory, pairs: list[tuple[str, str]]):
    folder = tmp_path_factory.mktemp("pairs")
    first, second = pairs[:1], pairs[1:]
    parts = {"y": second, "x": first}
    members = {
        f"{name}.{language}": ("\ufeff" + "".join(f"{pair[side]}\n" for pair in part)).encode()
        for name, part in parts.items()
        for side, language in enumerate(PAIR)
    }
    report = extract([pack(folder / "a.tar", members)], TWO_PAIRS, "lines", False, folder / "out")
    for side, language in enumerate(PAIR):
        text = (folder / f"out/text.{language}").read_bytes().decode()
        assert text == "".join(f"{tidy(pair[side])}\n" for pair in pairs)
        assert len(text.splitlines()) == len(pairs)
    dropped = report["dropped"]["markup"]
    assert report["read"] == {language: dropped[language] + report["kept"] for language in PAIR}
    assert report["kept"] == len(pairs)


def test_step_verifies_then_extracts(archives: Path, tmp_path: Path):
    folder = archive_folder(tmp_path / "the archives/europarl", archives / "training-parallel-europarl-v7.tgz")
    names = {language: [f"europarl-v7.de-en.{language}"] for language in ("de", "en")}
    options = {"archives": [folder], "names": names, "form": "lines", "compress": True}
    extract_verified(tmp_path / "an output", **options)
    assert lines_of(tmp_path / "an output", "de")[3] == tidy(training_sentence("de", "europarl de", 3))
    history = TextFolder(tmp_path / "an output", PAIR).history
    assert history.sources == [json.loads((folder / "source.json").read_text())]
    assert history.kept == TRAIN

    archive = folder / "training-parallel-europarl-v7.tgz"
    data = archive.read_bytes()
    archive.unlink()
    for wrong, part in (
        (data[:-1], f"expected {len(data)} bytes, found {len(data) - 1}"),
        (b"a" + data[1:], "found sha256:"),
    ):
        archive.write_bytes(wrong)
        with pytest.raises(UserError, match=part):
            extract_verified(tmp_path / "another output", **options)
        assert not (tmp_path / "another output").exists()


def through_pipeline(form: str, lines: list[str]) -> list[str]:
    """What standard tools make of the lines; skips the test where they are absent."""
    if not all(map(shutil.which, ("bash", "grep", "sed"))):
        pytest.skip("needs bash, grep and sed, to compare with")
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    text = "".join(f"{line}\n" for line in lines).encode()
    made = subprocess.run(["bash", "-c", PIPELINES[form]], input=text, env=environment, stdout=subprocess.PIPE)
    return [tidy(line) for line in made.stdout.decode().split("\n")[:-1]]


def through_format(form: str, lines: list[str]) -> list[str]:
    sentences = map(FORMATS[form], (f"{line}\n" for line in lines))
    return [tidy(sentence) for sentence in sentences if sentence is not None]


@given(st.lists(texts, min_size=30, max_size=60))
@example(["<tit<description>le>a", "<description</title>>b"])
@settings(max_examples=20)
def test_tags_are_read_as_the_usual_pipeline_reads_them(lines: list[str]):
    assert through_format("tags", lines) == through_pipeline("tags", lines)


@given(st.lists(segments | texts | broken, min_size=30, max_size=60))
@settings(max_examples=20)
def test_segments_are_read_as_the_usual_pipeline_reads_them_or_refused(lines: list[str]):
    readable = []
    for line in lines:
        try:
            FORMATS["segments"](line)
            readable.append(line)
        except FormatError:
            assert "seg" in line
    assert through_format("segments", readable) == through_pipeline("segments", readable)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('<seg id="1"> goes on', "not one whole segment"),
        ("from before </seg>", "not one whole segment"),
        ('<seg id="1">a</seg> <seg id="2">b</seg>', "not one whole segment"),
        ('<seg id="1">a <seg id="2">b</seg></seg>', "not one whole segment"),
        ('<hl><seg id="1">a</seg></hl>', "not one whole segment"),
        ('<seg id="1">a</seg> b', "not one whole segment"),
        ("<seg>a</seg>", "not one whole segment"),
        ('<seg id="1"> \u2028\0 </seg>', "empty segment"),
    ],
)
def test_segments_that_would_lose_text_are_refused(line: str, part: str):
    with pytest.raises(FormatError, match=part):
        FORMATS["segments"](f"{line}\r\n")


def test_markup_within_a_segment_stays():
    line = '\t<seg id="1"> a <i>b</i> &amp; c\u2019s < d </seg>\r\n'
    assert through_format("segments", [line]) == ["a <i>b</i> &amp; c's < d"]
