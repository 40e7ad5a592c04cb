"""Any mechanism with any terms and convolutions: drawn pairs keep the laws, and pairs without a meaning are refused."""

import random

import pytest

from ea_fairseq.errors import UserError
from laws import LAWS
from mechanisms import ROWS, build_family
from model_checks import assert_equals_loops
from oracles_content import CONTENT_TERMS
from terms import TERMS

CONVOLUTIONS = {
    "depthwise convolution": {"depthwise_conv": True},
    "separable projections": {"conv_projections": "q,k,v"},
}
OPTIONS = TERMS | CONTENT_TERMS | CONVOLUTIONS
ALONE = [name for name in TERMS if name.endswith(" alone")]
ATTENTION_TYPES = ("multiplicative", "additive", "concatenative")
SYNTHESIZERS = ("dense", "random", "dense+dot", "random+dot")
REFUSED = {  # pairs by the sentence that they are refused with
    "both take the place of dot products: leave out one of them": [("synthesizer", name) for name in ATTENTION_TYPES],
    "leave out one of them": [
        *(("synthesizer", name) for name in ALONE),
        *(("quadratic_transformer", name) for name in SYNTHESIZERS),
    ],
    "must not have [qk], which these attentions do not read": [
        (family, "separable projections") for family in ("synthesizer", "quadratic_transformer")
    ],
    "pairs values, and --shaw-values adds embeddings to single ones": [("diff_transformer", "shaw and values")],
    "needs queries and keys, and these attentions do not have both": [
        (family, name)
        for family in ("depth_attention", "ea_depth_attention", "lime", "moda")
        for name in (*ALONE[:-1], "dense", "random")
    ],
}
PAIRS = [
    (family, name)
    for family in ROWS
    for name in OPTIONS
    if not any((family, name) in refused for refused in REFUSED.values())
]
DRAW = random.Random(1)
DRAWN = {pair for name in OPTIONS for pair in DRAW.sample([pair for pair in PAIRS if name in pair], 2)}
DRAWN |= {DRAW.choice([pair for pair in PAIRS if family in pair]) for family in ROWS}


@pytest.mark.parametrize(("family", "name"), sorted(DRAWN))
def test_a_pair_is_lawful(family, name, short_reach):
    seed = PAIRS.index((family, name))
    model = build_family(family, seed=seed, **OPTIONS[name])
    for law in LAWS:
        law(model, seed)


@pytest.mark.parametrize(("family", "name"), DRAW.sample(PAIRS, 24))
def test_a_pair_equals_loops(family, name):
    assert_equals_loops(build_family(family, **OPTIONS[name]), ROWS[family].oracle)


@pytest.mark.parametrize(
    ("sentence", "family", "name"), [(sentence, *pair) for sentence, pairs in REFUSED.items() for pair in pairs]
)
def test_a_pair_without_a_meaning_is_refused_in_a_sentence(sentence, family, name):
    with pytest.raises(UserError, match=sentence):
        build_family(family, **OPTIONS[name])
