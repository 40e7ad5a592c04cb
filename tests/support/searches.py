"""Models whose beam search is varied, batches for it, and what must be equal of two searches."""

import torch
from fairseq.data.language_pair_dataset import collate

from tiny import SKIPS, TINY, build, build_loud, dictionary, make_varied, random_tokens, sizes

WORDS = dictionary()
T5_SCALES = {"no_scale_attention": True, "scale_logits": True}
MODELS = {
    "evolving": {},
    "all skips, kernel 5": {"ea_kernel_size": 5, **SKIPS},
    "kernel 1, norms first": {"ea_kernel_size": 1, "encoder_normalize_before": True, "decoder_normalize_before": True},
    "no convolution in the decoder": {"no_decoder_conv": True, "no_cross_conv": True, "decoder_skip": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True},
    "no positions": {"no_token_positional_embeddings": True, "no_scale_embedding": True},
    "three heads of 11": {**sizes(embed_dim=33, ffn_embed_dim=70, attention_heads=3), "layernorm_embedding": True},
    "learned weights": {"ea_learned": True, "no_cross_conv": True, **SKIPS},
    "weights by word": {"ea_learned": "input", **SKIPS},
    "weights by word, only convolutions": {"ea_learned": "input", "no_encoder_skip": True, "no_encoder_conv": True},
    "realformer": {"arch": "realformer", **TINY},
    "no convolution in the first layer": {"ea_start": "plain", **SKIPS},
    "off": {"ea_alpha": 0.0, "ea_beta": 0.0},
    "gates of heads": {"arch": "gated_attention", **sizes(embed_dim=44, ffn_embed_dim=20)},
    "gates of channels": {"arch": "gated_attention", "gate": "channel", **TINY},
    "sinks": {"arch": "sink_attention", **TINY},
    "sinks of one": {"arch": "sink_attention", "sink": "one", **TINY},
    "exclusive": {"arch": "exclusive_attention", **sizes(embed_dim=36, ffn_embed_dim=20)},
    "evolving and gates": {"arch": "ea_gated_attention", **TINY, **SKIPS},
    "evolving and exclusive": {"arch": "ea_exclusive_attention", **TINY, **SKIPS},
    "evolving by word and exclusive": {"arch": "ea_exclusive_attention", "ea_learned": "input", **TINY, **SKIPS},
    "value residual": {"arch": "value_residual", **sizes(embed_dim=36, ffn_embed_dim=20)},
    "evolving and value residual": {"arch": "ea_value_residual", **TINY, **SKIPS},
    "value residual and QK-norm, sides of two widths": {
        **TINY,
        "arch": "value_residual",
        "decoder_embed_dim": 12,
        "decoder_output_dim": 12,
        "qk_norm": True,
    },
    "modern": {"arch": "modern_transformer", **TINY},
    "modern, evolving, heads of 22": {
        **SKIPS,
        **sizes(embed_dim=44, ffn_embed_dim=70),
        "arch": "ea_modern_transformer",
    },
    "gates of T5, no biases, norms after": {"norm": "rms", "ffn": "geglu", "no_biases": True, **T5_SCALES},
    "QK-norm, layer norms without biases": {"qk_norm": True, "no_biases": True, "encoder_normalize_before": True},
    "padding before the first word": {"start_with_padding": True, "final_dropout": True},
    "rotary positions beside others": {"relative_positions": "rope", "encoder_learned_pos": True},
}


def model_of(name: str = "evolving"):
    """A model that seldom repeats a word and ends its sentences at different lengths, as for fairseq-generate."""
    options = MODELS[name]
    model = make_varied(build(**options) if "arch" in options else build_loud(**options))
    with torch.no_grad():
        model.decoder.output_projection.weight[WORDS.eos()] *= 4  # so that it is likely here and unlikely there
        for name, parameter in model.named_parameters():
            if name.endswith((".sinks", ".lambdas", "_input.weight")):
                parameter.normal_()
    model.make_generation_fast_(need_attn=False)
    return model


def batch(lengths: list[int], seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed)
    samples = [
        {"id": i, "source": torch.cat([random_tokens(generator, 1, length)[0], torch.tensor([WORDS.eos()])])}
        for i, length in enumerate(lengths)
    ]
    return collate(samples, WORDS.pad(), WORDS.eos(), left_pad_source=True)


def assert_same(found: list, expected: list, near: float = 1e-4) -> None:
    """Words are equal and scores close, but where two hypotheses score alike and have changed places."""
    assert [len(hypotheses) for hypotheses in found] == [len(hypotheses) for hypotheses in expected]
    for ours, theirs in zip(found, expected, strict=True):
        scores = (torch.stack([one["score"] for one in side]) for side in (ours, theirs))
        torch.testing.assert_close(*scores, atol=near, rtol=1e-5)
        gaps = torch.stack([one["score"] for one in theirs]).diff().abs()
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if all(gaps[max(place - 1, 0) : place + 1] > near):
                assert one["tokens"].tolist() == other["tokens"].tolist()
                torch.testing.assert_close(one["positional_scores"], other["positional_scores"], atol=near, rtol=1e-4)
                assert one.keys() == other.keys()
