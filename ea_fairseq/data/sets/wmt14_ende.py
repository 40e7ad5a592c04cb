"""WMT'14 English-German: text and cleaning of fairseq's prepare-wmt14en2de.sh, newstest2013 for validation."""

from ea_fairseq.data.options import Option
from ea_fairseq.data.pairs import ArchiveText, SentencePairs

EUROPARL = ArchiveText("train", "europarl-v7", ("europarl-v7.de-en.{lang}",), size=620_000_000, name="europarl-v7")
COMMON_CRAWL = ArchiveText("train", "commoncrawl", ("commoncrawl.de-en.{lang}",), size=650_000_000, name="commoncrawl")
VALID = ArchiveText("valid", "dev", ("newstest2013.{lang}",))
TEST = ArchiveText("test", "test-full", ("newstest2014-deen-{role}.{lang}.sgm",), "segments")


def texts(commentary: str, size: int) -> tuple[ArchiveText, ...]:
    """Returns all texts, with this version of news-commentary."""
    member = f"news-commentary-{commentary}.de-en.{{lang}}"
    name = f"nc-{commentary}"
    return EUROPARL, COMMON_CRAWL, ArchiveText("train", name, (member,), size=size, name=name), VALID, TEST


DATA_SET = SentencePairs(
    name="wmt14-ende",
    summary="WMT'14 English-German: europarl, commoncrawl and news-commentary, 1.7 GB",
    description="""\
Downloads the training data of WMT'14 English-German (europarl v7, commoncrawl, news-commentary v9: 1.7 GB for all
the languages in them) and turns it into fairseq data in OUT_DIR/data-bin: normalised punctuation, Moses tokens split
at hyphens, 32,000 joint BPE merges, one dictionary; newstest2013 for validation, newstest2014 for testing. If
interrupted, run it again to resume.""",
    examples=(
        "--compress --remove-intermediate data/wmt14-ende",
        "--archives data/wmt14-enfr/archives --subsample 100000 data/wmt14-ende-trial",
    ),
    languages=(("en", "de"),),
    texts=texts("v9", 60_000_000),
    steps=("tokenize", "subword", "clean"),  # cleaning counts subwords, as in fairseq's script
    normalized=("train", "valid"),  # as there, not the test set
    defaults={"dash_splits": True, "merges": 32_000, "joined_dictionary": True, "max_length": 250},
    counts={"valid": 3000, "test": 3003},
    counts_of_others={"with_text": 4508785},
    own=(Option("wmt17", None, False, "use news-commentary v12, the default of fairseq's script, not v9"),),
    variants={"wmt17": {"texts": texts("v12", 80_000_000), "counts_of_others": {}}},
)
