"""The formats of corpora: which sentence, if any, a line of a file holds."""

import re

from ea_fairseq.plain.text_lines import tidy

DROPPED = ("<url>", "<talkid>", "<keywords>")
REMOVED = ("<title>", "</title>", "<description>", "</description>")
SEGMENT = re.compile(r'\s*<seg id="[0-9]*">(.*)</seg>\s*', re.DOTALL)
SEGMENT_TAG = re.compile(r"<seg\b|</seg>")


class FormatError(Exception):
    """What is wrong with a line; the message is the end of a sentence that begins with the line's place."""


def read_line(line: str) -> str:
    """Plain text, one sentence a line."""
    return line


def read_tagged(line: str) -> str | None:
    """Training talks of IWSLT: the sentence on a line, titles and descriptions included; None for other metadata."""
    if any(tag in line for tag in DROPPED):
        return None
    for tag in REMOVED:
        line = line.replace(tag, "")
    return line


def read_segment(line: str) -> str | None:
    """Test sets in SGML: the text of the ``<seg>`` on a line; None for a line without one.

    Raises:
        FormatError: where the line has more or less than one whole segment, or an empty one.
    """
    if not SEGMENT_TAG.search(line):
        return None
    segment = SEGMENT.fullmatch(line)
    if segment is None or SEGMENT_TAG.search(segment[1]):
        raise FormatError('is not one whole segment, <seg id="N">...</seg>: put each on a line of its own.')
    if not tidy(segment[1]):
        raise FormatError("has an empty segment, and test sets keep every line: remove it from both languages.")
    return segment[1].replace("\u2019", "'")


FORMATS = {"lines": read_line, "tags": read_tagged, "segments": read_segment}
