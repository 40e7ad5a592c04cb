"""A row for each term of own logits: the options that bring it, for the tests that hold for all of them."""

import oracles_positions  # noqa: F401  the terms' loops


def positions(name: str, **others) -> dict[str, object]:
    """Of --relative-positions; a family that has lightweight convolutions has none."""
    return {"relative_positions": name, "lightweight_conv": "none", **others}


def convolution(name: str, **others) -> dict[str, object]:
    """Of --lightweight-conv; a family that has relative positions has none."""
    return {"relative_positions": "none", "lightweight_conv": name, **others}


ALONE = {"no_content_scores": True}
TERMS = {
    "shaw": positions("shaw"),
    "shaw and values": positions("shaw", shaw_values=True, shaw_distance=2),
    "t5": positions("t5"),
    "composite": positions("composite"),  # --lightweight-conv composite is the same
    "quadratic": positions("quadratic"),
    "forget gates": {"forget_gates": True},
    "fixed convolution": convolution("fixed"),
    "dynamic convolution": convolution("dynamic"),
    "composite convolution and key": convolution("composite+key"),
    "shaw alone": positions("shaw", **ALONE),
    "t5 alone": positions("t5", **ALONE),
    "quadratic alone": positions("quadratic", **ALONE),
    "fixed convolution alone": convolution("fixed", **ALONE),
    "composite convolution and key alone": convolution("composite+key", **ALONE),
}
