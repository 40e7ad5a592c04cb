"""Lines that scripts/translate.py reads: what ends one, and where a long one is cut."""

from io import BytesIO
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import NO_LINE_FEED
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.translate import Translator, read_lines


@given(st.lists(st.text(NO_LINE_FEED), min_size=1))
def test_only_a_line_feed_ends_a_line(lines):
    for end in ("", "\n"):
        if lines[-1] or end:
            text = "\n".join(lines) + end
            assert len(list(read_lines(BytesIO(text.encode())))) == len(lines)


@given(st.text("ab .!?\u3002", max_size=60), st.integers(2, 12))
def test_parts_hold_all_of_a_line_and_none_is_too_long(text, limit):
    hub = SimpleNamespace(max_positions=(limit, 9), encode=lambda text, tag: [*text.replace(" ", ""), "</s>"])
    parts = Translator(hub, {}).cut(text.strip(), 1)
    assert all(len(part) <= limit for part in parts)
    assert "".join(token for part in parts for token in part[:-1]) == text.replace(" ", "")


def test_lines_are_cut_at_the_ends_of_sentences_then_of_words():
    hub = SimpleNamespace(max_positions=(12, 9), encode=lambda text, tag: [*text, "</s>"])
    translator = Translator(hub, {})

    def parts(text):
        return ["".join(part[:-1]) for part in translator.cut(text, 1)]

    assert parts("Ja. Aber ja. Nein.") == ["Ja.", "Aber ja.", "Nein."]
    assert parts("eins zwei drei vier") == ["eins zwei", "drei vier"]
    assert parts("x" * 20) == ["x" * 10, "x" * 10]
    hub.max_positions = (1, 9)
    with pytest.raises(UserError, match="line 1 has a character of more than the 1 tokens"):
        Translator(hub, {}).cut("x", 1)
