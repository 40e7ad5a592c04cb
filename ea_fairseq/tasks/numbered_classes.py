"""The dictionary of classes that fairseq's criterion ``sentence_prediction`` needs."""

from fairseq.data import Dictionary


def numbered_classes(count: int) -> Dictionary:
    """Returns a dictionary of class indices as text, which the criterion converts back to integers."""
    numbers = Dictionary()
    for number in range(count):
        numbers.add_symbol(str(number))
    return numbers
