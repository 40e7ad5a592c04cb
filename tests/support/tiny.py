"""Small models and dictionaries that the tests share."""

import argparse
from itertools import product
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

import ea_fairseq  # noqa: F401

VOCABULARY = 40


def sizes(**of_both_sides) -> dict[str, int]:
    """The options that give encoder and decoder the same sizes; those not named are tiny."""
    tiny = {"embed_dim": 8, "ffn_embed_dim": 8, "attention_heads": 2, "layers": 2}
    return {
        f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in {**tiny, **of_both_sides}.items()
    }


TINY = sizes()
SWITCHES = ("no_encoder_conv", "no_decoder_conv", "no_cross_conv", "no_encoder_skip", "decoder_skip", "cross_skip")
KERNELS = (1, 3, 5)
COMBINATIONS = [
    {"ea_kernel_size": kernel, **dict(zip(SWITCHES, switches, strict=True))}
    for kernel in KERNELS
    for switches in product((False, True), repeat=len(SWITCHES))
]
SKIPS = {"decoder_skip": True, "cross_skip": True}
OFF = {"no_encoder_conv": True, "no_decoder_conv": True, "no_cross_conv": True, "no_encoder_skip": True}


def dictionary(size: int = VOCABULARY) -> Dictionary:
    words = Dictionary()
    for index in range(size):
        words.add_symbol(f"w{index}")
    return words


def built(arch: str, task: object, seed: int, /, **options):
    """A model in evaluation mode, as fairseq's command line would build it from these options."""
    args = argparse.Namespace(arch=arch, **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(seed)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task).eval()


def build(arch: str = "ea_transformer", seed: int = 1, **options):
    """A model for translation, in evaluation mode."""
    words = dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    return built(arch, task, seed, **{"dropout": 0.0, **options})


def build_loud(seed: int = 1, loudness: float = 1.0, **options):
    """A tiny evolving model whose convolutions dominate its logits, so that one wrong tap shows in the output."""
    return make_loud(build(seed=seed, **{**TINY, "ea_alpha": 0.5, "ea_beta": 0.5, **options}), loudness)


@torch.no_grad()
def make_loud(model, loudness: float = 1.0):
    for name, parameter in model.named_parameters():
        if name.endswith("conv.weight"):
            parameter.normal_(std=loudness)
        elif name.endswith("conv.bias"):
            parameter.normal_(std=0.1 * loudness)
        elif ".learned." in name or name.endswith(".sinks"):
            parameter.normal_()
        elif name.endswith(".mixing"):  # of heads, the first half of which is divided by its size
            parameter.normal_(std=0.1)
            parameter[:, 0] *= 10
        elif "_proj.weight" in name:
            parameter.mul_(2.0)
        elif ".terms." in name and not parameter.any():  # a term that starts as nothing
            parameter.normal_(std=loudness)
    return model


@torch.no_grad()
def make_varied(model):
    """Lets a loud model seldom repeat a word, so that it ends its sentences at different lengths."""
    model.decoder.output_projection.weight -= 3 * model.decoder.embed_tokens.weight
    return model


def random_tokens(generator: torch.Generator, sentences: int, length: int) -> torch.Tensor:
    """(sentences, length) words, none of them special, on torch's default device."""
    words = torch.randint(4, VOCABULARY, (sentences, length), generator=generator, device=generator.device)
    return words.to(torch.get_default_device())
