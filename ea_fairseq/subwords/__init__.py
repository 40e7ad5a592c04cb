"""Subword models that fairseq does not have: ``--bpe NAME`` once the user-dir is imported."""

from ea_fairseq.subwords import wordpiece  # noqa: F401
