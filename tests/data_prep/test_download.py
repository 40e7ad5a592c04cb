"""ea_fairseq/data/archives.py, from a local server with the faults of real ones."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from downloads import FIRST, QUICK, SECOND, TGZ, ZIP, ZIPPED, Download, checksum
from ea_fairseq.data.archives import Place, accepted_checksums, download
from ea_fairseq.data.transfer import Patience
from ea_fairseq.errors import UserError
from mirror import RANGELESS, WEB_PAGE, Answer, Mirror, cut, failure, redirect, stall

with_and_without_size = pytest.mark.parametrize("size", [None, "-"], ids=["known size", "unknown size"])


def test_gives_the_first_place_and_says_so(corpus: Download, mirror: Mirror):
    corpus.places(FIRST, ZIPPED, algorithm="md5")
    corpus.assert_gave(corpus.run(), FIRST)
    assert corpus.source() == {
        "archive": "corpus",
        "file": "corpus.tgz",
        "address": mirror.url + FIRST,
        "size": len(TGZ),
        "checksum": checksum(TGZ),
        "accepted": False,
    }
    assert not (corpus.archive / "corpus.tgz").is_symlink()
    assert [visit.path for visit in mirror.visits] == [FIRST]


PASSING = {
    "cut": ([cut(100_000)], [None, 100_000]),
    "cuts, each after something new": ([cut(50_000)] * 5, [None, *range(50_000, 300_000, 50_000)]),
    "stall": ([stall(100_000)], [None, 100_000]),
    "stall before the first byte": ([stall(0)], [None, None]),
    "busy": ([failure(503), failure(429)], [None, None, None]),
    "Range is ignored": ([cut(100_000), RANGELESS], [None, 100_000]),
    "Range is refused": (
        [cut(100_000), failure(416), cut(150_000), failure(416)],
        [None, 100_000, None, 150_000, None],
    ),
    "another range": (
        [cut(100_000), Answer(206, {"Content-Range": "bytes 5-9/300000"}, b"wrong")],
        [None, 100_000, None],
    ),
    "redirect": ([redirect(SECOND)], [None]),
}


@with_and_without_size
@pytest.mark.parametrize("fault", PASSING)
def test_goes_on_after_faults_that_pass(corpus: Download, mirror: Mirror, size: str | None, fault: str):
    answers, starts = PASSING[fault]
    corpus.places(FIRST, size=size)
    mirror.plan(FIRST, *answers)
    corpus.assert_gave(corpus.run(DOWNLOAD_STALL="0.5" if "stall" in fault else "20"), FIRST)
    assert mirror.starts(FIRST) == starts


def test_goes_on_after_an_end_without_announced_length(corpus: Download, mirror: Mirror):
    mirror.plan(FIRST, cut(100_000, announced=False))
    corpus.assert_gave(corpus.run(), FIRST)
    assert mirror.starts(FIRST) == [None, 100_000]


def test_goes_on_behind_a_redirect(corpus: Download, mirror: Mirror):
    mirror.plan(FIRST, then=redirect(SECOND))
    mirror.plan(SECOND, cut(100_000))
    corpus.assert_gave(corpus.run(), FIRST)
    assert mirror.starts(SECOND) == [None, 100_000]


LASTING = {
    "missing": (failure(404), [None], "it answered 404 Not Found"),
    "forbidden": (failure(403), [None], "it answered 403 Forbidden"),
    "web page": (WEB_PAGE, [None], "it answered with a web page"),
    "redirect to a web page": (redirect("/login"), [None], "it answered with a web page"),
    "redirect without end": (redirect(FIRST), None, "it answered 302"),
    "wrong length": (Answer(length=299_999), [None], "its file has 299999 bytes, not 300000"),
    "too much": (Answer(body=bytes(300_001), announced=False), [None], "it sent more than 300000 bytes"),
    "busy": (failure(503), [None] * 3, "it answered 503 Service Unavailable"),
    "stall": (stall(0), [None] * 3, "it sent nothing for 0.2 s"),
    "other bytes": (
        Answer(body=bytes(300_000)),
        [None] * 2,
        f"expected {checksum(TGZ)}, found {checksum(bytes(300_000))}",
    ),
}


@pytest.mark.parametrize("fault", LASTING)
def test_goes_on_at_the_next_place(corpus: Download, mirror: Mirror, fault: str):
    answer, starts, reason = LASTING[fault]
    mirror.plan("/login", then=WEB_PAGE)
    mirror.plan(FIRST, then=answer)
    result = corpus.run(DOWNLOAD_STALL="0.2" if fault == "stall" else "20")
    corpus.assert_gave(result, ZIPPED)
    assert f"{mirror.url}{FIRST}: {reason}" in result.stdout
    assert mirror.starts(FIRST) == starts or starts is None


def test_same_cut_over_and_over_gives_way(corpus: Download, mirror: Mirror):
    mirror.plan(FIRST, *[cut(100_000), failure(416)] * 5)
    corpus.assert_gave(corpus.run(), ZIPPED)
    assert mirror.starts(FIRST) == [None, 100_000, None]


def test_server_that_is_not_there_gives_way(corpus: Download, mirror: Mirror):
    with Mirror() as gone:
        pass
    lines = corpus.table.read_text().split("\n")
    lines[1] = lines[1].replace(mirror.url, gone.url)
    corpus.table.write_text("\n".join(lines))
    result = corpus.run()
    corpus.assert_gave(result, ZIPPED)
    assert result.stdout.count("connection refused; trying again in") == 2


def test_no_place_left(corpus: Download, mirror: Mirror):
    mirror.plan(FIRST, then=failure(404))
    mirror.plan(ZIPPED, then=redirect(ZIPPED))
    places = (f"{mirror.url}{FIRST} (it answered 404 Not Found)", f"{mirror.url}{ZIPPED} (it answered 302 Found)")
    corpus.assert_refused(corpus.run(), "no place gives the archive corpus", *places, "--archives", "--mirror")


def test_wrong_checksum_can_be_accepted_knowingly(corpus: Download, mirror: Mirror):
    corpus.places(FIRST, size="-", algorithm="md5")
    mirror.files[FIRST] = ZIP
    accept = f"--accept corpus={checksum(ZIP)}"
    result = corpus.run()
    corpus.assert_refused(result, checksum(TGZ, "md5"), checksum(ZIP, "md5"), accept, mirror.url + FIRST)
    assert not corpus.parts()
    corpus.places(FIRST, algorithm="md5")
    assert corpus.run(*accept.split()).returncode == 0
    assert (corpus.archive / "corpus.tgz").read_bytes() == ZIP
    assert (corpus.source()["accepted"], corpus.source()["checksum"]) == (True, checksum(ZIP))


def test_only_the_accepted_checksum_counts(corpus: Download, mirror: Mirror):
    corpus.assert_gave(corpus.run("--accept", f"corpus={checksum(ZIP)}"), ZIPPED)
    assert mirror.starts(FIRST) == [None, None]


def test_places_of_the_same_bytes_go_on_for_each_other(corpus: Download, mirror: Mirror):
    corpus.places(FIRST, ZIPPED, SECOND)
    mirror.plan(FIRST, cut(100_000), then=failure(404))
    mirror.plan(ZIPPED, cut(70_000), then=failure(404))
    corpus.assert_gave(corpus.run(), SECOND)
    assert [mirror.starts(path) for path in (FIRST, ZIPPED, SECOND)] == [[None, 100_000], [None, 70_000], [100_000]]


@pytest.mark.parametrize("spoilt", [bytes(len(TGZ)), bytes(5), TGZ + b"more"], ids=["whole", "begun", "longer"])
@with_and_without_size
def test_spoilt_part_is_started_over(corpus: Download, spoilt: bytes, size: str | None):
    corpus.places(FIRST, size=size)
    corpus.begin(spoilt)
    corpus.assert_gave(corpus.run(), FIRST)


@with_and_without_size
def test_whole_part_is_not_fetched_again(corpus: Download, mirror: Mirror, size: str | None):
    corpus.places(FIRST, size=size)
    corpus.begin(TGZ)
    corpus.assert_gave(corpus.run(), FIRST)
    assert mirror.starts(FIRST) == ([300_000] if size else [])


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_download_goes_on(corpus: Download, mirror: Mirror, sign: signal.Signals):
    mirror.plan(FIRST, stall(100_000))
    process = subprocess.Popen(corpus.command(), env=os.environ | QUICK | {"DOWNLOAD_STALL": "60"})
    while not (corpus.parts() and corpus.parts()[0].stat().st_size >= 90_000):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(sign)
    assert process.wait() == (128 + sign if sign == signal.SIGINT else -sign)
    assert not corpus.archive.exists()
    corpus.assert_gave(corpus.run(), FIRST)
    assert 90_000 <= mirror.starts(FIRST)[1] <= 100_000


def test_full_disk_is_one_sentence(corpus: Download):
    corpus.begin(b"")
    part = corpus.parts()[0]
    part.unlink()
    part.symlink_to("/dev/full")
    corpus.assert_refused(corpus.run(), "No space left on device", str(part))


@pytest.mark.parametrize("prefix", ["", "/", "/copies", "/copies/"])
def test_mirror_replaces_every_host(corpus: Download, mirror: Mirror, prefix: str):
    corpus.host = "https://nowhere.invalid"
    corpus.places(FIRST, ZIPPED)
    path = prefix.rstrip("/") + ZIPPED
    mirror.files = {path: ZIP}
    result = corpus.run("--mirror", mirror.url + prefix)
    assert result.returncode == 0, result.stderr
    assert corpus.source()["address"] == mirror.url + path
    assert (corpus.archive / "corpus.zip").read_bytes() == ZIP


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--accept", "corpus"], "--accept needs NAME=sha256:CHECKSUM, not 'corpus'"),
        (["--accept", f"corpus={checksum(TGZ, 'md5')}"], "--accept needs NAME=sha256:CHECKSUM"),
        (["--accept", "corpus=sha256:12"], "--accept needs NAME=sha256:CHECKSUM, not 'corpus=sha256:12'"),
        (["--accept", f"korpus={checksum(TGZ)}"], "names the archive korpus, but the known archives are: corpus"),
        (
            ["--mirror", "www.statmt.org"],
            "needs an address such as https://host/folder, not 'www.statmt.org'",
        ),
        (["--archives", "/no such folder"], "there is no folder /no such folder"),
    ],
)
def test_wrong_flags_are_refused(corpus: Download, mirror: Mirror, flags: list[str], part: str):
    corpus.assert_refused(corpus.run(*flags), part)
    assert not mirror.visits


@pytest.mark.parametrize("value", ["many", "0", "-1", "nan", "1e9"])
@pytest.mark.parametrize("variable", [*QUICK, "DOWNLOAD_LARGEST"])
def test_wrong_patience_is_refused(monkeypatch, variable: str, value: str):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=f"{variable} must be a number above 0, not '{value}'"):
        Patience.from_environment()


def test_accepted_checksums_are_for_their_archives_only():
    table = {"a": [], "b": []}
    assert accepted_checksums([f"a={checksum(TGZ).upper().replace('SHA', 'sha')}"], table) == {"a": checksum(TGZ)}


faults = st.one_of(
    st.builds(cut, st.integers(0, 40), announced=st.booleans(), ranges=st.booleans()),
    st.builds(failure, st.sampled_from([404, 416, 429, 500, 503])),
    st.builds(Answer, body=st.binary(max_size=40), announced=st.booleans()),
    st.sampled_from([RANGELESS, WEB_PAGE]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(faults, max_size=8), st.booleans(), st.binary(max_size=45))
def test_what_comes_is_whole_whatever_the_faults(mirror: Mirror, tmp_path: Path, capsys, answers, sized: bool, begun):
    data = random.Random(3).randbytes(40)
    size = len(data) if sized else None
    places = [Place("x", size, checksum(data), f"{mirror.url}/{place}/x") for place in "ab"]
    for place in "ab":
        mirror.files[f"/{place}/x"] = data
        mirror.plan(f"/{place}/x", *(answers if place == "a" else []))
    (tmp_path / f"x.{checksum(data)[7:15]}.part").write_bytes(begun)
    archive = download(places, tmp_path, Patience(attempts=2, wait=1e-4, stall=5))
    assert archive.path.read_bytes() == data
    assert archive.sha256 == checksum(data)
