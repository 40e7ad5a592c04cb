"""Tokenizing by sacremoses and by Moses' own scripts: they must agree, and misuse ends in one sentence.

Where perl and Moses are not at hand, small shell scripts play them.
"""

import functools
import random
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ea_fairseq.data.tokenization import PINNED, SCRIPTS, Tokenization, moses_version
from ea_fairseq.errors import UserError
from ea_fairseq.plain.text_lines import tidy
from ea_fairseq.text import moses_port
from ea_fairseq.text.moses_port import Tokenizer, make_normalizer
from needs import MOSES, needs_moses

NASTY = """
Der etc. u.k. A. Nr. No. 5 10.000 3,5 bar. Foo. foo ... .. . , ' '' " \u201e \u201c \u201d \u2018 \u2019 \u201a \xb4 `
\xab \xbb \u2013 \u2014 - -- foo-bar a-b-c ( ) [ ] { } < > <b> & &amp; | @-@ % n\xba \xbaC cm ? ! : ; \u2026 / \\ ``
\u6f22\u5b57 \ud55c\uad6d\uc5b4 \u30ab\u30bf \u0639\u0631 \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22
\u0391\u03a3 \u0130 \xdf \u1e9e \xe9 e\u0301 \xad \u200b \ufeff \U0001f600 \xbd \xb2 \u0663 \u216b \u3007 l'eau
it's 1990's dogs' 'tis "foo," "foo." ." ," ". ", http://x.y/z?a=b a@b.c #tag $5 \u20ac5 1,x x,1 ,5 5, \ufb01 \xaa
\xb7 _ * \ue000
"""
FRAGMENTS = [*NASTY.split(), *["", " ", "  ", "\xa0", "\u202f", "\u2003"] * 10]
lines = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join).map(tidy)
CHUNK = ["one two", "", "thr\u00e9\u00e9  four"]
few_fragments = st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(FRAGMENTS)).map("Aa {0[0]}{0[1]}b c.".format)
chunks = st.lists(lines, max_size=8)
settings_of_all_kinds = st.builds(
    Tokenization,
    tokenizer=st.sampled_from(["moses", "moses", "none"]),
    normalize=st.booleans(),
    dash_splits=st.booleans(),
    lowercase=st.booleans(),
)
languages = st.sampled_from(["de", "en", "fr", "it", "cs"])


@functools.cache
def tokenizer(tokenization: Tokenization, language: str):
    return tokenization.tokenizer_for(language)


def tokens(line: str, language: str = "en", **options: object) -> str:
    return tokenizer(Tokenization(**options), language)([tidy(line)])[0]


@settings(max_examples=300)
@given(languages, st.one_of(lines, few_fragments, st.text(max_size=30)))
def test_what_is_skipped_would_change_nothing(language, line):
    with pytest.MonkeyPatch.context() as patch:
        quick = [make_normalizer(language)(line), Tokenizer(language).tokenize(line, return_str=True)]
        patch.setattr(moses_port, "CHANGED", re.compile(b""))
        patch.setattr(moses_port, "ENDING_PERIOD", re.compile(""))
        assert quick == [make_normalizer(language)(line), Tokenizer(language).tokenize(line, return_str=True)]


@given(settings_of_all_kinds, languages, chunks, st.integers(0, 8))
def test_as_many_lines_single_spaces_and_chunks_of_any_size(tokenization, language, chunk, cut):
    tokenize = tokenizer(tokenization, language)
    tokenized = tokenize(chunk)
    assert len(tokenized) == len(chunk)
    assert all(line == " ".join(line.split()) and len(line.splitlines()) <= 1 for line in tokenized)
    assert tokenize(chunk[:cut]) + tokenize(chunk[cut:]) == tokenized


@given(settings_of_all_kinds, languages, lines)
def test_lower_case_is_what_comes_last(tokenization, language, line):
    cased = Tokenization(tokenization.tokenizer, tokenization.normalize, tokenization.dash_splits)
    lowered = Tokenization(cased.tokenizer, cased.normalize, cased.dash_splits, lowercase=True)
    expected = " ".join("".join(map(str.lower, tokenizer(cased, language)([line])[0])).split())
    assert tokenizer(lowered, language)([line]) == [expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("He's in the U.K., Mr. Foo.", "He &apos;s in the U.K. , Mr. Foo ."),
        ("Made in the U.K.", "Made in the U.K ."),
        ("No. 5 of A. Smith etc. and No. Nine", "No. 5 of A. Smith etc. and No . Nine"),
        ("10,000 or 3.5 ... a,b", "10,000 or 3.5 ... a , b"),
        (
            "<b>[x] | \"y\" & 'z'</b>",
            "&lt; b &gt; &#91; x &#93; &#124; &quot; y &quot; &amp; &apos; z &apos; &lt; / b &gt;",
        ),
        ("Version 1.2. Then x.", "Version 1.2 . Then x ."),
        ("\u6f22\u5b57\u3002", "\u6f22\u5b57 \u3002"),
        ("\u6f22's '\u5b57", "\u6f22 &apos;s &apos; \u5b57"),
        ("Foo. \u10d3\u10d0 Foo. Bar", "Foo. \u10d3\u10d0 Foo . Bar"),
        ("", ""),
    ],
)
def test_tokens_without_normalizing(line: str, expected: str):
    assert tokens(line, normalize=False) == expected


