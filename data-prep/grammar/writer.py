"""The writer: one sentence after another, each by a template drawn by chance."""

from collections.abc import Callable
from random import Random

from .compound import Compound
from .sentence import Sentence


class Writer(Compound):
    """Writes simple and compound sentences; the number beside a template is how often it is drawn."""

    def __init__(self, rng: Random):
        super().__init__(rng)
        self.templates: list[Callable[[], Sentence]] = []
        for template, weight in [
            (self.statement, 32),
            (self.yes_no_question, 9),
            (self.wh_question, 12),
            (self.reported, 10),
            (self.indirect_question, 5),
            (self.reason, 9),
            (self.meanwhile, 4),
            (self.purpose, 5),
            (self.relative_subject, 4),
            (self.relative_object, 4),
            (self.property, 6),
            (self.comparison, 4),
            (self.profession, 2),
            (self.existence, 5),
            (self.price, 2),
        ]:
            self.templates += [template] * weight

    def write(self) -> Sentence:
        return self.rng.choice(self.templates)()
