"""What data-prep/prepare-*.sh must make of small archives, worked out from what these hold."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape

from ea_fairseq.data.tokenization import Tokenization
from ea_fairseq.plain.text_lines import tidy
from small_archives import SENTENCES_A_TALK, sentence, training_sentence

TRAIN, TEST = 120, 16  # pairs in each corpus and in each test set
TALKS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
BPE = ("--merges", "300")
SENTENCEPIECE = ("--subword", "sentencepiece", "--model-type", "bpe", "--separate-subword", "--vocab-size", "90")

Text = dict[str, list[str]]  # of one language, by split


@dataclass(frozen=True)
class DataSet:
    """A data set: the script that makes it, the text that it must have, how this is tokenized, and where it is kept."""

    script: str
    source: str
    target: str
    archives: str
    text: Callable[[str], Text]
    tokenization: Tokenization
    normalizes_test: bool = False
    options: tuple[str, ...] = BPE
    words: str = "cleaned/train tokenized/valid tokenized/test"
    subwords: str = "subword/train subword/valid subword/test"

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    def sentences(self, split: str, language: str) -> list[str]:
        """The sentences of a split, before they are tokenized."""
        return list(map(tidy, self.text(language)[split]))


def is_kept(number: int) -> bool:
    """Whether cleaning keeps a training pair."""
    return number % 40 not in (7, 17, 27)


def training(language: str, *corpora: str) -> list[str]:
    return [training_sentence(language, key, number) for key in corpora for number in filter(is_kept, range(TRAIN))]


def held_out(language: str, *corpora: str) -> list[str]:
    return [sentence(language, f"{key} {number}") for key in corpora for number in range(TEST)]


def segments(language: str, *corpora: str) -> list[str]:
    return [line.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") for line in held_out(language, *corpora)]


def talks(language: str) -> Text:
    kept = []
    for number in range(TRAIN):
        kept += [training_sentence(language, "talk", number)] * is_kept(number)
        if number % SENTENCES_A_TALK == SENTENCES_A_TALK - 1:
            kept += [sentence(language, f"title {number}"), sentence(language, f"description {number}")]
    train = [line for number, line in enumerate(kept, 1) if number % 23]
    return {"train": train, "valid": kept[22::23], "test": segments(language, *TALKS)}


def news_with_german(language: str) -> Text:
    train = training(language, "europarl de", "crawl de", "news de")
    return {"train": train, "valid": held_out(language, "newstest2013"), "test": newstest2014(language, "deen")}


def later_news_with_german(language: str) -> Text:
    return news_with_german(language) | {"train": training(language, "europarl de", "crawl de", "later news de")}


def news_with_french(language: str) -> Text:
    train = training(language, "europarl fr", "crawl fr", "un fr", "news fr", "giga")
    valid = held_out(language, "newstest2012", "newstest2013")
    return {"train": train, "valid": valid, "test": newstest2014(language, "fren")}


def newstest2014(language: str, pair: str) -> list[str]:
    return [escape(line, quote=False) for line in segments(language, pair)]


def captions(language: str) -> Text:
    train = [sentence(language, f"caption train {number}") for number in range(TRAIN)]
    valid, test = (held_out(language, f"caption {name}") for name in ("val", "test_2016_flickr"))
    return {"train": train, "valid": valid, "test": test}


IWSLT14 = DataSet(
    script="iwslt14-deen",
    source="de",
    target="en",
    archives="iwslt14-de-en",
    text=talks,
    tokenization=Tokenization(normalize=False, lowercase=True),
    words="split/train split/valid tokenized/test",
)
WMT14_GERMAN = DataSet(
    script="wmt14-ende",
    source="en",
    target="de",
    archives="europarl-v7 commoncrawl nc-v9 dev test-full",
    text=news_with_german,
    tokenization=Tokenization(dash_splits=True),
    subwords="cleaned/train subword/valid subword/test",
)
WMT17_GERMAN = replace(
    WMT14_GERMAN,
    archives="europarl-v7 commoncrawl nc-v12 dev test-full",
    text=later_news_with_german,
    options=("--wmt17", "--subword", "none"),
    subwords="cleaned/train tokenized/valid tokenized/test",
)
WMT14_FRENCH = replace(
    WMT14_GERMAN,
    script="wmt14-enfr",
    target="fr",
    archives="europarl-v7 commoncrawl un nc-v9 giga-fren dev test-full",
    text=news_with_french,
)
MULTI30K_GERMAN = DataSet(
    script="multi30k",
    source="en",
    target="de",
    archives=" ".join(
        f"multi30k-{name}.{language}" for name in ("train", "val", "test_2016_flickr") for language in ("de", "en")
    ),
    text=captions,
    tokenization=Tokenization(),
    normalizes_test=True,
)
MULTI30K_FRENCH = DataSet(
    script="multi30k",
    source="fr",
    target="en",
    archives=MULTI30K_GERMAN.archives.replace(".de", ".fr"),
    text=captions,
    tokenization=Tokenization(lowercase=True),
    normalizes_test=True,
    options=("--source-lang", "fr", "--target-lang", "en", "--lowercase", "--joined-dictionary", *SENTENCEPIECE),
)
DATA_SETS = (IWSLT14, WMT14_GERMAN, WMT17_GERMAN, WMT14_FRENCH, MULTI30K_GERMAN, MULTI30K_FRENCH)
