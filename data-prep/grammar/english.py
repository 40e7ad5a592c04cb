"""English inflection: plurals, articles, comparatives and verb groups.

Persons are named by the German pronouns: "ich", "du", "er", "wir" and "sie" (they).
"""

IRREGULAR_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "mouse": "mice",
    "sheep": "sheep",
    "knife": "knives",
    "shelf": "shelves",
    "scarf": "scarves",
}
IRREGULAR_VERBS = {
    line.split()[0]: line.split()[1:]
    for line in """
    be was been
    do did done
    have had had
    sleep slept slept
    sing sang sung
    swim swam swum
    ride rode ridden
    sit sat sat
    lie lay lain
    become became become
    say said said
    shine shone shone
    get got gotten
    wake woke woken
    fall fell fallen
    come came come
    go went gone
    run ran run
    buy bought bought
    sell sold sold
    eat ate eaten
    drink drank drunk
    read read read
    write wrote written
    cut cut cut
    find found found
    lose lost lost
    forget forgot forgotten
    see saw seen
    hear heard heard
    know knew known
    meet met met
    catch caught caught
    build built built
    wear wore worn
    understand understood understood
    bring brought brought
    put put put
    take took taken
    throw threw thrown
    give gave given
    send sent sent
    show showed shown
    lend lent lent
    tell told told
    think thought thought
    drive drove driven
    fly flew flown
    feed fed fed
    cost cost cost
    """.strip().splitlines()
}
PRONOUNS = {
    "nom": {"ich": "I", "du": "you", "er": "he", "sie1": "she", "wir": "we", "sie": "they"},
    "acc": {"ich": "me", "du": "you", "er": "him", "sie1": "her", "wir": "us", "sie": "them"},
}
AUXILIARIES = {"be", "will", "can", "could", "should", "would", "have-aux"}
BE = {
    "present": {"ich": "am", "du": "are", "er": "is", "wir": "are", "sie": "are"},
    "past": {"ich": "was", "du": "were", "er": "was", "wir": "were", "sie": "were"},
}


def plural(noun: str) -> str:
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if noun in ("potato", "tomato"):
        return noun + "es"
    return add_s(noun)


def add_s(word: str) -> str:
    """The -s of plurals and of the third person: boys, cities, watches, goes."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) or word in ("go", "do") else "s")


def with_article(phrase: str) -> str:
    """The phrase with "a" or "an", by its first sound."""
    vowel = phrase[0] in "aeiouAEIOU" and not phrase.startswith(("uni", "use", "eu"))
    return f"{'an' if vowel else 'a'} {phrase}"


def comparative(adjective: str) -> str:
    syllables = sum(
        letter in "aeiouy" and (index == 0 or adjective[index - 1] not in "aeiouy")
        for index, letter in enumerate(adjective.removesuffix("e"))
    )
    if adjective.endswith("y") and syllables == 2:
        return adjective[:-1] + "ier"
    if syllables > 1 and adjective not in ("quiet", "simple"):
        return "more " + adjective
    return doubled(adjective).removesuffix("e") + "er"


def doubled(word: str) -> str:
    """The word with its last consonant doubled where an ending asks for it: swim, swimm-ing; big, bigg-er."""
    stem_vowels = sum(letter in "aeiou" for letter in word)
    short = len(word) > 2 and stem_vowels == 1 and word[-2] in "aeiou" and word[-1] not in "aeiouwxy"
    return word + word[-1] if short or word == "forget" else word


def progressive(verb: str) -> str:
    ends_in_e = verb.endswith("e") and not verb.endswith("ee")
    return (verb[:-1] if ends_in_e and verb != "be" else doubled(verb)) + "ing"


def past(verb: str) -> str:
    if verb in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[verb][0]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "d" if verb.endswith("e") else doubled(verb) + "ed"


def participle(verb: str) -> str:
    return IRREGULAR_VERBS[verb][1] if verb in IRREGULAR_VERBS else past(verb)


def finite(verb: str, tense: str, person: str) -> str:
    """The finite form of a verb or auxiliary, "present" or "past"."""
    if verb == "be":
        return BE[tense][person]
    if verb == "have-aux":
        verb = "have"
    elif verb in AUXILIARIES:
        return verb
    if tense == "past":
        return past(verb)
    if verb == "have":
        return "has" if person == "er" else "have"
    return add_s(verb) if person == "er" else verb
