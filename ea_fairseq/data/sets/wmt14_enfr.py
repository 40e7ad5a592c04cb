"""WMT'14 English-French, as fairseq's prepare-wmt14en2fr.sh makes it, but with one dictionary."""

from ea_fairseq.data.pairs import ArchiveText, SentencePairs


def training(archive: str, member: str, size: int) -> ArchiveText:
    """Text for training, one sentence per line."""
    return ArchiveText("train", archive, (member,), size=size, name=archive)


DATA_SET = SentencePairs(
    name="wmt14-enfr",
    summary="WMT'14 English-French: europarl, commoncrawl, UN, news-commentary and giga, 6.6 GB",
    description="""\
Downloads the training data of WMT'14 English-French (europarl v7, commoncrawl, UN, news-commentary v9, giga: 6.6 GB)
and turns its 40 million pairs into fairseq data in OUT_DIR/data-bin as fairseq's prepare-wmt14en2fr.sh does: normalised
punctuation, Moses tokens split at hyphens, 40,000 joint BPE merges; here with one dictionary, newstest2012 and 2013
for validation and newstest2014 for testing. If interrupted, run it again to resume.""",
    examples=(
        "--compress --remove-intermediate --workers 32 data/wmt14-enfr",
        "--dry-run data/wmt14-enfr",
    ),
    languages=(("en", "fr"),),
    texts=(
        training("europarl-v7", "europarl-v7.fr-en.{lang}", 650_000_000),
        training("commoncrawl", "commoncrawl.fr-en.{lang}", 900_000_000),
        training("un", "undoc.2000.fr-en.{lang}", 4_200_000_000),
        training("nc-v9", "news-commentary-v9.fr-en.{lang}", 60_000_000),
        training("giga-fren", "giga-fren.release2.fixed.{lang}.gz", 7_000_000_000),
        ArchiveText("valid", "dev", ("newstest2012.{lang}", "newstest2013.{lang}")),
        ArchiveText("test", "test-full", ("newstest2014-fren-{role}.{lang}.sgm",), "segments"),
    ),
    steps=("tokenize", "subword", "clean"),  # cleaning counts subwords, as in fairseq's script
    normalized=("train", "valid"),  # as there, not the test set
    defaults={"dash_splits": True, "merges": 40_000, "joined_dictionary": True, "max_length": 250},
    counts={"valid": 6003, "test": 3003},
    counts_of_others={"with_text": 40836715},
)
