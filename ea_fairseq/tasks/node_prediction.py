"""The task ``node_prediction``: classes of the nodes of a graph, for the criterion ``sentence_prediction``."""

import logging
import math
import sys
from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions import FairseqCriterion
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterating
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task
from omegaconf import MISSING
from torch import Tensor

from ea_fairseq.errors import UserError
from ea_fairseq.graphs.dataset import NodeDataset
from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.graphs.graph import Graph
from ea_fairseq.plain.split_folder import SPLITS
from ea_fairseq.tasks.prediction import HEAD, PredictionTask

logger = logging.getLogger(__name__)


@dataclass
class NodePredictionConfig(FairseqDataclass):
    """The flags of the task."""

    data: str = field(default=MISSING, metadata={"help": "folder with nodes.tsv and edges.tsv"})
    l2: float = field(
        default=0.0,
        metadata={
            "help": "add this times half the sum of squared parameters to the loss, as GAT does; fairseq's "
            "--weight-decay shrinks parameters without regard to Adam's step sizes"
        },
    )


@register_task("node_prediction", dataclass=NodePredictionConfig)
class NodePredictionTask(PredictionTask[GraphDescription]):
    """Predicts the classes of nodes: each batch has the whole graph, and the loss is over some nodes."""

    describes, state_name, noun = GraphDescription, "graph", "nodes"

    def __init__(self, cfg: NodePredictionConfig, **kwargs: Any):
        super().__init__(cfg)
        if not 0 <= cfg.l2 < float("inf"):
            raise UserError(f"--l2 must be a number from 0 up, not {cfg.l2}")
        self._graph: Graph | None = None
        self.validates: list[FairseqDataset] = []  # the first validation set, and the one that is being validated on

    @property
    def graph(self) -> Graph:
        """The graph of the data folder, read once."""
        if self._graph is None:
            self._graph = Graph.read(self.cfg.data)
        return self._graph

    def measure(self) -> GraphDescription:
        """Returns the sizes of the graph."""
        return GraphDescription.of(self.graph)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> NodeDataset:
        """Loads the nodes of ``train``, ``valid`` or ``test``.

        Raises:
            UserError: if there are none, or the graph does not fit the model.
        """
        if split not in SPLITS or not self.graph.splits[split]:
            raise UserError(f"no node of {self.cfg.data} is in {split}: the splits are {', '.join(SPLITS)}")
        own = GraphDescription.of(self.graph)
        for name in ("features", "classes"):
            size, most = getattr(own, name), getattr(self.description, name)
            if size > most:
                raise UserError(f"the graph of {self.cfg.data} has {size:,} {name}, but the model has {most:,}")
        self.datasets[split] = NodeDataset(self.graph, self.graph.splits[split], self.description.features)
        logger.info(f"{split}: {len(self.datasets[split]):,} of {own.nodes:,} nodes")
        return self.datasets[split]

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> BaseFairseqModel:
        """Builds the model and its last layer.

        Raises:
            UserError: if ``--arch`` is no model of graphs.
        """
        from ea_fairseq.models.graph import GraphModel

        model = super().build_model(cfg, from_checkpoint)
        if not isinstance(model, GraphModel):
            raise UserError(f"--arch {cfg.arch} is no model of graphs: use one such as gat or ea_gat")
        model.register_classification_head(HEAD, self.description.outputs)
        return model

    def get_batch_iterator(self, dataset: FairseqDataset, *args: Any, **kwargs: Any) -> EpochBatchIterating:
        """Returns fairseq's iterator.

        All nodes of a validation are one batch: each reads the whole graph, and ``both_best`` compares validations.
        """
        if dataset is not self.datasets.get("train"):
            self.validates = [*self.validates[:1], dataset]
            kwargs |= {"max_tokens": None, "max_sentences": len(dataset), "required_batch_size_multiple": 1}
        return super().get_batch_iterator(dataset, *args, **kwargs)

    def train_step(self, sample: dict, model: Any, criterion: Any, *args: Any, **kwargs: Any) -> Any:
        """Trains with the L2 term times the number of nodes, by which fairseq divides; logs the loss without it."""

        def penalized(model: Any, sample: dict) -> tuple[Tensor, int, dict]:
            loss, nodes, logging_output = criterion(model, sample)
            squares: Tensor = sum(parameter.square().sum() for parameter in model.parameters())
            return loss + nodes * self.cfg.l2 / 2 * squares, nodes, logging_output

        return super().train_step(sample, model, penalized if self.cfg.l2 else criterion, *args, **kwargs)

    def reduce_metrics(self, logging_outputs: list[dict], criterion: FairseqCriterion) -> None:
        """Logs fairseq's metrics and, in validation, ``both_best``: how often loss and accuracy were both best, or 0.

        It is 0 for all sets of ``--valid-subset`` but the first, by which fairseq keeps checkpoints.
        With ``--best-checkpoint-metric both_best --maximize-best-checkpoint-metric --patience 100``, training follows
        the rule of GAT's authors: it keeps the last epoch in which both matched or beat their best values so far, and
        ends after 100 epochs in which neither did.
        """
        super().reduce_metrics(logging_outputs, criterion)
        if criterion.training:
            return
        if self.validates and self.validates[-1] is not self.validates[0]:
            metrics.log_scalar("both_best", 0)
            return
        nodes = sum(log["sample_size"] for log in logging_outputs)
        loss = float(sum(log["loss"] for log in logging_outputs)) / nodes
        accuracy = float(sum(log["ncorrect"] for log in logging_outputs)) / nodes
        # fairseq's function for --patience keeps its count as an attribute; checkpoints store its attributes.
        training = sys.modules.get("fairseq_cli.train")
        best = vars(training.should_stop_early) if training else {}
        is_best = loss <= best.get("loss", math.inf), accuracy >= best.get("accuracy", 0.0)
        best["loss"], best["accuracy"] = min(loss, best.get("loss", loss)), max(accuracy, best.get("accuracy", 0.0))
        best["both_best"] = best.get("both_best", 0) + all(is_best)
        metrics.log_scalar("both_best", best["both_best"] if all(is_best) else 0)
        if any(is_best) and "num_runs" in best:
            best["num_runs"] = -1  # it counts this validation, too

    def max_positions(self) -> int:
        """Returns 1, the size of a node."""
        return 1
