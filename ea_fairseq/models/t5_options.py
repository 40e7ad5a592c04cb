"""Flags of T5s, in addition to those of other Transformers."""

from dataclasses import dataclass

from ea_fairseq.options import Options, Values, option, switch

KINDS = ("encoder", "decoder", "cross")


def kinds(text: str) -> str:
    """Parses kinds of attentions, separated by commas; raises ValueError for others."""
    if not {*text.split(",")} <= {*KINDS}:
        raise ValueError(text)
    return text


@dataclass(frozen=True)
class T5Options(Options):
    """Where a T5's mechanism acts, and whether embeddings and output projection share one table.

    Raises:
        UserError: naming the flag, if a value is invalid.
    """

    ea_in: str = option(
        "encoder",
        Values(kinds, "some of encoder, decoder and cross, with commas", "KINDS"),
        "attentions with the mechanism, others are plain: encoder, decoder (self-attentions), cross (encoder-decoder)",
    )
    untied_output: bool = switch("the output projection has its own weights instead of the embeddings")

    @property
    def kinds(self) -> list[str]:
        """The kinds of attentions with the mechanism."""
        return self.ea_in.split(",")
