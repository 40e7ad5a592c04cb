"""The steps by which fairseq prepares IWSLT'14 German-English, with Moses' own scripts: what ours must equal."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

LANGUAGES = ("de", "en")
DROPPED = re.compile("<url>|<talkid>|<keywords>")
REMOVED = re.compile("</?title>|</?description>")
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
EVERY = 23  # one line in so many of the cleaned text is for validation
Split = dict[str, list[str]]  # lines by language


def fairseq_iwslt14(orig: Path, moses: Path, out: Path, merges: int = 10_000) -> None:
    """Writes train|valid|test.{de,en} and `code` in `out`, from the unpacked archive in `orig`.

    The text before BPE is written there, too, in `out/tmp`.
    """
    texts = out / "tmp"
    texts.mkdir(parents=True)
    cleaned = clean({language: tagged(orig, language, moses) for language in LANGUAGES}, moses, texts)
    splits = {
        "train": {
            language: [line for n, line in enumerate(lines, 1) if n % EVERY] for language, lines in cleaned.items()
        },
        "valid": {language: lines[EVERY - 1 :: EVERY] for language, lines in cleaned.items()},
        "test": {language: segments(orig, language, moses) for language in LANGUAGES},
    }
    for split, sides in splits.items():
        for language, lines in sides.items():
            write(texts / f"{split}.{language}", lines)
    with (out / "code").open("w", encoding="utf-8", newline="\n") as code:
        learn_bpe(splits["train"]["de"] + splits["train"]["en"], code, merges)
    with (out / "code").open(encoding="utf-8", newline="\n") as code:
        bpe = BPE(code)
    for split, sides in splits.items():
        for language, lines in sides.items():
            write(out / f"{split}.{language}", map(bpe.process_line, lines))


def tagged(orig: Path, language: str, moses: Path) -> list[str]:
    """The tokenized sentences of train.tags."""
    lines = read(orig / f"train.tags.de-en.{language}")
    return tokenize([REMOVED.sub("", line) for line in lines if not DROPPED.search(line)], language, moses)


def segments(orig: Path, language: str, moses: Path) -> list[str]:
    """The tokenized, lower-cased sentences of the test sets, one after the other."""
    lines = [line for name in TEST_SETS for line in read(orig / f"IWSLT14.{name}.de-en.{language}.xml")]
    sentences = [bare(line) for line in lines if "<seg id" in line]
    return perl(moses / "scripts/tokenizer/lowercase.perl", lines=tokenize(sentences, language, moses))


def bare(line: str) -> str:
    """The sentence in a line of XML, with plain apostrophes."""
    line = re.sub(r'<seg id="[0-9]*">\s*', "", line)
    return re.sub(r"\s*</seg>\s*", "", line).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def clean(corpus: Split, moses: Path, folder: Path) -> Split:
    """The pairs that clean-corpus-n.perl keeps, lower-cased."""
    for language, lines in corpus.items():
        write(folder / f"tokenized.{language}", lines)
    script = moses / "scripts/training/clean-corpus-n.perl"
    perl(script, "-ratio", "1.5", folder / "tokenized", *LANGUAGES, folder / "clean", "1", "175")
    lowercase = moses / "scripts/tokenizer/lowercase.perl"
    return {language: perl(lowercase, lines=read(folder / f"clean.{language}")) for language in LANGUAGES}


def tokenize(lines: list[str], language: str, moses: Path) -> list[str]:
    return perl(moses / "scripts/tokenizer/tokenizer.perl", "-q", "-threads", "1", "-l", language, lines=lines)


def perl(script: Path, *arguments: object, lines: Iterable[str] = ()) -> list[str]:
    text = "".join(line + "\n" for line in lines).encode()
    command = ["perl", script, *map(str, arguments)]
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return result.stdout.decode().split("\n")[:-1]


def read(path: Path) -> list[str]:
    return path.read_bytes().decode().removesuffix("\n").split("\n") if path.stat().st_size else []


def write(path: Path, lines: Iterable[str]) -> None:
    path.write_bytes("".join(line + "\n" for line in lines).encode())