def test_other_languages_have_other_apostrophes_and_abbreviations():
    assert tokens("l'eau c'\u6f22", "fr", normalize=False) == "l&apos; eau c&apos; \u6f22"
    assert tokens("geht's z.B. Nr. 5 usw. Haus", "de", normalize=False) == "geht &apos; s z.B. Nr. 5 usw. Haus"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\u201eJa\u201c \u2013 \u2019x\u2019 \u2026", "&quot; Ja &quot; - &quot; x &quot; ..."),
        ("don\u2019t", "don &apos; t"),
        ("er sagte: \u201eJa.\u201c", "er sagte : &quot; Ja &quot; ."),
        ("5\xa0000 \xab Ja \xbb", "5,000 &quot; Ja &quot;"),
        ("so\xadfort \u200bda\ufeff\ue000", "so fort da"),
    ],
)
def test_normalizing_comes_first(line: str, expected: str):
    assert tokens(line, "de") == expected
    assert tokens(line, "de", normalize=False) != expected


def test_normalizing_knows_the_language():
    quoted = 'x "a." y "b," 5\xa0000'
    assert tokens(quoted, "en") == "x &quot; a . &quot; y &quot; b , &quot; 5.000"
    assert tokens(quoted, "fr") == "x &quot; a &quot; . y &quot; b &quot; , 5,000"
    assert tokens(quoted, "it") == "x &quot; a &quot; . y &quot; b &quot; , 5.000"
    assert tokens(quoted, "cs") == "x &quot; a . &quot; y &quot; b , &quot; 5,000"


def test_dash_splits():
    assert tokens("a well-known e-mail -x", dash_splits=True) == "a well @-@ known e @-@ mail -x"
    assert tokens("a well-known e-mail -x") == "a well-known e-mail -x"


def test_tokenized_text_needs_little():
    assert tokens("  Der\xa0 \xc4rger,\u2003\xadx", tokenizer="none", lowercase=True) == "der \xe4rger, \xadx"
    assert tokens("  Der\xa0 \xc4rger,\u2003\xadx", tokenizer="none") == "Der \xc4rger, \xadx"


def test_last_sigma_is_like_any_other():
    assert tokens("\u039f\u0394\u039f\u03a3", "el", lowercase=True) == "\u03bf\u03b4\u03bf\u03c3"


@needs_moses
def test_moses_to_compare_with_is_the_pinned_one(capsys):
    assert moses_version(Path(MOSES))["sha256"] == PINNED
    assert not capsys.readouterr().err


@needs_moses
@pytest.mark.parametrize("language", ["de", "en", "fr", "it", "cs", "ru", "zh"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("more", [{}, {"dash_splits": True, "lowercase": True}])
def test_moses_and_sacremoses_make_the_same_tokens(monkeypatch, language: str, normalize: bool, more: dict[str, bool]):
    for variable, value in {"LC_ALL": "C", "PERL_UNICODE": "SDA", "PERL5OPT": "-CSDA"}.items():
        monkeypatch.setenv(variable, value)
    draw = random.Random(language)
    chunk = [tidy("".join(draw.choices(FRAGMENTS, k=draw.randrange(25)))) for _ in range(1000)]
    by_scripts = Tokenization(normalize=normalize, moses=Path(MOSES), **more).tokenizer_for(language)
    by_sacremoses = Tokenization(normalize=normalize, **more).tokenizer_for(language)
    assert by_scripts(chunk) == by_sacremoses(chunk)


@pytest.fixture
def moses(tmp_path: Path, monkeypatch) -> Path:
    """A folder of scripts that repeat their input, and a `perl` that is a shell."""
    folder = tmp_path / "a moses"
    (folder / "scripts/tokenizer").mkdir(parents=True)
    for script in SCRIPTS:
        write_script(folder, script, "exec cat")
    prefixes = folder / "scripts/share/nonbreaking_prefixes"
    prefixes.mkdir(parents=True)
    (prefixes / "nonbreaking_prefix.en").write_text("Mr\n")
    perl = tmp_path / "bin/perl"
    perl.parent.mkdir()
    perl.write_text('#!/bin/sh\nexec /bin/sh "$@"\n')
    perl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{perl.parent}:/usr/bin:/bin")
    return folder


def write_script(moses: Path, script: str, text: str) -> None:
    (moses / "scripts/tokenizer" / script).write_text(text + "\n")


def tokenized(moses: Path, chunk: list[str] = CHUNK, **settings: bool) -> list[str]:
    return Tokenization(moses=moses, **settings).tokenizer_for("de")(chunk)


def test_lines_go_through_and_come_back(moses: Path):
    assert tokenized(moses) == ["one two", "", "thr\u00e9\u00e9 four"]
    assert tokenized(moses, []) == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"normalize": False}, "x : tokenizer -q -l de -threads 1"),
        (
            {"dash_splits": True, "lowercase": True},
            "x : normalize-punctuation -l de : remove-non-printing-char : tokenizer -q -l de -a -threads 1 : lowercase",
        ),
    ],
)
def test_scripts_are_called_in_order_with_their_flags(moses: Path, settings: dict[str, bool], expected: str):
    for script in SCRIPTS:
        name = script.removesuffix(".perl")
        write_script(moses, script, f'while IFS= read -r line; do echo "$line : {name} $*"; done')
    assert tokenized(moses, ["x"], **settings) == [expected]


