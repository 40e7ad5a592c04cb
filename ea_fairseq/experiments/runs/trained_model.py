"""A trained model with all that raw text needs to go in and come out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import normpath, relpath
from pathlib import Path
from typing import TYPE_CHECKING

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.runs.preparation import Preparation
from ea_fairseq.plain.project import PROJECT
from ea_fairseq.plain.text_lines import tidy

if TYPE_CHECKING:
    from torch import Tensor

    from ea_fairseq.hub.translation import TranslationHub

CARD = ("README.md", "SHA256SUMS")  # of a released model
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt")


@dataclass(frozen=True)
class TrainedModel:
    """A model, or an ensemble, and the preparation of the text that it learnt from."""

    hub: "TranslationHub"
    preparation: Preparation

    @classmethod
    def load(
        cls, folder: Path, names: str | None = None, data: Path | None = None, cpu: bool = False, **options
    ) -> "TrainedModel":
        """Loads it, onto a GPU where there is one.

        Args:
            folder: of the checkpoints.
            names: of the checkpoint or, as ``a.pt:b.pt``, of an ensemble; by default the first of CHECKPOINTS.
            data: folder of the dictionaries, the subword model and preparation.json; by default ``folder`` where it has
                dictionaries, else the folder that the model was trained on.
            options: fairseq's, such as ``max_tokens``.

        Raises:
            UserError: naming what is not there.
        """
        import torch

        from ea_fairseq import EATransformerModel
        from ea_fairseq.experiments.runs.training_run import require_words
        from ea_fairseq.hub.files import find_checkpoints

        try:
            names = names or usual_checkpoint(folder)
            checkpoints = find_checkpoints(folder, names)
            data = data or (folder if any(folder.glob("dict.*.txt")) else recorded_data(checkpoints[0]))
            require_words(folder, data)
            preparation = Preparation.read(data)
            hub = EATransformerModel.from_pretrained(folder, names, data.absolute(), **options)
        except UserError as error:
            raise UserError(str(error)) from None
        if torch.cuda.is_available() and not cpu:
            hub.cuda()
        return cls(hub, preparation)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.hub.task.cfg.source_lang, self.hub.task.cfg.target_lang

    def require_shortlist(self, path: Path) -> None:
        """Raises UserError unless a file is a vocabulary shortlist of the model's words."""
        from ea_fairseq.errors import UserError
        from ea_fairseq.search.shortlist import Shortlist

        try:
            Shortlist.of_task(str(path), self.hub.task)
        except UserError as error:
            raise UserError(str(error)) from None

    def require_bfloat16(self, flag: str) -> None:
        """Raises UserError, naming a flag, where native code cannot translate in bfloat16."""
        from ea_fairseq.errors import UserError
        from ea_fairseq.search.generation_options import require_bfloat16

        try:
            require_bfloat16(flag)
        except UserError as error:
            raise UserError(str(error)) from None

    def preparer(self, side: str) -> Callable[[str], str]:
        """A function that prepares a raw line of the ``source`` or the ``target``."""
        return self.preparation.preparer(self.hub.task.cfg[f"{side}_lang"])

    def tokens(self, side: str, line: str) -> "Tensor":
        """The tokens (T,) of a raw line of the ``source`` or the ``target``."""
        dictionary = self.hub.src_dict if side == "source" else self.hub.tgt_dict
        return dictionary.encode_line(self.preparer(side)(tidy(line)), add_if_not_exist=False).long()

    def pairs(self, subset: str) -> "tuple[list[Tensor], list[Tensor]]":
        """The tokens of the sources and of the targets of a subset of the binarised data."""
        try:
            self.hub.task.load_dataset(subset)
        except FileNotFoundError:
            raise UserError(
                f"there is no {subset} in {self.preparation.folder}: name a subset, and with --data the folder of the "
                "binarised data."
            ) from None
        dataset = self.hub.task.dataset(subset)
        return [list(map(side.__getitem__, range(len(side)))) for side in (dataset.src, dataset.tgt)]


def require_same_task(models: Sequence[TrainedModel], paths: Sequence[Path]) -> None:
    """Raises UserError where two models to compare are of other languages or words."""
    first, last = models[0], models[-1]
    ours, theirs = ("-".join(model.languages) for model in (first, last))
    if ours != theirs:
        raise UserError(f"{paths[-1]} translates {theirs}, not {ours}: compare models of one task.")
    if (first.hub.src_dict, first.hub.tgt_dict) != (last.hub.src_dict, last.hub.tgt_dict):
        raise UserError(f"{paths[-1]} has another vocabulary than {paths[0]}: compare models of the same data.")


def usual_checkpoint(folder: Path) -> str:
    """The name of the checkpoint that is taken of a folder: the first of CHECKPOINTS that is there.

    Raises:
        UserError: if the folder is the card of a model whose weights are not published.
    """
    found = next((name for name in CHECKPOINTS if (folder / name).is_file()), None)
    if found is None and all((folder / name).is_file() for name in CARD):
        raise UserError(
            f"{folder} is the card of a model whose weights are not published: train it by the recipe that its "
            "README.md names, with scripts/train.sh."
        )
    return found or CHECKPOINTS[0]


def recorded_data(checkpoint: Path) -> Path:
    """The folder of the data that a model was trained on, where it is a likely one; elsewhere the user must name it."""
    from ea_fairseq.experiments.runs.checkpoint import Checkpoint

    saved = Checkpoint.read(checkpoint)
    data = (saved.options("task").get("data") or "").split(":")[0]
    folder = saved.options("checkpoint").get("save_dir") or ""
    places = [Path(data)]
    if data.startswith("/") and folder.startswith("/"):  # both may have been moved since
        way = relpath(data, folder)
        places = [*(Path(normpath(here / way)) for here in checkpoint.absolute().parents[:2]), *places]
    likely = (Path.cwd(), PROJECT, checkpoint.absolute().parents[1])
    found = [place for place in places if any(Path(normpath(place.absolute())).is_relative_to(near) for near in likely)]
    for place in found:
        if place.is_dir():
            return place
    flaw = "is not there" if Path(data) in found else "is neither beside it nor in this project or the current folder"
    raise UserError(
        f"{checkpoint.parent} has no dictionaries, and {data!r}, which the model was trained on, {flaw}: name the "
        "folder of its data with --data."
    )
