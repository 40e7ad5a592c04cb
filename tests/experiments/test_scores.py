"""Scores of translations: those of the reference scripts to the last digit, and sacreBLEU's own."""

import shutil
import subprocess
from pathlib import Path

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.experiments.scoring.scores import DEFINITIONS, all_scores, split_compounds, tokenized_bleu
from needs import MOSES, needs_moses

# Each with what multi-bleu.perl prints of it.
COUNTED = [
    (
        ["a b c d e"],
        ["a b c d e"],
        "BLEU = 100.00, 100.0/100.0/100.0/100.0 (BP=1.000, ratio=1.000, hyp_len=5, ref_len=5)",
    ),
    (
        ["a b c d"],
        ["a b c d e f g h"],
        "BLEU = 36.79, 100.0/100.0/100.0/100.0 (BP=0.368, ratio=0.500, hyp_len=4, ref_len=8)",
    ),
    (
        ["a b c d x", ""],
        ["a b c d y", "z"],
        "BLEU = 54.75, 80.0/75.0/66.7/50.0 (BP=0.819, ratio=0.833, hyp_len=5, ref_len=6)",
    ),
    (["a b c"], ["a b c"], "BLEU = 0.00, 100.0/100.0/100.0/0.0 (BP=1.000, ratio=1.000, hyp_len=3, ref_len=3)"),
    (["a a a a"], ["a b a"], "BLEU = 0.00, 50.0/0.0/0.0/0.0 (BP=1.000, ratio=1.333, hyp_len=4, ref_len=3)"),
    (["x"], [""], "BLEU = 0, 0/0/0/0 (BP=0, ratio=0, hyp_len=0, ref_len=0)"),
    (["A b c d"], ["a b c d"], "BLEU = 0.00, 75.0/66.7/50.0/0.0 (BP=1.000, ratio=1.000, hyp_len=4, ref_len=4)"),
    # Only ASCII's spaces part tokens.
    (
        ["a\u2003b\tc\x0bd\x1ce f g"],
        ["a\u2003b c d\x1ce f g"],
        "BLEU = 100.00, 100.0/100.0/100.0/100.0 (BP=1.000, ratio=1.000, hyp_len=5, ref_len=5)",
    ),
]
WORDS = st.sampled_from(
    ["a", "b", "c", "A", "-", "a-b", "x--y", "é", "0", "\u2003", "\xa0", "\x85", "\x1c", "@-@", "日本", "'"]
)
LINES = st.lists(st.tuples(WORDS, st.sampled_from([" ", "  ", "\t", "\x0b", "\x0c", "\r", "", "-"])), max_size=12).map(
    lambda parts: "".join(word + space for word, space in parts)
)
PAIRS = st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6)


@pytest.mark.parametrize(("translations", "references", "line"), COUNTED)
def test_tokenized_bleu_is_multi_bleus(translations, references, line):
    score = tokenized_bleu(translations, references)
    assert score.detail == line
    assert score.score == float(line.split()[2].strip(","))
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:")


@pytest.mark.parametrize(("correct", "printed"), [(23, "28.7"), (49, "61.3")])
def test_a_precision_between_two_digits_is_rounded_as_perl_rounds_it(correct, printed):
    """Of 80 words: perl multiplies the quotient by 100, sacreBLEU what it divides, and prints 28.8 and 61.2."""
    same = ["a"] * correct
    line = tokenized_bleu([" ".join(same + ["b"] * (80 - correct))], [" ".join(same + ["c"] * (80 - correct))]).detail
    assert line.split()[3].split("/")[0] == printed


def test_an_empty_translation_scores_nothing():
    assert tokenized_bleu(["", ""], ["a b", "c"]).score == 0


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


@needs_moses
@settings(max_examples=60)
@given(PAIRS)
def test_tokenized_bleu_is_what_multi_bleu_prints(tmp_path_factory, pairs):
    translations, references = (list(side) for side in zip(*pairs, strict=True))
    folder = tmp_path_factory.mktemp("bleu")
    script = Path(MOSES) / "scripts/generic/multi-bleu.perl"
    reference = write(folder / "reference", references)
    with write(folder / "translation", translations).open() as text:
        printed = subprocess.run(["perl", script, reference], stdin=text, capture_output=True, text=True)
    if "division by zero" in printed.stderr:
        assert tokenized_bleu(translations, references).score == 0
    else:
        assert tokenized_bleu(translations, references).detail + "\n" == printed.stdout


@pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")
@settings(max_examples=5)
@given(st.lists(LINES, min_size=100, max_size=300))
def test_compounds_split_as_in_the_reference_script(lines):
    command = ["perl", "-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"]
    text = "".join(line + "\n" for line in lines).encode()
    expected = subprocess.run(command, input=text, capture_output=True, check=True).stdout
    assert "".join(line + "\n" for line in split_compounds(lines)).encode() == expected


def test_compounds_split_at_every_other_hyphen_where_they_overlap():
    assert split_compounds(["a-b-c d - e -f g- é-é", "@-@"]) == [
        "a ##AT##-##AT## b-c d - e -f g- é ##AT##-##AT## é",
        "@ ##AT##-##AT## @",
    ]


def test_scores_of_raw_text_are_those_of_sacrebleu():
    raw = (
        ["The dog runs over a meadow.", "Yes, the cat-like one!"],
        ["The dog ran over the meadow.", "Yes, a catlike one!"],
    )
    tokens = [line.replace(".", " .") for line in raw[0]], [line.replace(".", " .") for line in raw[1]]
    scores = all_scores(tokens, raw, compounds=True)
    assert [*scores, "COMET"] == list(DEFINITIONS)
    assert list(all_scores(tokens, raw)) == [name for name in scores if name != "compound-split BLEU"]
    for name, score in (
        ("BLEU", sacrebleu.corpus_bleu(raw[0], [raw[1]])),
        ("chrF", sacrebleu.corpus_chrf(raw[0], [raw[1]])),
        ("TER", sacrebleu.corpus_ter(raw[0], [raw[1]])),
    ):
        assert scores[name].score == round(score.score, 2)
        assert scores[name].detail == str(score)
        assert f"|version:{sacrebleu.__version__}" in scores[name].signature
    assert scores["compound-split BLEU"] == tokenized_bleu(*map(split_compounds, tokens))
    assert scores["compound-split BLEU"] != scores["tokenized BLEU"] == tokenized_bleu(*tokens)
