"""Multi30k, task 1: captions of images in English, German and French."""

from ea_fairseq.data.options import ARCHIVES, PAIRS
from ea_fairseq.data.pairs import ArchiveText, SentencePairs

DATA_SET = SentencePairs(
    name="multi30k",
    summary="Multi30k English-German or English-French: captions of images, 1.3 MB",
    description="""\
Downloads Multi30k (task 1: captions of images, 1.3 MB) and turns it into fairseq data in OUT_DIR/data-bin:
normalised punctuation, Moses tokens, 10,000 joint BPE merges, a dictionary for each language; train 29,000, valid
1,014 and test 1,000 pairs (2016, Flickr), none of them left out. If interrupted, run it again to resume.""",
    examples=("--source-lang de --target-lang en --lowercase --merges 6000 --joined-dictionary data/multi30k-deen",),
    languages=(("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")),
    texts=(
        ArchiveText("train", "multi30k-train.{lang}", ("train.{lang}.gz",), size=4_200_000),
        ArchiveText("valid", "multi30k-val.{lang}", ("val.{lang}.gz",)),
        ArchiveText("test", "multi30k-test_2016_flickr.{lang}", ("test_2016_flickr.{lang}.gz",)),
    ),
    shared=PAIRS | ARCHIVES | {"source_lang", "target_lang", "lowercase"},
    defaults={"max_length": 250, "ratio": 100},
    counts={"train": 29000, "valid": 1014, "test": 1000},
)
