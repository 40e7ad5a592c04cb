"""Tags: a token such as ``<news>`` in front of a source sentence says what kind of sentence it is.

A tag is a word of its own: it is neither tokenized nor segmented, and it is in the source dictionary.
"""

from ea_fairseq.plain.records import Tag

TAGS = "tags"  # the suffix of a file with the tag of each line
BACK_TRANSLATED = Tag("BT")  # of Caswell et al., "Tagged Back-Translation" (WMT 2019)


def tag_token(tag: str) -> str:
    """The token of a tag in the text and in the dictionary."""
    return f"<{tag}>"


def untagged(line: str, tags: list[Tag]) -> str:
    """Returns a line of tokens without the token of one of these tags at its beginning."""
    first, _, rest = line.partition(" ")
    return rest if first in map(tag_token, tags) else line
