"""The head of an LSTM and additive attention over words: by its equations, in batches, and in trainings."""

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from torch.profiler import profile

from ea_fairseq import EARobertaModel
from ea_fairseq.analysis.cost import count_encoder_macs
from ea_fairseq.errors import UserError
from ea_fairseq.models.pooled_head import HIDDEN, PooledHead
from encoders import PAD, TINY, build, classes, draw
from forked import run_forked, run_forked_well
from laws import assert_close
from reversal import losses_of
from sentence_data import PAIRS, binarize_sentences, encoder_command
from tiny import make_loud

PIECES = ["the", "##se", "film", "##s", "are", "dull"]
FLAGS = ["--classification-head", "pooled", "--freeze-encoder", "--pooler-activation-fn", "relu"]


def build_pooled(**options):
    model = build("ea_bert", **{**TINY, "classification_head": "pooled", "pooler_activation_fn": "relu", **options})
    torch.manual_seed(7)
    model.register_classification_head("head", num_classes=3)
    return make_loud(model)


def words_of_pieces() -> Dictionary:
    words = Dictionary()
    for piece in PIECES:
        words.add_symbol(piece)
    return words


def lstm_states(lstm, inputs, ending: str):
    """The states of one direction, a step after the other, by the equations of an LSTM."""
    weights = {name: getattr(lstm, f"{name}_l0{ending}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    state = cell = torch.zeros(HIDDEN, dtype=torch.float64)
    states = []
    for x in inputs:
        gates = weights["weight_ih"] @ x + weights["bias_ih"] + weights["weight_hh"] @ state + weights["bias_hh"]
        entry, forget, new, out = gates.split(HIDDEN)
        cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
        state = out.sigmoid() * cell.tanh()
        states.append(state)
    return states


@torch.no_grad()
def test_it_equals_its_equations_in_loops():
    torch.manual_seed(1)
    words = words_of_pieces()
    head = PooledHead(8, words, num_classes=3, activation_fn="relu", pooler_dropout=0.2).double().eval()
    tokens = words.encode_line("<s> the ##se film ##s are dull </s>", add_if_not_exist=False, append_eos=False).long()
    features, firsts = torch.randn(1, 8, 8, dtype=torch.float64), [1, 3, 5, 6]
    inputs = [features[0, place] for place in firsts]
    backward = lstm_states(head.lstm, inputs[::-1], "_reverse")[::-1]
    states = [torch.cat(both) for both in zip(lstm_states(head.lstm, inputs, ""), backward, strict=True)]
    query = head.query_proj.weight @ head.query
    hidden = [(query + head.key_proj.weight @ state).tanh() for state in states]
    scores = torch.stack([head.score_proj.weight[0] @ x for x in hidden])
    expected = torch.zeros(8, dtype=torch.float64).index_put((torch.tensor(firsts),), scores.softmax(0))
    pooled = sum(weight * state for weight, state in zip(scores.softmax(0), states, strict=True))
    inner = (head.dense.weight @ pooled + head.dense.bias).clamp(min=0)
    _, weights = head.pool(features, tokens.unsqueeze(0))
    assert_close(weights[0], expected, 1e-12)
    assert_close(head(features, tokens.unsqueeze(0))[0], head.out_proj.weight @ inner + head.out_proj.bias, 1e-12)


@torch.no_grad()
def test_a_text_without_words_is_read_at_its_first_token():
    head = PooledHead(8, words_of_pieces(), num_classes=2, activation_fn="relu", pooler_dropout=0.0)
    features, tokens = torch.randn(2, 3, 8), torch.tensor([[0, 2, 1], [0, 4, 2]])
    pooled, weights = head.pool(features, tokens)
    assert weights.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert_close(pooled[0], head.pool(features[:1, :1], torch.tensor([[4]]))[0][0], 1e-6)


def test_padding_and_other_texts_change_no_class():
    model, (_, tokens) = build_pooled(), draw(3)
    together = classes(model, tokens)
    assert together.std(dim=0).min() > 1e-3
    for row, text in enumerate(tokens):
        alone = text[text.ne(PAD)].unsqueeze(0)
        assert_close(together[row], classes(model, alone)[0], 1e-4)
        left = torch.cat([torch.full((1, 2), PAD), alone], dim=1)
        assert_close(together[row], classes(model, left)[0], 1e-4)
    assert classes(model.to(torch.bfloat16), tokens).isfinite().all()


def test_of_a_frozen_encoder_the_head_alone_gets_gradients():
    model, (_, tokens) = build_pooled(freeze_encoder=True).train(), draw(1)
    model(tokens, classification_head_name="head")[0].cos().sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == name.startswith("classification_heads."), name
    tuned = build_pooled().train()
    tuned(tokens, classification_head_name="head")[0].cos().sum().backward()
    assert tuned.encoder.sentence_encoder.layers[0].fc1.weight.grad.ne(0).any()


def test_under_autocast_a_frozen_encoder_copies_no_weights_for_each_token():
    model, (_, tokens) = build_pooled(freeze_encoder=True, ea_alpha=0.0, ea_beta=0.0), draw(1)
    with torch.autocast("cpu", torch.bfloat16), profile(record_shapes=True) as profiled:
        classes(model, tokens)
    width = TINY["encoder_embed_dim"]
    for event in profiled.events():
        assert event.name != "aten::bmm" or list(event.input_shapes[1]) != [tokens.size(1), width, width]


def test_its_multiplications_are_those_of_its_matrices():
    with_head, without = build_pooled(), build("ea_bert", **TINY)
    length, width = 7, TINY["encoder_embed_dim"]
    lstm = length * 2 * 4 * HIDDEN * (width + HIDDEN)
    attention = (length + 1) * (2 * HIDDEN) ** 2 + length * 2 * HIDDEN
    ends = length * 2 * HIDDEN + 2 * HIDDEN * HIDDEN + 3 * HIDDEN
    found = count_encoder_macs(with_head, length) - count_encoder_macs(without, length)
    assert found.total() == lstm + attention + ends


def test_a_checkpoint_of_another_head_is_tuned_with_a_new_one():
    model, other = build_pooled(), build("ea_bert", **TINY)
    other.register_classification_head("head", num_classes=3)
    before = model.classification_heads["head"].query.clone()
    model.load_state_dict(other.state_dict())
    assert torch.equal(model.classification_heads["head"].query, before)
    assert torch.equal(model.encoder.lm_head.bias, other.encoder.lm_head.bias)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return binarize_sentences(tmp_path_factory.mktemp("user"))


def train(home, folder: str, updates: int):
    """Trains the head alone; returns the loss of each update, and the parameters."""
    command = encoder_command("sentence_prediction", folder, updates, *FLAGS, arch="ea_bert_tiny")
    losses = losses_of(run_forked_well(*command, cwd=home))
    return losses, checkpoint_utils.load_checkpoint_to_cpu(str(home / folder / "checkpoint_last.pt"))["model"]


@pytest.fixture(scope="module")
def whole(home):
    """The losses of a training, whose checkpoint is in the folder of this name."""
    return train(home, "whole", 12)[0]


def test_fairseqs_command_trains_the_head_alone_and_goes_on(home, whole):
    (first, before), (rest, after) = train(home, "halves", 7), train(home, "halves", 12)
    assert whole[12] < whole[1]
    assert first | rest == whole
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in after if name.startswith("classification_heads.")}


@pytest.mark.usefixtures("whole")
def test_a_trained_one_is_loaded_from_its_folder(home):
    hub = EARobertaModel.from_pretrained(home / "whole", data_name_or_path=home / PAIRS)
    assert isinstance(hub.model.classification_heads[hub.head], PooledHead)
    pairs = [("a b", "c"), ("d e f g", "h a")]
    for one, together in zip(pairs, hub.predict(pairs), strict=True):
        assert hub.predict(*one).probabilities == pytest.approx(together.probabilities, abs=1e-5)


def test_an_encoder_is_not_frozen_if_nothing_else_is_trained(home):
    result = run_forked(*encoder_command("masked_lm", "refused", 1, "--freeze-encoder"), cwd=home)
    assert result.returncode == 1
    assert "--freeze-encoder leaves nothing to train" in result.stderr.splitlines()[-1]
    with pytest.raises(UserError, match=r"^--classification-head must be class_token or pooled, not 'mean'"):
        build_pooled(classification_head="mean")
