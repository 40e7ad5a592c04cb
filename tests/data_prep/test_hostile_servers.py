"""ea_fairseq/data/archives.py, from servers that mean harm: it takes so much of them, and shows no escapes."""

from pathlib import Path

import pytest

from downloads import FIRST, TGZ, ZIPPED, Download
from mirror import Answer, Mirror, cut, drip, redirect

LARGEST = {"DOWNLOAD_LARGEST": "250000"}


@pytest.fixture
def mirror():
    with Mirror({FIRST: TGZ}) as mirror:
        yield mirror


@pytest.fixture
def corpus(tmp_path: Path, mirror: Mirror) -> Download:
    corpus = Download(tmp_path, mirror.url)
    corpus.places(FIRST)
    return corpus


UNKNOWN = {
    "announced": Answer(),
    "not announced": Answer(announced=False),
    "part of a whole of unknown size": Answer(206, {"Content-Range": "bytes 0-9/*"}, announced=False),
}


@pytest.mark.parametrize("answer", UNKNOWN.values(), ids=UNKNOWN)
def test_an_archive_of_unknown_size_is_no_larger_than_may_be(corpus: Download, mirror: Mirror, answer: Answer):
    corpus.places(FIRST, size="-")
    mirror.plan(FIRST, then=answer)
    corpus.assert_refused(corpus.run(**LARGEST), mirror.url + FIRST, "more than 250000 bytes", "DOWNLOAD_LARGEST")
    assert mirror.starts(FIRST) == [None] and not corpus.parts()
    mirror.plan(FIRST)
    corpus.assert_gave(corpus.run(DOWNLOAD_LARGEST="300000"), FIRST)


def test_an_archive_accepted_by_its_checksum_has_no_known_size(corpus: Download, mirror: Mirror):
    accept = ["--accept", f"corpus=sha256:{'0' * 64}"]
    corpus.assert_refused(corpus.run(*accept, **LARGEST), "more than 250000 bytes")


def test_a_byte_at_a_time_is_no_progress(corpus: Download, mirror: Mirror):
    corpus.places(FIRST)
    mirror.plan(FIRST, then=cut(1))
    corpus.assert_refused(corpus.run(), "it broke off after 3 of 300000 bytes")
    assert mirror.starts(FIRST) == [None, 1, 2]
    mirror.plan(FIRST)
    corpus.assert_gave(corpus.run(**LARGEST), FIRST)  # which is not for archives of known size
    assert mirror.starts(FIRST)[-1] == 3


def test_a_byte_now_and_then_is_a_standstill(corpus: Download, mirror: Mirror):
    mirror.plan(FIRST, then=drip(0.05))
    corpus.assert_refused(corpus.run(DOWNLOAD_STALL="0.2"), "it sent less than 10000 bytes in 0.2 s")
    assert len(mirror.starts(FIRST)) == 3 and corpus.parts()


PLACES = [
    "http://[",
    "http://[::1",
    "http://a..b/corpus.tgz",
    f"http://{'a' * 70}.invalid/x",
    "http://localhost:99999/x",
    "http://localhost:port/x",
    "file:///etc/passwd",
    "ftp://127.0.0.1:1/x",
    "gopher://x",
    "http://\xe4\x9b/",
    "/\x1b[2J",
    "//",
    "",
]


@pytest.mark.parametrize("address", PLACES)
def test_a_redirect_to_nowhere_gives_way(corpus: Download, mirror: Mirror, address: str):
    mirror.files[ZIPPED] = TGZ
    corpus.places(FIRST, ZIPPED, files={FIRST: TGZ, ZIPPED: TGZ})
    mirror.plan(FIRST, then=redirect(address))
    result = corpus.run()
    assert result.returncode == 0, result.stderr
    assert (corpus.archive / "corpus.zip").read_bytes() == TGZ
    assert result.stdout.replace("\n", "").isprintable()


ODD = {
    "long range": Answer(206, {"Content-Range": f"bytes {'1' * 5000}-9/{'9' * 5000}"}),
    "long length": Answer(headers={"Content-Length": "9" * 5000}, announced=False),
    "negative length": Answer(headers={"Content-Length": "-5"}, announced=False),
    "chunks of no size": Answer(headers={"Transfer-Encoding": "chunked"}, body=b"zz\r\n", announced=False),
    "chunks of less than none": Answer(headers={"Transfer-Encoding": "chunked"}, body=b"-5\r\nab\r\n", announced=False),
    "chunks without end": Answer(headers={"Transfer-Encoding": "chunked"}, body=b"f" * 70_000, announced=False),
    "many headers": Answer(headers={f"X-{number}": "x" for number in range(200)}),
    "long header": Answer(headers={"X": "x" * 70_000}),
    "odd reason": Answer(404, reason="\x1b[2J\x9b"),
    "odd reason of a redirect": Answer(302, {"Location": "file:///\x1b"}, b"", reason="\x1b[2J"),
    "odd type": Answer(headers={"Content-Type": "\x1b[2J; charset=\x9b"}),
    "another status": Answer(999),
    "no content": Answer(204),
}


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_odd_answers_are_refused_in_a_sentence(corpus: Download, mirror: Mirror, answer: Answer):
    corpus.places(FIRST, size="-")
    mirror.plan(FIRST, then=answer)
    result = corpus.run()
    assert (result.stdout + result.stderr).replace("\n", "").isprintable()
    if result.returncode:
        corpus.assert_refused(result, "no place gives the archive corpus")
        assert len(result.stderr) < 1000
    else:
        corpus.assert_gave(result, FIRST)
