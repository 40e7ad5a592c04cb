"""Files of time series are read exactly, and refused in a sentence with the line where they are wrong."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.errors import UserError
from ea_fairseq.series import ts_file
from ea_fairseq.series.ts_file import read_ts
from time_series import CORPORA, needs_corpora, ts_text, write_ts

COUNTS = {  # train and test series, channels, shortest and longest of both, classes
    "JapaneseVowels": (270, 370, 12, 7, 29, 9),
    "Handwriting": (150, 850, 3, 152, 152, 26),
    "UWaveGestureLibrary": (120, 320, 3, 315, 315, 8),
    "SelfRegulationSCP1": (268, 293, 6, 896, 896, 2),
    "Covid3Month": (140, 61, 1, 84, 84, None),
}


@needs_corpora
@pytest.mark.parametrize("name", ["JapaneseVowels", "Covid3Month"])
def test_the_archives_series_are_as_many_as_they_publish(name):
    check_counts(name)


@needs_corpora
@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_all_series_here_are_as_many_as_the_archives_publish(name):
    check_counts(name)


def check_counts(name):
    train, test = (read_ts(CORPORA / name / f"{name}_{split}.ts.gz") for split in ("TRAIN", "TEST"))
    both = train.series + test.series
    assert {one.shape[1] for one in both} == {train.channels}
    classes = train.labels and len(train.labels)
    lengths = min(map(len, both)), max(train.longest, test.longest)
    assert (len(train.series), len(test.series), train.channels, *lengths, classes) == COUNTS[name]


values = st.one_of(st.none(), st.floats(-1e6, 1e6, width=32))
cases = st.lists(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(values, values), min_size=n, max_size=n)))


@settings(max_examples=15)
@given(cases.filter(len), st.booleans())
def test_what_is_written_is_read(tmp_path_factory, drawn, packed):
    """Unequal lengths and missing values included."""
    folder = tmp_path_factory.mktemp("series")
    series = [np.array([[np.nan if v is None else v for v in step] for step in one], np.float32) for one in drawn]
    targets = [index % 2 for index in range(len(series))]
    path = write_ts(folder / ("a.ts.gz" if packed else "a.ts"), ts_text(series, targets, ("no", "yes")))
    found = read_ts(path)
    assert (found.targets, found.labels) == (targets, ("no", "yes"))
    for one, expected in zip(found.series, series, strict=True):
        np.testing.assert_array_equal(one, expected)


def test_numbers_are_predicted_and_a_file_may_have_nothing_to_predict(tmp_path):
    path = write_ts(tmp_path / "a.ts", "@targetLabel true\n@data\n1,2:0.5\n3:-1e3\n")
    assert (read_ts(path).targets, read_ts(path).labels) == ([0.5, -1000.0], None)
    text = "%UEA archive\n% in any encoding\n@classLabel false\n# a comment\n@classLabel false\n\n@DATA\n1,?:2,3\n"
    path = write_ts(tmp_path / "b.ts", f"\ufeff{text}")
    assert (read_ts(path).targets, read_ts(path).channels) == (None, 2)


START = "@dimensions 2\n@classLabel true a b\n"
WRONG = {
    "line 3: there must be @data before the first series": START + "1:2:a\n",
    "line 3: '@speed 3' is no entry of a .ts file's header": START + "@speed 3\n",
    "line 1: @dimensions must be a whole number from 1 to 65,536, not 'two'": "@dimensions two\n",
    "line 1: @missing must be true or false, not 'maybe'": "@missing maybe\n",
    "line 1: @classLabel must be false, or true and the names of": "@classLabel true\n",
    "line 2: @timeStamps is true, but series with time stamps": "@timeStamps true\n@data\n",
    "line 4: @univariate is true and @dimensions is 2": START + "@univariate true\n@data\n",
    "line 3: @univariate is false and @dimensions is 1": "@univariate false\n@dimensions 1\n@data\n",
    "line 3: '@dimension 3' contradicts '@dimensions 2'": START + "@dimension 3\n",
    "line 3: '@classLabel false' contradicts '@classLabel true a b'": START + "@classLabel false\n",
    "line 2: '@timeStamps true' contradicts '@timestamps false'": "@timestamps false\n@timeStamps true\n",
    "line 3: @equalLength is false and @seriesLength is 3": "@equalLength false\n@seriesLength 3\n@data\n",
    "line 3: @classLabel and @targetLabel are both true": "@classLabel true a\n@targetLabel true\n@data\n",
    "line 4: it has 1 dimensions, and there must be 2": START + "@data\n1:a\n",
    "line 5: its dimensions have 1 to 2 values": START + "@data\n1:2:a\n1,2:3:b\n",
    "line 5: it has 1 steps, but by the header there must be 2": START + "@seriesLength 2\n@data\n1:2:a\n",
    "line 6: it has 2 steps, but by the header there must be 1": START + "@equalLength true\n@data\n1:2:a\n1,2:3,4:a\n",
    "line 4: 'x' in dimension 2 is no number": START + "@data\n1:x:a\n",
    "line 4: '1_0' in dimension 1 is no number": START + "@data\n1_0:1:a\n",
    "line 4: '' in dimension 1 is no number": START + "@data\n1,:1,2:a\n",
    "line 4: a value in dimension 1 is infinite or too large": START + "@data\n1e39:1:a\n",
    "line 5: a value is missing, and @missing is false": START + "@missing false\n@data\n?:1:a\n",
    "line 4: its class 'c' is not among those of @classLabel": START + "@data\n1:2:c\n",
    r"line 4: its class '\\x1b\[2J' is not among": START + "@data\n1:2:\x1b[2J\n",
    "line 3: 'nan' is no number to predict": "@targetLabel true\n@data\n1:nan\n",
    "a.ts has no series": START + "@data\n",
}


@pytest.mark.parametrize(("sentence", "text"), WRONG.items(), ids=lambda part: part[:30])
def test_a_wrong_file_is_refused_with_its_line(tmp_path, sentence, text):
    path = write_ts(tmp_path / "a.ts", text)
    with pytest.raises(UserError, match=sentence) as refused:
        read_ts(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value) and str(refused.value).isprintable()


def test_damage_and_what_unpacks_to_more_than_series_have_are_refused(tmp_path, monkeypatch):
    text = ts_text([np.ones((4, 2), np.float32)] * 30, [0] * 30, ("a",))
    whole = write_ts(tmp_path / "a.ts.gz", text).read_bytes()
    for name, data in {"cut.ts.gz": whole[:-9], "text.ts.gz": text.encode(), "bytes.ts": b"@data\n\xff\n"}.items():
        (tmp_path / name).write_bytes(data)
    for name in ("cut.ts.gz", "text.ts.gz"):
        with pytest.raises(UserError, match=r"gz is not whole: its end is missing or damaged after line \d+"):
            read_ts(tmp_path / name)
    with pytest.raises(UserError, match="line 2: it is no UTF-8 text"):
        read_ts(tmp_path / "bytes.ts")
    for limit, sentence in {
        "MAX_VALUES": "line 9: there are more than 30 values so far",
        "MAX_BYTES": "line 3: there are more than 30 bytes so far",
        "MAX_LINE": "line 6: it has more than 30 bytes",
    }.items():
        with monkeypatch.context() as patch, pytest.raises(UserError, match=sentence):
            patch.setattr(ts_file, limit, 30)
            read_ts(tmp_path / "a.ts.gz")


def test_a_bomb_without_lines_takes_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(ts_file, "MAX_LINE", 1 << 16)
    path = tmp_path / "bomb.ts.gz"
    path.write_bytes(gzip.compress(b"0" * (1 << 20)))
    with pytest.raises(UserError, match="line 1: it has more than 65,536 bytes, more than a series has"):
        read_ts(path)
