"""The Stanford Sentiment Treebank with five classes."""

from ea_fairseq.data.labelled import LabelledSentences, Task
from ea_fairseq.data.labels import Classes

DATA_SET = LabelledSentences(
    name="sst5",
    summary="the Stanford Sentiment Treebank with five classes, 1.2 MB",
    description="""\
Downloads the sentences of the Stanford Sentiment Treebank (1.2 MB) and turns them into data for fairseq's
sentence_prediction, OUT_DIR/data-bin/{input0,label}. Labels range from 0, very negative, to 4, very positive. The text
has the words of its authors, in lower case; words that occur only once in training become <unk>. There are 8,544
sentences for training, 1,101 for validation and 2,210 for testing. If interrupted, run it again to resume.""",
    examples=("data/sst5",),
    task=Task(
        "sst-5",
        sentences=1,
        counts=(8544, 1101, 2210),
        tables={"train": ("sst-5", "sst-5-train"), "valid": ("sst-5", "sst-5-dev"), "test": ("sst-5", "sst-5-test")},
        labels=Classes(["0", "1", "2", "3", "4"]),
    ),
    normalized=(),
    defaults={"tokenizer": "none", "subword": "none", "threshold": 2},
)
