"""Calls of attentions, right ones and wrong ones, drawn at random: kernels must do with each what plain PyTorch does.

As a program, it makes many of them, for the tests that run it in a process of their own: its arguments are the number
of cases and the instruction sets to choose from.
"""

import sys
from collections import Counter
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from backend_comparison import compare, outcome
from drawn_case import Case
from ea_fairseq.kernels.cpu import native_library
from ea_fairseq.kernels.masks import MASKED_FROM
from ea_fairseq.kernels.window import WINDOWS
from evolution_cases import MIXES


def blank_of(masks: dict[str, Tensor | None], size: tuple[int, ...]) -> Tensor:
    """(B, 1, T, S), true where the masks leave nothing."""
    sentences, _, queries, keys = size
    blank = torch.zeros(sentences, 1, queries, keys, dtype=torch.bool)
    if masks.get("key_padding_mask") is not None:
        blank = blank | masks["key_padding_mask"].bool()[:, None, None, :]
    if masks.get("query_padding_mask") is not None:
        blank = blank | masks["query_padding_mask"].bool()[:, None, :, None]
    if masks.get("attn_mask") is not None:
        mask = masks["attn_mask"]
        blank = blank | (mask if mask.dtype is torch.bool else mask <= MASKED_FROM)
    return blank


def training(case: Case) -> str:
    """An attention forward and backward; returns what it came to."""
    kind = case.choose.choice(list(WINDOWS))
    dtype = torch.float32 if case.often(0.7) else torch.bfloat16
    attention = case.attention(kind, dtype)
    heads, width = attention.num_heads, attention.embed_dim
    sentences, queries = case.size(3), case.size(20)
    keys = case.size(40) if kind == "cross" else queries
    inputs = {"query": case.normal(queries, sentences, width, dtype=dtype)}
    inputs["key"] = inputs["value"] = (
        inputs["query"] if kind != "cross" else case.normal(keys, sentences, width, dtype=dtype)
    )
    if kind == "cross" and case.often(0.3):
        inputs["value"] = case.normal(keys, sentences, width, dtype=dtype)
    if case.often(0.7):
        inputs["previous"] = case.normal(sentences, heads, queries, keys, dtype=dtype)
    masks = {}
    if case.often(0.6):
        masks["key_padding_mask"] = case.mask(sentences, keys)
    if case.often(0.6):
        masks["query_padding_mask"] = case.mask(sentences, queries)
    if kind == "decoder" or case.often(0.1):
        masks["attn_mask"] = case.attn_mask(queries, keys)
    if case.often(0.35):  # a mistake, or sizes that PyTorch spreads
        of = case.choose.choice([inputs, masks]) if masks else inputs
        name = case.choose.choice(list(of))
        of[name] = (case.retyped if name == "previous" and case.often(0.3) else case.resized)(of[name])
    masks = {name: case.relaid(mask) if name == "attn_mask" else case.as_mask(mask) for name, mask in masks.items()}
    leaves = {id(tensor): case.relaid(tensor) for tensor in inputs.values()}
    inputs = {name: leaves[id(tensor)] for name, tensor in inputs.items()}
    leaves = [tensor.requires_grad_() for tensor in leaves.values() if tensor.is_floating_point()] + list(
        attention.parameters()
    )
    need_weights = case.often(0.3)
    exact, kinks, relu = dtype is torch.float32, [], F.relu

    def call():
        with mock.patch.object(F, "relu", lambda x: kinks.append((x.abs() < 1e-5).any()) or relu(x)):
            output, weights, (logits, _) = attention(**inputs, **masks, need_weights=need_weights)
        blank = blank_of(masks, logits.shape)
        wordless = blank.all(-1).any(1).T.unsqueeze(-1)
        results = [output.masked_fill(wordless, 0.0), logits.masked_fill(blank, 0.0)]
        if weights is not None:
            results.append(weights.masked_fill(wordless.transpose(0, 1), 0.0))
        value = sum(result.float().cos().sum() for result in results)
        gradients = torch.autograd.grad(value, leaves, allow_unused=True)
        # At ReLU's kink either gradient is right, and in bfloat16 many a unit is there.
        alike = exact and not any(kinks)
        return [*results, *(gradient if gradient is None or alike else gradient * 0 for gradient in gradients)]

    return compare(call, 1e-5 if exact else 0.05)