def test_no_variable_of_the_environment_reaches_the_scripts(moses: Path, monkeypatch):
    for variable in ("PERL_UNICODE", "PERL5OPT", "LANG", "LC_CTYPE"):
        monkeypatch.setenv(variable, "de_DE")
    monkeypatch.setenv("LC_ALL", "tr_TR")
    write_script(moses, "tokenizer.perl", 'read x; echo "$LC_ALL$LANG$LC_CTYPE$PERL_UNICODE$PERL5OPT"')
    assert tokenized(moses, ["x"], normalize=False) == ["C"]


@pytest.mark.parametrize(
    ("script", "text", "sentence"),
    [
        ("tokenizer.perl", "head -n 2", "tokenizer.perl made 2 lines of 3"),
        ("tokenizer.perl", "cat; echo", "tokenizer.perl made 4 lines of 3"),
        ("tokenizer.perl", "cat > /dev/null", "tokenizer.perl made 0 lines of 3"),
        ("tokenizer.perl", r"cat; printf '\377'", "tokenizer.perl made text that is not UTF-8"),
        ("normalize-punctuation.perl", "echo some; echo no such thing >&2; exit 3", "failed .no such thing.: "),
        ("lowercase.perl", "kill -9 $$", r"lowercase.perl failed .status -9.: "),
    ],
)
def test_scripts_that_lose_lines_or_fail_are_named(moses: Path, script: str, text: str, sentence: str):
    write_script(moses, script, text)
    with pytest.raises(UserError, match=sentence) as error:
        tokenized(moses, lowercase=True)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_missing_script_and_missing_perl_are_named(moses: Path, monkeypatch):
    (moses / "scripts/tokenizer/lowercase.perl").unlink()
    assert tokenized(moses)
    with pytest.raises(UserError, match=r"there is no .*lowercase\.perl: give --moses a checkout"):
        tokenized(moses, lowercase=True)
    with pytest.raises(UserError, match=r"there is no .*lowercase\.perl"):
        moses_version(moses)
    monkeypatch.setenv("PATH", str(moses))
    for use in (tokenized, moses_version):
        with pytest.raises(UserError, match="needs perl, which is not installed"):
            use(moses)


def test_version_is_a_matter_of_content(moses: Path, capsys):
    version = moses_version(moses)
    assert version["commit"] is None and version["sha256"] != PINNED
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1 and warning.endswith(".\n") and str(moses) in warning

    copy = moses.with_name("another")
    moses.rename(copy)
    for path in copy.rglob("*.perl"):
        path.touch()
    (copy / "README").write_text("new")
    assert moses_version(copy) == version
    for changed in ("scripts/tokenizer/tokenizer.perl", "scripts/share/nonbreaking_prefixes/nonbreaking_prefix.en"):
        before = (copy / changed).read_text()
        (copy / changed).write_text(before + "# more\n")
        assert moses_version(copy)["sha256"] != version["sha256"]
        (copy / changed).write_text(before)
    (copy / "scripts/share/nonbreaking_prefixes/nonbreaking_prefix.xx").write_text("")
    assert moses_version(copy)["sha256"] != version["sha256"]


def test_version_of_a_checkout_names_its_commit(moses: Path):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q"], cwd=moses, check=True)
    assert moses_version(moses)["commit"] is None
    for command in (["add", "."], [*identity, "commit", "-q", "-m", "scripts"]):
        subprocess.run(["git", *command], cwd=moses, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=moses, capture_output=True, text=True, check=True)
    assert moses_version(moses)["commit"] == head.stdout.strip()
    assert moses_version(moses / "scripts/..")["commit"] == head.stdout.strip()
