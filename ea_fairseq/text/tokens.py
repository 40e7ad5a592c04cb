"""Tokens of raw lines, and raw lines of tokens again, by Moses' rules or by none."""

from collections.abc import Callable


def make_tokenizer(
    tokenizer: str, language: str, normalize: bool, dash_splits: bool, lowercase: bool
) -> Callable[[str], str]:
    """A function from a tidied line to its tokens, separated by single spaces.

    Args:
        tokenizer: "moses", or "none" for text that is tokenized already.
        language: an ISO code.
        normalize, dash_splits: of Moses, see :func:`make_moses_tokenizer`.
    """
    from ea_fairseq.text.moses_port import lowercase_as_perl, make_moses_tokenizer

    if tokenizer == "moses":
        tokenize = make_moses_tokenizer(language, normalize, dash_splits, lowercase)
    else:
        tokenize = lowercase_as_perl if lowercase else str
    return lambda line: " ".join(tokenize(line).split())


def make_detokenizer(tokenizer: str, language: str) -> Callable[[str], str]:
    """A function from tokens, separated by spaces, to raw text."""
    if tokenizer == "none":
        return str
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(language)
    return lambda tokens: detokenizer.detokenize(tokens.split())
