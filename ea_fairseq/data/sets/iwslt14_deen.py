"""IWSLT'14 German-English, step for step as fairseq's prepare-iwslt14.sh makes it."""

from ea_fairseq.data.pairs import ArchiveText, SentencePairs

TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

DATA_SET = SentencePairs(
    name="iwslt14-deen",
    summary="IWSLT'14 German-English: talks of TED, 20 MB",
    description="""\
Downloads IWSLT'14 German-English (20 MB) and turns it into fairseq data in OUT_DIR/data-bin as fairseq's
prepare-iwslt14.sh does: Moses tokens, lower-cased, every 23rd of the cleaned pairs for validation, 10,000 joint BPE
merges, a dictionary for each language; train 160,239, valid 7,283 and test 6,750 pairs. If interrupted, run it again to
resume.""",
    examples=("data/iwslt14", "--archives ~/downloads --moses ~/mosesdecoder data/iwslt14-moses"),
    languages=(("de", "en"),),
    texts=(
        ArchiveText("train", "iwslt14-de-en", ("de-en/train.tags.de-en.{lang}",), "tags", size=35_000_000),
        ArchiveText("test", "iwslt14-de-en", tuple(f"IWSLT14.{name}.de-en.{{lang}}.xml" for name in TESTS), "segments"),
    ),
    steps=("tokenize", "clean", "split", "subword"),
    normalized=(),
    valid_every=23,
    defaults={"lowercase": True},
    counts={"train": 160239, "valid": 7283, "test": 6750, "dict.de": 8848, "dict.en": 6632},
)
