"""The user's own plain text, one sentence or paragraph per line, for ``--task span_corruption`` or ``masked_lm``."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from ea_fairseq.data.binarize import Description, binarize_text
from ea_fairseq.data.checked_text import CheckedPairs, check_file
from ea_fairseq.data.data_set import DataSet
from ea_fairseq.data.manifest import sha256
from ea_fairseq.data.options import SENTENCES, Option, folder, text_settings
from ea_fairseq.data.sets.corpus import plan_links
from ea_fairseq.data.text_plan import TextPlan
from ea_fairseq.data.text_to_text import DICTIONARY, read_vocabulary
from ea_fairseq.errors import UserError
from ea_fairseq.plain.split_folder import SPLITS
from ea_fairseq.plain.text_lines import find_splits
from ea_fairseq.text.subwords import T5

SIDE = "txt"  # the suffix of its files
LANGUAGE = "en"  # for the tokenizer
SETTINGS = ("lowercase", "normalize", "tokenizer", "subword", "threshold")


class PlainText(DataSet):
    """The text of a folder."""

    def prepare(self, options: Namespace) -> None:
        """Prepares the data, or prints the plan; raises UserError for bad options or if a step fails."""
        texts, path = map(Path, options.given)
        if not texts.is_dir():
            raise UserError(f"there is no folder {texts}: give the folder that holds train.txt and valid.txt.")
        model = read_vocabulary(options.text_to_text) if options.text_to_text else None
        if model:
            options.tokenizer, options.subword, options.lowercase = "none", T5, False
        normalized = () if options.no_normalize or options.tokenizer == "none" else SPLITS
        output = self.output_folder(path)
        plan = TextPlan(output.path, options, (SIDE,))
        output.say(f"checking {texts}")
        for split, text in find_splits(texts, SIDE).items():
            checked = check_file(text, f"{split}.{SIDE}")
            plan_links(plan, f"corpus/{split}", split, CheckedPairs((checked,)))
        plan.tokenize((LANGUAGE,), normalized, plan.sample)
        if model:
            for file in (model, DICTIONARY):
                plan.copy(file, options.text_to_text)
            plan.models = (model,)
        plan.segment()
        settings = {"dataset": self.maker, "dash_splits": False} | text_settings(options, SETTINGS, normalized)
        make = partial(
            binarize_text,
            description=Description(settings, plan.versions, plan.model_files()),
            dictionary=output.path / DICTIONARY if model else None,
            threshold=options.threshold,
        )
        own = sha256(options.text_to_text / DICTIONARY) if model else None
        plan.binarize(make, (options.threshold, own), (DICTIONARY,) if model else ())
        self.carry_out(plan, output, options)


DATA_SET = PlainText(
    name="text",
    summary="plain text of your own, for --task span_corruption or masked_lm",
    description="""\
Turns train.txt, valid.txt and optionally test.txt (plain or .gz) in TEXT_DIR, one sentence or paragraph per line, to
OUT_DIR/data-bin for --task span_corruption or masked_lm: a dictionary, the token ids of each split, the subword model,
preparation.json and manifest.json. By default a SentencePiece model is learnt from train.txt. If interrupted, run it
again to resume.""",
    examples=("--text-to-text runs/t5-small ~/articles data/articles", "--vocab-size 16000 ~/articles data/articles"),
    asks=("TEXT_DIR", "OUT_DIR"),
    shared=SENTENCES | {"tokenizer", "no_normalize"},
    own=(
        Option("text_to_text", "DIR", None, "use the pieces in DIR, a folder of import-t5 or of data for T5", folder),
    ),
    defaults={"tokenizer": "none", "subword": "sentencepiece"},
)
