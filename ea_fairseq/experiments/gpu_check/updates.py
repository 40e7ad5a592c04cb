"""Updates of a model by fairseq's trainer, as fairseq-train makes them, in this process."""

from dataclasses import dataclass

import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from ea_fairseq.experiments.benchmark.batches import batch
from ea_fairseq.experiments.costs.built_model import dictionary
from ea_fairseq.experiments.gpu_check.settings import SEED, Settings

TYPES = 10_000  # in the invented dictionary
RECIPE = [
    *("--share-all-embeddings", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"),
    *("--lr", "1e-3", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "400", "--clip-norm", "0"),
    *("--label-smoothing", "0.1", "--max-tokens", "4096", "--seed", str(SEED), "--fp16-init-scale", "128"),
]


@dataclass(frozen=True)
class Precision:
    """How a training computes.

    Args:
        flags: of fairseq-train.
        bf16: ``common.bf16=true`` of fairseq-hydra-train; fairseq-train's ``--bf16`` is for TPUs.
    """

    name: str
    flags: tuple[str, ...] = ("--criterion", "label_smoothed_cross_entropy")
    bf16: bool = False


PLAIN = Precision.flags
FLOAT32 = Precision("float32")
FP16, BF16 = Precision("--fp16", (*PLAIN, "--fp16")), Precision("bf16", bf16=True)
AMP = Precision("--amp", (*PLAIN, "--amp"))
AUTOCAST = Precision("--autocast bf16", ("--criterion", "ea_label_smoothed_cross_entropy", "--autocast", "bf16"))


class Training:
    """A model, an optimizer and one batch of invented sentences.

    Args:
        flags: of fairseq-train, that describe the model.
        tokens: in the batch, on either side.
        length: of the longest sentence, in tokens.
    """

    def __init__(
        self, flags: list[str], settings: Settings, tokens: int, length: int = 30, precision: Precision = FLOAT32
    ):
        task = ["--task", "translation", "--source-lang", "xx", "--target-lang", "yy"]
        words = ["none", *task, *RECIPE, *settings.place, *precision.flags, *flags]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
        OmegaConf.set_struct(cfg, False)
        cfg.common.bf16 = precision.bf16
        torch.manual_seed(SEED)
        entries = dictionary(TYPES)
        task = invented_task(cfg.task, entries)
        self.trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
        self.batch = batch(entries, max(1, tokens // length), length, torch.device("cpu"), SEED)
        self.words = self.batch["ntokens"]

    def step(self) -> MetersDict:
        """One update; returns what fairseq logs of it, no loss if that has overflowed, until its scale has fallen."""
        with metrics.aggregate(new_root=True) as found:
            self.trainer.train_step([self.batch])
        return found

    def update(self) -> tuple[float, float]:
        """One update; returns its loss, in bits a token, and the norm of its gradients, with all digits."""
        found = self.step()
        return float(found["loss"].avg), float(found["gnorm"].avg)

    def peak(self, found: MetersDict) -> float:
        """GiB of the GPU that an update has taken at most; 0 if fairseq does not tell, as on a CPU."""
        return self.trainer.cuda_env.total_memory_in_GB - found["gb_free"].avg if "gb_free" in found else 0.0


def invented_task(cfg, entries: Dictionary) -> tasks.FairseqTask:
    """fairseq's task of translation, from a dictionary to itself."""
    return tasks.TASK_REGISTRY["translation"](cfg, entries, entries)
