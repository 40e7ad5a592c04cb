"""fairseq-hydra-train with nested options, as fairseq documents them."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
import yaml
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf

from commands import PLUGIN, run
from ea_fairseq.errors import UserError
from ea_fairseq.models.nested_options import flatten
from generation import generated
from reversal import DATA

SIZES = {"embed_dim": 16, "ffn_embed_dim": 32, "layers": 1, "attention_heads": 2}
NESTED = {"encoder": SIZES, "decoder": SIZES, "quant_noise": {"pq": 0.1}}
FLAT = {f"{part}_{name}": value for part, options in NESTED.items() for name, value in options.items()}


def train(home: Path, folder: Path, model: dict):
    """A training of two updates by a file of options; returns the finished process."""
    options = {
        "common": {"user_dir": str(PLUGIN), "cpu": True, "seed": 1},
        "task": {"_name": "translation", "data": str(home / DATA), "source_lang": "src", "target_lang": "tgt"},
        "criterion": {"_name": "label_smoothed_cross_entropy"},
        "optimizer": {"_name": "adam"},
        "lr_scheduler": {"_name": "fixed"},
        "optimization": {"max_update": 2, "lr": [0.01]},
        "dataset": {"max_tokens": 60, "disable_validation": True, "num_workers": 0},
        "checkpoint": {"save_dir": str(folder / "out")},
        "hydra": {"run": {"dir": str(folder)}},
        "model": model,
    }
    (folder / "options.yaml").write_text(yaml.safe_dump(options))
    return run("fairseq-hydra-train", "--config-dir", folder, "--config-name", "options", cwd=folder)


@pytest.mark.parametrize("arch", ["ea_transformer", pytest.param("transformer", marks=pytest.mark.slow)])
def test_a_model_of_nested_options_trains_and_translates(home, tmp_path, arch):
    result = train(home, tmp_path, {"_name": arch, "share_decoder_input_output_embed": True, **NESTED})
    assert result.returncode == 0, result.stdout + result.stderr
    path = tmp_path / "out/checkpoint_last.pt"
    state = torch.load(path, weights_only=False)
    assert state["model"]["encoder.embed_tokens.weight"].size(1) == 16
    assert "H-0" in generated(home / DATA, tmp_path, "--path", path, "--max-len-b", 5)


def test_an_option_that_a_part_does_not_have_ends_it_with_a_sentence(home, tmp_path):
    result = train(home, tmp_path, {"_name": "ea_transformer", "encoder": {"embed_dims": 16}})
    assert result.returncode == 1 and "Traceback" not in result.stderr
    expected = "fairseq-hydra-train: fairseq has no option model.encoder.embed_dims: encoder has embed_path, embed_dim"
    assert result.stderr.splitlines()[-1].startswith(expected)
    assert not list((tmp_path / "out").iterdir())


def test_parts_take_the_place_of_flat_names_and_get_fairseqs_defaults_where_they_must_be_complete():
    options = OmegaConf.create({"encoder_layers": 6, "encoder": {"layers": 2}, "dropout": 0.1})
    flatten(options)
    assert options == {"encoder_layers": 2, "dropout": 0.1}
    nested, flat = Namespace(**NESTED), Namespace(**FLAT)
    for args in (nested, flat):
        ARCH_CONFIG_REGISTRY["ea_transformer_lite"](args)
    assert nested == flat
    whole = {"decoder": {"embed_dim": 32}}
    flatten(whole, complete=True)
    assert (whole["decoder_output_dim"], whole["decoder_layers"]) == (32, 6)
    with pytest.raises(UserError, match=r"no option model\.quant_noise.p: quant_noise has"):
        flatten({"quant_noise": {"p": 1}})
