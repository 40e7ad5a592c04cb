"""The preparation of a model's text, read from preparation.json beside it: nobody has to tell how it was done."""

from collections.abc import Callable
from pathlib import Path

from ea_fairseq.checkpoint.config import entries
from ea_fairseq.checkpoint.file import read_checkpoint
from ea_fairseq.errors import FileError
from ea_fairseq.plain.preparation import LARGEST_MODEL, PREPARATION, TextPreparation
from ea_fairseq.plain.records import MEGABYTE, read_json

LANGUAGES = ("source_lang", "target_lang")


class PreparedText:
    """A tokenizer for fairseq's hub: words as the model's data had them, and raw text again by fairseq's own."""

    def __init__(self, tokenize: Callable[[str], str], detokenizer):
        """
        Args:
            detokenizer: fairseq's tokenizer, or None for text that was tokenized already.
        """
        self.encode = tokenize
        self.decode = str if detokenizer is None else detokenizer.decode


def find_preparation(*folders: Path) -> TextPreparation | None:
    """What preparation.json says in the first of the folders that has one; None where none has.

    Raises:
        UserError: naming the file, or that of a subword model, where it is not what prepare-corpus.sh writes.
    """
    for folder in folders:
        path = folder / PREPARATION
        if not path.is_file():
            continue
        try:
            require_own(path, MEGABYTE)
            found = read_json(path)
            if isinstance(found, dict) and found.keys().isdisjoint(LANGUAGES):  # of sentences, which are not translated
                continue
            preparation = TextPreparation.of_json(found, folder)
        except ValueError as error:
            raise FileError(f"{path} is not what prepare-corpus.sh writes ({error}): copy it again.") from None
        for model in filter(Path.exists, preparation.model_files()):  # fairseq names those that are missing
            try:
                require_own(model, LARGEST_MODEL)
            except ValueError as error:
                raise FileError(f"{model} is no subword model ({error}): copy it again.") from None
        return preparation
    return None


def require_own(path: Path, largest: int) -> None:
    """Raises ValueError where a file is a link out of its folder, or has more than so many bytes."""
    if path.resolve().parent != path.parent.resolve():
        raise ValueError("it is a link out of its folder")
    if path.stat().st_size > largest:
        raise ValueError(f"it has more than {largest} bytes")


def completed(options: dict, preparation: TextPreparation, checkpoint: Path) -> dict:
    """The options of ``from_pretrained``, those that are not given as a preparation and the checkpoint say.

    Languages are the checkpoint's, which may translate in either direction; it does not know them where fairseq
    inferred them from the names of its data.
    """
    state = read_checkpoint(checkpoint)
    task = entries((state.get("cfg") or {}).get("task") or state.get("args"))
    source, target = languages = [
        options.get(name) or task.get(name) or getattr(preparation, name) for name in LANGUAGES
    ]
    found = dict(zip(LANGUAGES, languages, strict=True)) | preparation.hub_options(source)
    if "bpe" in options:
        found = {name: value for name, value in found.items() if name in (*LANGUAGES, "tokenizer")}
    elif preparation.subword != "none" and preparation.model_for(target) != preparation.model_for(source):
        found["target_subword"] = preparation.model_for(target)
    return found | options
