"""Subword models are learnt of no more text than memory is for."""

from pathlib import Path

import pytest

from corpora import sentence
from ea_fairseq.data import subword_models
from ea_fairseq.data.subword_models import learn_bpe, learn_sentencepiece
from ea_fairseq.errors import UserError


def write(path: Path, numbers: range) -> Path:
    path.write_text("".join(f"{sentence('de', number)} {number % 7}\n" for number in numbers), encoding="utf-8")
    return path


def test_of_much_text_sentencepiece_sees_evenly_spaced_sentences(tmp_path: Path, monkeypatch):
    files = [write(tmp_path / "text.de", range(300)), write(tmp_path / "text.en", range(300, 600))]
    third = write(tmp_path / "third", range(0, 600, 3))
    models = [tmp_path / name for name in ("all.model", "some.model", "third.model")]
    learn_sentencepiece(files, 40, models[0])
    learn_sentencepiece([third], 40, models[2])
    monkeypatch.setattr(subword_models, "MAX_BYTES", sum(path.stat().st_size for path in files) // 3 + 1)
    learn_sentencepiece(files, 40, models[1])
    assert models[1].read_bytes() == models[2].read_bytes() != models[0].read_bytes()


@pytest.mark.parametrize("text", ["", "a b\nc\n"])
def test_bpe_needs_a_word_of_two_letters(tmp_path: Path, text):
    (tmp_path / "text.de").write_text(text)
    with pytest.raises(UserError, match="too little text"):
        learn_bpe([tmp_path / "text.de"], 5, tmp_path / "codes")
    assert not (tmp_path / "codes").exists()
