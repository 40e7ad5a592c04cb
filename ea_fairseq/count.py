"""What the cost of a model is counted in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Count:
    """Parameters, and multiply-accumulates of one sentence pair as torchprofile counts them."""

    parameters: int = 0
    macs: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.parameters + other.parameters, self.macs + other.macs)

    def __mul__(self, times: int) -> "Count":
        return Count(self.parameters * times, self.macs * times)


def linear(inputs: int, outputs: int, words: int, bias: bool = True) -> Count:
    """A linear layer, applied to each of the words; adding the bias is no multiplication."""
    return Count((inputs + bias) * outputs, inputs * outputs * words)
