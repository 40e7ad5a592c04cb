"""Which word of its sentence a query or a key is."""

from torch import Tensor

from ea_fairseq.attention.inputs import Inputs


def word_numbers(inputs: Inputs) -> tuple[Tensor, Tensor] | None:
    """The numbers of a self-attention's queries (B, T) and keys (B, S), counted from 0, padding left out.

    Of padding, the number is any. None where there is no padding: keys then are 0 to S - 1, queries the last T of them.
    """
    padded = inputs.masks.padded_keys
    if padded is None:
        return None
    keys = ((~padded).cumsum(dim=-1) - 1).clamp(min=0)
    return keys[:, keys.size(1) - inputs.size[2] :], keys