def decoding(case: Case) -> str:
    """Steps of an attention whose hypotheses change places, multiply and end; returns what they came to."""
    is_cross = case.often(0.5)
    attention = case.attention("cross" if is_cross else "decoder").eval()
    width = attention.embed_dim
    most, keys, steps = case.size(5), case.size(30), case.choose.randint(1, 20)
    source = case.relaid(case.normal(keys, most, width)), case.relaid(case.normal(keys, most, width))
    source_padding = case.as_mask(case.mask(most, keys)) if case.often(0.6) else None
    mistaken = case.choose.randrange(steps) if case.often(0.35) else None
    calls, rows = [], most
    for step in range(steps):
        words = case.normal(1, rows, width)
        inputs = {"query": words}
        inputs["key"], inputs["value"] = source if is_cross else (words, words)
        if case.often(0.7):
            inputs["previous"] = case.normal(rows, attention.num_heads, 1, keys if is_cross else step + 1)
        if is_cross:
            inputs["key_padding_mask"] = source_padding
            inputs["query_padding_mask"] = case.mask(rows, 1) if case.often(0.5) else None
        elif case.often(0.3):
            inputs["key_padding_mask"] = case.mask(rows, 1)
        if case.often(0.1):
            inputs["attn_mask"] = case.attn_mask(1, keys if is_cross else step + 1)
        inputs = {name: tensor for name, tensor in inputs.items() if tensor is not None}
        if step == mistaken:
            name = case.choose.choice(list(inputs))
            retyped = name == "previous" and case.often(0.3)
            inputs[name] = (case.retyped if retyped else case.resized)(inputs[name])
        relaid = {id(tensor): case.relaid(tensor) for tensor in inputs.values()}
        for name, tensor in inputs.items():
            inputs[name] = case.as_mask(tensor) if name.endswith("padding_mask") else relaid[id(tensor)]
        order = torch.randint(max(rows, 1), (max(case.size(8), 1),), generator=case.numbers)
        calls.append((inputs, order))
        rows = len(order)
    options = {"static_kv": is_cross, "need_weights": case.often(0.3)}
    sizes_that_spread = {(rows, columns) for rows in (1, most) for columns in (1, keys)}

    @torch.no_grad()
    def call():
        state, results = {}, []
        padded = torch.zeros(most, 0, dtype=torch.bool)
        if is_cross:
            padded = calls[0][0].get("key_padding_mask", torch.zeros(1, 1)).bool()
            padded = padded.expand(most, keys) if padded.shape in sizes_that_spread else padded
        for inputs, order in calls:
            found = outcome(lambda inputs=inputs: attention(incremental_state=state, **inputs, **options))
            if isinstance(found, Exception):
                return [*results, torch.tensor(len(results))] if results else found
            output, weights, (logits, _) = found
            # What a step gives of padding, and passes on of padded keys, means nothing.
            words = torch.ones(output.size(1), dtype=torch.bool)
            if "query_padding_mask" in inputs:
                words &= ~inputs["query_padding_mask"].bool().expand(len(words), 1)[:, 0]
            if not is_cross:
                new = inputs.get("key_padding_mask", torch.zeros(len(words), 1)).bool().expand(len(words), 1)
                padded = torch.cat([padded, new], 1)
            results += [output[:, words]] + ([] if weights is None else [weights[words]])
            if attention.evolution.alpha > 0:
                results.append(logits.masked_fill(padded[:, None, None], 0.0)[words])
            padded = padded[order]
            attention.reorder_incremental_state(state, order)
        return results

    return compare(call, 1e-5)


