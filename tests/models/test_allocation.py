"""A small checkpoint that describes a large model is refused before the memory is taken."""

import pytest
import torch

import graphs
import images
from ea_fairseq.attention.registry import FAMILIES
from ea_fairseq.checkpoint import allocation
from ea_fairseq.checkpoint.allocation import AllocationLimit, stored_elements
from ea_fairseq.errors import FileError
from ea_fairseq.graphs.description import GraphDescription
from tiny import TINY, build, sizes

STORED = 1_000  # elements of a small file
PICTURES = images.describe(8, classes=2)
NODES = GraphDescription(features=1 << 12, classes=2, nodes=10, edges=10, entries=10)
LARGE = {  # models of 100 million elements and more
    "wide layers": lambda: build("ea_transformer", **TINY | {"encoder_ffn_embed_dim": 1 << 24}),
    "many layers": lambda: build("ea_transformer", **TINY | {"encoder_layers": 1 << 30}),
    "many positions": lambda: build("transformer", **TINY, max_source_positions=(1 << 31) - 1),
    "a long synthesizer": lambda: build("synthesizer", **sizes(embed_dim=1 << 16), synthesizer_length=1024),
    "a large kernel": lambda: build("ea_transformer", **TINY, ea_kernel_size=(1 << 15) - 1),
    "many streams": lambda: build("modern_transformer", **sizes(embed_dim=512), connections="mhc", streams=64),
    "many heads of a graph": lambda: graphs.build_network("gat", NODES, graph_heads=256, head_width=1 << 14),
    "many layers of a graph": lambda: graphs.build_network("gat", NODES, graph_layers=1000, head_width=512),
    "wide stages": lambda: images.build("cnn_image", PICTURES, stage_width=1 << 14),
    "many patches": lambda: images.build(
        "vit", images.describe(4096, channels=1), **images.TINY["vit_tiny"] | {"patch_size": 1, "encoder_embed_dim": 64}
    ),
    "heads of an image": lambda: images.build(
        "conv_image", PICTURES, encoder_layers=1, encoder_embed_dim=2048, encoder_attention_heads=2048, patch_size=1
    ),
}


@pytest.mark.parametrize("model", LARGE)
def test_a_large_model_is_refused_before_it_is_there(model):
    refusal = r"a file is refused: its options describe a larger model than its 1,000 numbers allow\."
    with pytest.raises(FileError, match=refusal), AllocationLimit("a file", [torch.zeros(STORED)]):
        LARGE[model]()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_model_takes_as_much_as_its_file_allows(family, monkeypatch):
    monkeypatch.setattr(allocation, "FREE", 1 << 20)  # far less than tables of positions may take
    monkeypatch.setattr(allocation, "LEAST", 0)
    model = build(f"{family}_lite")
    with AllocationLimit("a file", model.parameters()):
        build(f"{family}_lite")


def test_views_of_one_storage_count_once():
    table = torch.zeros(10, 3)
    assert stored_elements([table, table[:5], table.t(), torch.zeros(2)]) == 32
