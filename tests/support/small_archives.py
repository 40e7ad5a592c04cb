"""Small archives in the formats, and with the folders and names, of the archives that the preparations download."""

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

VOCABULARIES = {
    "cs": "Dům vlak řeka žena rychle čte píše malý krásný město dnes česko-polský most",
    "de": "Haus Zug Fluss Frau schnell liest schreibt klein schön Straße heute S-Bahn über",
    "en": "house train river woman quickly reads writes small lovely street today well-known bridge",
    "es": "casa tren río mujer rápido lee escribe pequeño hermosa señor hoy franco-español puente",
    "fr": "maison train fleuve femme vite lit écrit petit belle garçon aujourd\u2019hui dix-sept pont",
}
WORDS = {language: words.split() for language, words in VOCABULARIES.items()}
QUIRKS = (
    "{}.",
    "{}!",
    "{}, don\u2019t you?",
    "“{}”",
    "„{}“, says Dr. Who [1]",
    "«{}» e.g. in the U.S.",
    "\"{}\" is not 'it'",
    "R&D: {} ...",
    "{} | a < b > c…",
    "{} -- 3,5 % (1999)",
    "No. 5: {}, 1.000,5 or 1,000.5. ",
    "\t{}\xa0%\u00ad\u200b .\r",
    "\x80{}\x9f\x85x\u2028y",
    "Is it {}?",
)
TEST_SETS = ("TED.dev2010", "TED.tst2010", "TED.tst2011", "TED.tst2012", "TEDX.dev2012")
SENTENCES_A_TALK = 10


def sentence(language: str, key: str) -> str:
    """A sentence that no other key has, about as long in every language."""
    chance = random.Random(key)
    indices = [chance.randrange(len(WORDS["en"])) for _ in range(chance.randint(3, 24))]
    words = " ".join(WORDS[language][index] for index in indices)
    return chance.choice(QUIRKS).format(f"{words} {key.replace(' ', '-')}")


def training_sentence(language: str, key: str, number: int) -> str:
    """A sentence for training: of forty pairs, one has an empty side, one is too long, and two are ill matched.

    The English side of the latter is 1.6 and 1.5 times as long as the other.
    """
    text = sentence(language, f"{key} {number}")
    name = f"{key} {number}".replace(" ", "-")
    match number % 40:
        case 7:
            return "" if language == "en" else text
        case 17:
            return f"{text} " + " ".join(WORDS[language] * 30)
        case 27:
            return " ".join([WORDS[language][0]] * (63 if language == "en" else 39) + [name])
        case 37:
            return " ".join([WORDS[language][0]] * (59 if language == "en" else 39) + [name])
    return text


def training_text(language: str, key: str, size: int) -> bytes:
    return as_lines(training_sentence(language, key, number) for number in range(size))


def held_out_text(language: str, key: str, size: int) -> bytes:
    return as_lines(sentence(language, f"{key} {number}") for number in range(size))


def as_lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def talks_for_training(language: str, size: int) -> bytes:
    """train.tags: of every talk, its address, what is said in it, and what is said of it."""
    lines = []
    for number in range(size):
        if number % SENTENCES_A_TALK == 0:
            lines.append(f"<url>http://www.example.org/talks/lang/{language}/{number}.html</url>")
        lines.append(training_sentence(language, "talk", number))
        if number % SENTENCES_A_TALK == SENTENCES_A_TALK - 1 or number == size - 1:
            lines.append(f"<talkid>{number}</talkid>")
            lines.append(f"<title>{sentence(language, f'title {number}')}</title>")
            lines.append(f"<description>{sentence(language, f'description {number}')}</description>")
            lines.append("<keywords>art,language,travel</keywords>")
    return as_lines(lines)


def talks_for_testing(language: str, name: str, size: int) -> bytes:
    """IWSLT14.TED*.xml: nearly XML, whose ampersands are left as they are."""
    kind = 'srcset setid="iwslt2014" srclang="german"' if language == "de" else 'refset setid="iwslt2014" refid="ref"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<mteval>", f"<{kind}>"]
    for number in range(size):
        if number % SENTENCES_A_TALK == 0:
            lines += ["</doc>"] * (number > 0)
            lines.append(f'<doc docid="{number}" genre="lectures">')
            lines.append(f"<url>http://www.example.org/{number}.html</url>")
            lines.append("<description> NA </description>")
            lines.append("<keywords>art,language,travel</keywords>")
            lines.append(f"<talkid>{number}</talkid>")
            lines.append(f"<title>{sentence(language, f'{name} title {number}')}</title>")
        text = sentence(language, f"{name} {number}")
        lines.append(f'<seg id="{number % SENTENCES_A_TALK + 1}"> {text} </seg>')
    return as_lines([*lines, "</doc>", f"</{kind.split()[0]}>", "</mteval>"])


