"""The demo's answer to a sentence: translations with scores by each model, and a page of their attention."""

import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.maps.sentence_maps import SentenceMaps, model_maps
from ea_fairseq.experiments.runs.trained_model import find_model, load_translation, require_same_task
from ea_fairseq.experiments.runs.training_run import model_names
from ea_fairseq.explorer.page import attention_page
from ea_fairseq.plain.text_lines import tidy

MOST_CHARACTERS = 600
BEAM, SHOWN = 5, 3


@dataclass(frozen=True)
class Hypothesis:
    """A translation as raw text, and its mean log-probability per token, in nats."""

    text: str
    score: float


@dataclass(frozen=True)
class Answer:
    """The answer to a sentence.

    Args:
        translations: by the name of the model, the best first.
        unknown: words of the sentence that the models did not learn.
        page: for exploring the attention of all models to the sentence and the first model's translation.
    """

    translations: dict[str, list[Hypothesis]]
    unknown: list[str]
    page: str


class Translators:
    """One or two models of the same languages and vocabularies.

    Args:
        vocabulary: the words of the training text; without it, a word is unknown if a piece of it is ``<unk>``.
        tag: of all sentences, if the models were trained with tags.

    Raises:
        UserError: naming a missing model, one of other languages or vocabularies than the first, or an unknown tag.
    """

    def __init__(
        self,
        folders: list[Path],
        cpu: bool = False,
        vocabulary: Container[str] | None = None,
        tag: str | None = None,
    ):
        models = [load_translation(find_model(folder), cpu) for folder in folders]
        names = model_names(folders, [folder.resolve().name for folder in folders])
        self.models = dict(zip(names, models, strict=True))
        require_same_task(models, folders)
        self.languages = models[0].languages
        self.vocabulary, self.tag = vocabulary, tag
        if tag is not None:
            for model in models:
                model.tag_id(tag)  # raises UserError if a model does not know the tag

    def answer(self, text: str) -> Answer:
        """Translates a raw sentence.

        Raises:
            UserError: if it is empty or too long, or has no word that a model reads.
        """
        text = tidy(text)
        if not text:
            raise UserError("There is no word in this: type a sentence.")
        if len(text) > MOST_CHARACTERS:
            raise UserError(f"This has {len(text)} characters: type a sentence of at most {MOST_CHARACTERS}.")
        try:
            return self._answer(text)
        except UserError as error:
            sentence = str(error).removesuffix(".")
            raise UserError(f"{sentence[0].upper()}{sentence[1:]}.") from None

    def unknown(self, text: str) -> list[str]:
        """Returns the words of a raw sentence that the models did not learn, each once."""
        found = dict.fromkeys(words(text))
        if self.vocabulary is not None:
            return [word for word in found if word not in self.vocabulary]
        model = next(iter(self.models.values()))
        return [word for word in found if model.src_dict.unk() in model.encode(word)]

    def _answer(self, text: str) -> Answer:
        found, target, maps = {}, None, []
        for name, model in self.models.items():
            source = model.encode(text, self.tag)
            hypotheses = model.generate(source, beam=BEAM)[:SHOWN]
            found[name] = [
                Hypothesis(tidy(model.decode(one["tokens"].cpu())), float(one["score"])) for one in hypotheses
            ]
            target = hypotheses[0]["tokens"].cpu() if target is None else target
            maps.append(SentenceMaps.of(name, model.attention_of_tokens(source, target), model.subword))
        return Answer(found, self.unknown(text), attention_page(list(map(model_maps, maps)), f"Attention of “{text}”"))


def words(text: str) -> list[str]:
    """Splits raw text into words and punctuation marks."""
    return re.findall(r"\w+|[^\w\s]", text)
