"""ea_fairseq/data/extract.py: the sentences in lines, as grep and sed find them."""

import os
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ea_fairseq.data.extract import FORMATS, FormatError
from ea_fairseq.plain.text_lines import tidy

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