def news_for_testing(language: str, name: str, kind: str, size: int) -> bytes:
    """newstest*.sgm: `src` or `ref`, with entities."""
    lines = [f'<{kind}set setid="{name}" srclang="any">']
    for number in range(size):
        if number % SENTENCES_A_TALK == 0:
            lines += ["</doc>"] * (number > 0)
            lines.append(f'<doc docid="{number}-example.org" genre="news" origlang="en">')
        text = escape(sentence(language, f"{name} {number}"), quote=False)
        lines.append(f'<seg id="{number % SENTENCES_A_TALK + 1}">{text}</seg>')
    return as_lines([*lines, "</doc>", f"</{kind}set>"])


def iwslt14(train: int, test: int) -> dict[str, bytes]:
    """de-en.tgz."""
    members = {"de-en/README": b"small talks\n", "de-en/train.en": training_text("en", "monolingual", 3)}
    for language in ("de", "en"):
        members[f"de-en/train.tags.de-en.{language}"] = talks_for_training(language, train)
        for name in TEST_SETS:
            members[f"de-en/IWSLT14.{name}.de-en.{language}.xml"] = talks_for_testing(language, name, test)
    return members


def with_english(others: str, prefix: str, key: str, train: int) -> dict[str, bytes]:
    """Pairs of English and each of the others, as prefix.xx-en.xx and prefix.xx-en.en."""
    return {
        f"{prefix}.{other}-en.{language}": training_text(language, f"{key} {other}", train)
        for other in others.split()
        for language in (other, "en")
    }


def europarl(train: int, test: int) -> dict[str, bytes]:
    """training-parallel-europarl-v7.tgz."""
    return with_english("cs de es fr", "training/europarl-v7", "europarl", train)


def commoncrawl(train: int, test: int) -> dict[str, bytes]:
    """training-parallel-commoncrawl.tgz."""
    members = with_english("cs de es fr", "commoncrawl", "crawl", train)
    for other in ("cs", "de", "es", "fr"):
        members[f"commoncrawl.{other}-en.annotation"] = as_lines(f"{other} {number}" for number in range(train))
    return members


def news_commentary(train: int, test: int) -> dict[str, bytes]:
    """training-parallel-nc-v9.tgz."""
    return with_english("cs de fr", "training/news-commentary-v9", "news", train)


def later_news_commentary(train: int, test: int) -> dict[str, bytes]:
    """training-parallel-nc-v12.tgz."""
    return with_english("cs de", "training/news-commentary-v12", "later news", train)


def united_nations(train: int, test: int) -> dict[str, bytes]:
    """training-parallel-un.tgz."""
    return with_english("es fr", "un/undoc.2000", "un", train)


def giga(train: int, test: int) -> dict[str, bytes]:
    """training-giga-fren.tar."""
    return {
        f"giga-fren.release2.fixed.{language}.gz": gzip.compress(training_text(language, "giga", train), mtime=0)
        for language in ("en", "fr")
    }


def news_of_the_past(train: int, test: int) -> dict[str, bytes]:
    """dev.tgz of 2019."""
    members = {}
    for year in ("2012", "2013"):
        for language in WORDS:
            members[f"dev/newstest{year}.{language}"] = held_out_text(language, f"newstest{year}", test)
            for kind in ("src", "ref"):
                text = news_for_testing(language, f"newstest{year}", kind, test)
                members[f"dev/newstest{year}-{kind}.{language}.sgm"] = text
    return members | {f"dev/{path.split('/')[1]}": text for path, text in newstest2014(train, test).items()}


def newstest2014(train: int, test: int) -> dict[str, bytes]:
    """test-full.tgz."""
    return {
        f"test-full/newstest2014-{pair}-{kind}.{language}.sgm": news_for_testing(language, pair, kind, test)
        for pair in ("deen", "fren")
        for kind in ("src", "ref")
        for language in (pair[:2], "en")
    }


def multi30k(train: int, test: int) -> dict[str, bytes]:
    """The files of Multi30k, each an archive of its own."""
    return {
        f"{name}.{language}.gz": gzip.compress(held_out_text(language, f"caption {name}", size), mtime=0)
        for name, size in (("train", train), ("val", test), ("test_2016_flickr", test))
        for language in ("de", "en", "fr")
    }


ARCHIVES = {
    "de-en.tgz": iwslt14,
    "training-parallel-europarl-v7.tgz": europarl,
    "training-parallel-commoncrawl.tgz": commoncrawl,
    "training-parallel-nc-v9.tgz": news_commentary,
    "training-parallel-nc-v12.tgz": later_news_commentary,
    "training-parallel-un.tgz": united_nations,
    "training-giga-fren.tar": giga,
    "dev.tgz": news_of_the_past,
    "test-full.tgz": newstest2014,
}


def pack(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a .zip, .tar or .tgz, in the same bytes every time."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        return path
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    path.write_bytes(packed.getvalue() if path.suffix == ".tar" else gzip.compress(packed.getvalue(), mtime=0))
    return path


def write_archives(folder: Path, train: int = 120, test: int = 12) -> Path:
    """Write every archive: `train` pairs in each corpus and `test` in each test set."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in ARCHIVES.items():
        pack(folder / name, make(train, test))
    for name, data in multi30k(train, test).items():
        (folder / name).write_bytes(data)
    return folder
