"""GAT and EA-GAT: layers of attention over the edges of a graph, which predict classes of its nodes.

Velickovic et al., Graph Attention Networks, ICLR 2018 ("GAT"); details not in the paper follow its authors' code.
Wang et al., Convolution-enhanced Evolving Attention Networks, 2022, section 3.4, has evolving attention over edges.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models import register_model_architecture
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ea_fairseq.attention.attention import Attention
from ea_fairseq.attention.edges import EdgeAttention, EdgeSizes
from ea_fairseq.attention.mechanism import LayerContext
from ea_fairseq.attention.registry import Family
from ea_fairseq.errors import UserError
from ea_fairseq.graphs.description import GraphDescription
from ea_fairseq.models.graph_options import GraphOptions
from ea_fairseq.models.mechanism_model import MechanismModel, register, set_options
from ea_fairseq.options import Options, require_defaults


class GraphModel(MechanismModel):
    """A graph attention network with one mechanism in its layers.

    The last layer is the classification head that fairseq's criterion ``sentence_prediction`` looks for.

    Args:
        args: the model's options.
        description: sizes of the graph.
    """

    def __init__(self, args: Any, description: GraphDescription):
        super().__init__()
        self.args, self.description = args, description
        options, shared = GraphOptions.from_namespace(args), dict[str, nn.Module]()
        self.layers, self.biases = nn.ModuleList(), nn.ParameterList()
        channels, below = description.features, 0
        for layer in range(options.graph_layers - 1):
            sizes = EdgeSizes(channels, options.graph_heads, options.head_width, below)
            self.layers.append(self.build_attention(options, LayerContext("encoder", layer, shared), sizes))
            channels, below = options.graph_heads * options.head_width, options.graph_heads
            self.biases.append(nn.Parameter(torch.zeros(channels)))
        self.last = LayerContext("encoder", options.graph_layers - 1, shared), channels, below
        self.classification_heads = nn.ModuleDict()

    def build_attention(self, options: GraphOptions, context: LayerContext, sizes: EdgeSizes) -> EdgeAttention:
        """Builds the attention of a layer."""
        kind = self.family.attention
        return EdgeAttention(
            kind,
            kind.options.from_namespace(self.args),
            context,
            sizes,
            learns_mix=options.ea_heads == "mix",
            dropout=options.dropout,
            attention_dropout=options.attention_dropout,
        )

    def register_classification_head(self, name: str, classes: int) -> None:
        """Adds the last layer, whose heads have a channel for each class."""
        options = GraphOptions.from_namespace(self.args)
        context, channels, below = self.last
        sizes = EdgeSizes(channels, options.output_heads, classes, below)
        self.classification_heads[name] = self.build_attention(options, context, sizes)
        self.output_bias = nn.Parameter(torch.zeros(classes))

    def forward(
        self,
        features: Tensor,
        edges: Tensor,
        nodes: Tensor | None = None,
        features_only: bool = True,
        classification_head_name: str | None = None,
    ) -> tuple[Tensor, dict]:
        """
        Args:
            features: (N, F), sparse.
            edges: (2, E), source and target of each, with a loop at each node.
            nodes: (B,), the nodes whose output is returned; by default all.

        Returns:
            Logits of the classes, (B, C), or what the last layer reads, (B, channels); and an empty dictionary, which
            fairseq's criteria expect.
        """
        x, passed = features, None
        # Layers: heads side by side, ELU (GAT eq. 5).
        for layer, bias in zip(self.layers, self.biases, strict=True):
            output, passed = layer(x, edges, passed)
            x = F.elu(output.flatten(1) + bias)
        # The last layer: the mean of its heads (GAT eq. 6).
        if classification_head_name is not None:
            output, _ = self.classification_heads[classification_head_name](x, edges, passed)
            x = output.mean(dim=1) + self.output_bias
        return x if nodes is None else x[nodes], {}

    def max_positions(self) -> int:
        """Returns 1, the size of a node."""
        return 1

    @classmethod
    def option_classes(cls) -> tuple[type[Options], ...]:
        """Returns the option classes of the network and of the mechanism."""
        return GraphOptions, cls.family.attention.options

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "GraphModel":
        """Checks the flags and builds the model.

        Raises:
            UserError: naming the flag, if an option is out of range; the mechanism, if it does not support edges; or
                the task, if it has no graph.
        """
        if not isinstance(description := getattr(task, "description", None), GraphDescription):
            raise UserError(f"--arch {args.arch} is for --task node_prediction")
        cls.check_args(args)
        cls.refuse_decoder_flags(args)
        model = cls(args, description)
        if not any(module.passes_logits for module in model.modules() if isinstance(module, Attention)):
            require_defaults(GraphOptions.from_namespace(args), "no layer passes logits on", ("ea_heads",))
        return model


def register_network(name: str, family: Family, defaults: Mapping[str, object]) -> None:
    """Registers a model with fairseq, and its architecture of the same name."""
    model = register(name, GraphModel, family=family, __doc__=family.attention.__doc__)
    register_model_architecture(name, name)(lambda args: set_options(args, model.option_classes(), defaults))


def register_graph(family: Family) -> None:
    """Registers a family's model of graphs, ``ea_gat``, if its steps support edges and its layers have no branch."""
    attention = family.attention
    if not attention.has_branch and attention.fits_edges(attention.options(**family.graph_defaults)):
        register_network(family.model("gat"), family, family.graph_defaults)


register_network("gat", Family("gat", Attention, {}), {})
