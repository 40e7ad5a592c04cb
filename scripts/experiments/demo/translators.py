"""What the demo says of a sentence: translations with scores by each model, and the page of their attention."""

from dataclasses import dataclass
from pathlib import Path

from step import StepError
from text_lines import tidy

from ea_fairseq import UserError
from ea_fairseq.explorer.page import attention_page
from experiments.maps.explorer_files import model_maps
from experiments.maps.sentence_maps import SentenceMaps
from experiments.runs.trained_model import TrainedModel
from experiments.runs.training_run import TrainingRun

MOST_CHARACTERS = 600
BEAM, SHOWN = 5, 3


@dataclass(frozen=True)
class Hypothesis:
    """A translation as raw text, and its mean log-probability of a token, in nats."""

    text: str
    score: float


@dataclass(frozen=True)
class Answer:
    """What is said of a sentence.

    Args:
        translations: by the name of the model, the best first.
        page: on which the attention is explored, while the models read the sentence and the first one's translation.
    """

    translations: dict[str, list[Hypothesis]]
    page: str


class Translators:
    """One or two models that read the same language.

    Raises:
        StepError: naming a model that is not there, or two of other languages.
    """

    def __init__(self, folders: list[Path], cpu: bool = False):
        models = [TrainedModel.load(folder, cpu=cpu) for folder in folders]
        names = list(map(name_of, folders))
        if len({*names}) < len(names):
            names = list(map(str, folders))
        self.models = dict(zip(names, models, strict=True))
        self.languages = languages(models[0])
        if languages(models[-1]) != self.languages:
            raise StepError(
                f"{folders[-1]} translates {'-'.join(languages(models[-1]))}, not {'-'.join(self.languages)}: show "
                "models of one task."
            )

    def answer(self, text: str) -> Answer:
        """Translates a raw sentence.

        Raises:
            StepError: where it is empty or too long.
        """
        text = tidy(text)
        if not text:
            raise StepError("There is no word in this: type a sentence.")
        if len(text) > MOST_CHARACTERS:
            raise StepError(f"This has {len(text)} characters: type a sentence of at most {MOST_CHARACTERS}.")
        found, target, maps = {}, None, []
        for name, model in self.models.items():
            hypotheses = model.hub.generate(model.tokens("source", text), beam=BEAM)[:SHOWN]
            found[name] = [
                Hypothesis(tidy(model.hub.decode(one["tokens"].cpu())), float(one["score"])) for one in hypotheses
            ]
            target = hypotheses[0]["tokens"].cpu() if target is None else target
            maps.append(SentenceMaps.of_model(name, model, model.tokens("source", text), target))
        try:
            page = attention_page(list(map(model_maps, maps)), f"Attention of “{text}”")
        except UserError as error:
            raise StepError(f"{str(error).capitalize()}.") from None
        return Answer(found, page)


def name_of(folder: Path) -> str:
    """What train.sh calls a model or, where something else trained it, the name of its folder."""
    run = TrainingRun.read(folder)
    return run.model if run else folder.resolve().name


def languages(model: TrainedModel) -> tuple[str, str]:
    """Source and target."""
    return model.hub.task.cfg.source_lang, model.hub.task.cfg.target_lang
