"""Subjects of clauses: persons or things, and the pronouns and possessives that take them up."""

from .phrases import Fixed, NounPhrase, Pronoun, Subject

OWNERS = {"ich": "mein", "du": "dein", "er": "sein", "sie1": "ihr", "wir": "unser"}


def thing(subject: Subject) -> bool:
    """Whether the subject is a noun phrase that names no person."""
    return isinstance(subject, NounPhrase) and "person" not in subject.noun.classes


def is_child(subject: Subject) -> bool:
    """Whether the subject is a noun phrase about somebody young."""
    return isinstance(subject, NounPhrase) and "young" in subject.noun.classes


def owner_of(subject: Subject) -> str | None:
    """The possessive that takes up the subject; None where it would be ambiguous or of no use."""
    key = subject.key if isinstance(subject, Pronoun) else pronoun_of(subject)
    return OWNERS.get(key)


def pronoun_of(subject: Subject) -> str | None:
    """The key of the pronoun that takes up the subject, or None where there is none."""
    if isinstance(subject, Pronoun):
        return subject.key
    if isinstance(subject, Fixed):
        return {"er": "er", "sie": "sie1"}.get(subject.pronoun)
    if not isinstance(subject, NounPhrase) or thing(subject):
        return None
    return "sie" if subject.plural else {"r": "er", "e": "sie1"}.get(subject.noun.gender)
