"""German inflection: articles, adjective endings, nouns and verbs.

Cases are "nom", "acc" and "dat"; genders are the last letters of the article, "r", "e" and "s",
with "p" for the plural; persons are "ich", "du", "er", "wir" and "sie" (they).
"""

from .lexicon import Noun, Verb

DEFINITE = {
    "nom": {"r": "der", "e": "die", "s": "das", "p": "die"},
    "acc": {"r": "den", "e": "die", "s": "das", "p": "die"},
    "dat": {"r": "dem", "e": "der", "s": "dem", "p": "den"},
}
STRONG = {
    "nom": {"r": "er", "e": "e", "s": "es", "p": "e"},
    "acc": {"r": "en", "e": "e", "s": "es", "p": "e"},
    "dat": {"r": "em", "e": "er", "s": "em", "p": "en"},
}
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}
PRONOUNS = {
    "nom": {"ich": "ich", "du": "du", "er": "er", "sie1": "sie", "wir": "wir", "sie": "sie"},
    "acc": {"ich": "mich", "du": "dich", "er": "ihn", "wir": "uns"},
    "dat": {"ich": "mir", "du": "dir", "er": "ihm", "sie1": "ihr", "wir": "uns"},
}
REFLEXIVES = {"ich": "mich", "du": "dich", "er": "sich", "wir": "uns", "sie": "sich"}
IRREGULAR = {
    ("sein", "present"): ["bin", "bist", "ist", "sind", "sind"],
    ("sein", "past"): ["war", "warst", "war", "waren", "waren"],
    ("haben", "present"): ["habe", "hast", "hat", "haben", "haben"],
    ("haben", "past"): ["hatte", "hattest", "hatte", "hatten", "hatten"],
    ("werden", "present"): ["werde", "wirst", "wird", "werden", "werden"],
    ("wissen", "present"): ["weiß", "weißt", "weiß", "wissen", "wissen"],
    ("können", "present"): ["kann", "kannst", "kann", "können", "können"],
    ("müssen", "present"): ["muss", "musst", "muss", "müssen", "müssen"],
    ("wollen", "present"): ["will", "willst", "will", "wollen", "wollen"],
    ("dürfen", "present"): ["darf", "darfst", "darf", "dürfen", "dürfen"],
    ("sollen", "present"): ["soll", "sollst", "soll", "sollen", "sollen"],
    ("mögen", "wish"): ["möchte", "möchtest", "möchte", "möchten", "möchten"],
    ("können", "past"): ["konnte", "konntest", "konnte", "konnten", "konnten"],
    ("müssen", "past"): ["musste", "musstest", "musste", "mussten", "mussten"],
    ("wollen", "past"): ["wollte", "wolltest", "wollte", "wollten", "wollten"],
    ("dürfen", "past"): ["durfte", "durftest", "durfte", "durften", "durften"],
}
PERSONS = ["ich", "du", "er", "wir", "sie"]


def article(determiner: str, case: str, gender: str) -> str:
    """`determiner` inflected: "der", a stem that goes like it ("dies", "jed") or one like "ein" ("mein")."""
    if determiner == "der":
        return DEFINITE[case][gender]
    if determiner not in ("dies", "jed") and bare_ending(case, gender):
        return determiner
    return determiner + STRONG[case][gender]


def bare_ending(case: str, gender: str) -> bool:
    """Whether ein, kein and the possessives stand without an ending: ein Mann, ein Kind."""
    return (case, gender) in {("nom", "r"), ("nom", "s"), ("acc", "s")}


def adjective_ending(determiner: str | None, case: str, gender: str) -> str:
    """The ending of an attributive adjective after `determiner` (None: nothing that inflects)."""
    if determiner is None:
        return STRONG[case][gender]
    if determiner not in ("der", "dies", "jed") and bare_ending(case, gender):
        return STRONG[case][gender]
    if gender != "p" and (case == "nom" or (case == "acc" and gender != "r")):
        return "e"
    return "en"


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """A noun in its case and number, with the dative plural -n and the weak -(e)n."""
    if plural:
        takes_n = case == "dat" and not noun.plural.endswith(("n", "s"))
        return noun.plural + "n" if takes_n else noun.plural
    weak = "weak" in noun.classes and case != "nom"
    return noun.plural if weak else noun.german


def present(verb: Verb, person: str) -> str:
    """The present-tense form of the verb without its separable prefix."""
    if (verb.infinitive, "present") in IRREGULAR:
        return irregular(verb.infinitive, "present", person)
    if person in ("wir", "sie"):
        return verb.infinitive
    if person == "er":
        return verb.third
    if person == "ich":
        ends_in_ern = verb.infinitive.endswith("ern")
        return verb.infinitive[:-1] + "e" if ends_in_ern else verb.infinitive[:-2] + "e"
    stem = verb.third[:-1]
    return verb.third if stem.endswith(("s", "ß", "z")) else stem + "st"


def irregular(verb: str, tense: str, person: str) -> str:
    """A form of sein, haben, werden or a modal verb."""
    return IRREGULAR[verb, tense][PERSONS.index(person)]


def zu_infinitive(verb: Verb) -> str:
    """The infinitive with zu: zu lesen, aufzustehen."""
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