def operators(case: Case) -> str:
    """An operator of torch, forward and backward, called with what is right, or with one argument that is not."""
    heads, kernel, width = case.choose.choice([1, 2, 4, 5]), case.choose.choice([1, 3, 5]), case.choose.randint(1, 9)
    sentences, queries, keys = case.size(3), case.size(20), case.size(40)
    whole, alone = case.often(0.5), case.often(0.5)
    if whole and alone:
        keys = queries
    dtype = torch.float32 if whole or case.often(0.5) else torch.bfloat16
    maps = sentences, heads, queries, keys
    inputs = {}
    if whole:
        inputs["query"] = case.normal(queries, sentences, (3 if alone else 1) * heads * width)
        inputs["memory"] = None if alone else case.normal(keys, sentences, 2 * heads * width)
    else:
        inputs["scores"] = case.normal(*maps, dtype=dtype)
    has_skip, convolved, is_learned = case.often(0.5), case.often(0.7), case.often(0.5)
    inputs["previous"] = case.normal(*maps, dtype=dtype) if has_skip else None
    by_word = case.often(0.3)
    weights = maps[:3] if by_word else (heads,)
    mix = case.normal(2, *weights) if by_word else torch.tensor([case.choose.choice(MIXES) for _ in range(heads)]).T
    inputs["mix"] = mix if has_skip else None
    inputs["weight"] = case.normal(heads, heads, kernel, kernel) if convolved else None
    inputs["bias"] = case.normal(heads) if convolved else None
    inputs["beta"] = case.normal(*weights) if convolved else None
    inputs["padded_keys"] = case.mask(sentences, keys) if case.often(0.5) else None
    inputs["padded_queries"] = case.mask(sentences, queries) if case.often(0.5) else None
    inputs["future"] = case.mask(queries, keys) if case.often(0.5) else None
    scalars = {"heads": heads} if whole else {}
    above, left = (case.choose.randrange(kernel) for _ in range(2))
    scalars |= {"scale": 0.7, "above": above, "left": left}
    forward, backward = (
        getattr(torch.ops.ea_fairseq, ("attend" if whole else "evolve") + end) for end in ("", "_backward")
    )

    outputs = forward(**inputs, **scalars)
    kept = ("logits", "logsumexp", "relu_mask") if whole else ("probabilities", "conv_input", "relu_mask")
    differentiated = ("d_attended", "d_logits") if whole else ("d_logits", "d_probabilities")
    given = {
        name: case.normal(*output.shape, dtype=dtype) for name, output in zip(differentiated, outputs, strict=False)
    }
    given |= dict(zip(kept, outputs[1:], strict=True))
    if whole:
        given["is_learned"] = is_learned
    gradients = backward(**given, **read_again(inputs, is_learned), **scalars)

    of = case.choose.choice([inputs, given, scalars])
    name = case.choose.choice(list(of))
    right, kind = of[name], case.choose.choice(["right", "size", "type"])
    if of is scalars and kind != "right" and name in ("heads", "above", "left"):
        scalars[name] = case.choose.choice([-1, 0, right + 1, 100])
    elif torch.is_tensor(right) and kind != "right":
        of[name] = (case.resized if kind == "size" else case.retyped)(right)
    relaid = [
        {key: case.relaid(tensor) if torch.is_tensor(tensor) else tensor for key, tensor in tensors.items()}
        for tensors in (inputs, given, read_again(inputs, is_learned))
    ]
    wrong = is_wrong(name, right, of[name], inputs["weight"])
    calls = []
    if of is not given:
        calls.append((outputs, outcome(lambda: forward(**relaid[0], **scalars))))
    if name not in ("scores", "previous") or whole:
        calls.append((gradients, outcome(lambda: backward(**relaid[1], **relaid[2], **scalars))))
    for expected, found in calls:
        if kind == "right" or of[name] is right:
            assert not isinstance(found, Exception), repr(found)
            assert all(map(torch.equal, found, expected))
        elif wrong:
            assert isinstance(found, Exception), f"{name} of {right} may not be {of[name]}"
    return "refused" if any(isinstance(found, Exception) for _, found in calls) else "kernels"


def read_again(inputs: dict[str, Tensor | None], is_learned: bool) -> dict[str, Tensor | None]:
    """What an operator's backward pass reads of what its forward pass has read."""
    if "scores" not in inputs or is_learned:
        return inputs
    return {name: tensor for name, tensor in inputs.items() if name != "scores"} | {"scores": None, "previous": None}


def is_wrong(name: str, right, other, weight: Tensor | None) -> bool:
    """Whether an argument must be refused; those that say themselves what size the others have may or may not."""
    if torch.is_tensor(right):
        if name in ("query", "memory", "scores", "probabilities"):
            return False
        is_mask = name in ("padded_keys", "padded_queries", "future")
        return other.shape != right.shape or (other.dtype != right.dtype and not is_mask)
    kernel = 0 if weight is None else weight.size(-1)
    return name in ("above", "left") and weight is not None and not 0 <= other < kernel


KINDS = {training: 3, decoding: 2, operators: 2}


def check(seed: int, instructions: str) -> str:
    """Draws a case and checks it with the kernels of an instruction set; returns its kind and what came of it.

    Raises:
        AssertionError: where native code does not do what it should.
    """
    case = Case(seed)
    (kind,) = case.choose.choices(list(KINDS), KINDS.values())
    with (
        mock.patch.object(native_library, "instruction_set", lambda: instructions),
    ):
        return f"{kind.__name__}: {kind(case)}"


def main(count: int, *instructions: str) -> None:
    """Checks many cases and prints what came of them."""
    found = Counter()
    for seed in range(count):
        try:
            found[check(seed, instructions[seed % len(instructions)])] += 1
        except BaseException:
            print(f"seed {seed}", file=sys.stderr)
            raise
    for name, number in sorted(found.items()):
        print(f"{number:6d} {name}")
    print(f"{found.total():6d} cases")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
