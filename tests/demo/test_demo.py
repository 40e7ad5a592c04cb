"""The demo answers or refuses politely whatever a browser, or another machine, sends it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from commands import ROOT
from ea_fairseq.errors import UserError
from ea_fairseq.experiments.demo.demo import LOCAL, listen, main
from ea_fairseq.experiments.demo.pictures import Browser
from mapped_models import write_models
from needs import needs_browser

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

from ea_fairseq.experiments.demo.server import BUSY, KEPT, MOST_BYTES, WAITING, application  # noqa: E402
from ea_fairseq.experiments.demo.translators import Answer, Hypothesis, Translators  # noqa: E402

JSON = {"Content-Type": "application/json"}


@contextmanager
def serving(answer, hosts=(LOCAL, "localhost")):
    """A server of this process; yields its port."""
    config = uvicorn.Config(application(answer, {"models": ["a model"]}, list(hosts)), log_level="error")
    server, listening = uvicorn.Server(config), listen(LOCAL, 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


def shout(text: str) -> Answer:
    if not text:
        raise UserError("There is no word in this.")
    return Answer({"a model": [Hypothesis(text.upper(), -0.5)]}, ["ja"], f"<p>{len(text)}</p>")


def ask(port: int, method: str, path: str, body: bytes | None = None, headers=JSON):
    """Status, headers and body of an answer."""
    connection = HTTPConnection(LOCAL, port, timeout=30)
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def translate(port: int, text: object, **headers):
    status, _, body = ask(port, "POST", "/translate", json.dumps({"text": text}).encode(), {**JSON, **headers})
    return status, json.loads(body)


def test_a_sentence_is_translated_and_the_last_pages_are_kept():
    with serving(shout) as port:
        found = [translate(port, "ja <b>" + "!" * number) for number in range(KEPT + 1)]
        assert [status for status, _ in found] == [200] * len(found)
        assert found[0][1]["translations"] == [{"model": "a model", "hypotheses": [{"text": "JA <B>", "score": -0.5}]}]
        assert found[0][1]["unknown"] == ["ja"]
        pages = [ask(port, "GET", answer["attention"]) for _, answer in found]
        assert [status for status, *_ in pages] == [404, *[200] * KEPT]
        assert pages[-1][2] == f"<p>{6 + KEPT}</p>"
        assert "sandbox allow-scripts" in pages[-1][1]["Content-Security-Policy"]
        assert len({answer["attention"] for _, answer in found}) == len(found)


@pytest.mark.parametrize(
    ("body", "headers", "status", "sentence"),
    [
        (b'{"text": "a"}', {"Content-Type": "text/plain"}, 415, "Send JSON"),
        (b'{"text": ""}', {}, 400, "There is no word"),
        (b'{"text": 7}', {}, 400, "This is no text"),
        (b'{"text": "\\ud800"}', {}, 400, "This is no text"),
        (b"[" * 4000, {}, 400, "This is no text"),
        (b"\xff\xfe", {}, 400, "This is no text"),
        (b'{"text": "' + b"a" * MOST_BYTES + b'"}', {}, 400, "This is too long"),
    ],
)
def test_what_is_no_sentence_is_refused_in_one(body, headers, status, sentence):
    with serving(shout) as port:
        found, _, said = ask(port, "POST", "/translate", body, {**JSON, **headers})
        assert found == status and json.loads(said)["error"].startswith(sentence)
        assert translate(port, "a")[0] == 200


def test_other_names_and_paths_of_this_machine_are_refused():
    with serving(shout) as port:
        assert ask(port, "GET", "/", headers={"Host": f"localhost:{port}"})[0] == 200
        assert ask(port, "GET", "/", headers={"Host": "example.org"})[0] == 400
        for path in ("/../setup.py", "/attention/%2e%2e%2fsetup.py", "/demo.py", "/attention/other", "/translate/x"):
            assert ask(port, "GET", path)[0] in (400, 404)
        assert ask(port, "GET", "/translate")[0] == 405
        policy = ask(port, "GET", "/")[1]["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy


def test_fifty_at_once_are_answered_or_refused_and_one_is_translated_at_a_time():
    at_work, most = [], []

    def slow(text: str) -> Answer:
        at_work.append(text)
        most.append(len(at_work))
        time.sleep(0.05)
        at_work.remove(text)
        return shout(text)

    with serving(slow) as port, ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda number: translate(port, f"text {number}"), range(50)))
        assert max(most) == 1
        answered = [number for number, (status, _) in enumerate(found) if status == 200]
        assert len(answered) >= WAITING
        for number, (status, body) in enumerate(found):
            if number in answered:
                assert body["translations"][0]["hypotheses"][0]["text"] == f"TEXT {number}"
            else:
                assert (status, body) == (503, {"error": BUSY})
        assert translate(port, "again")[0] == 200


def test_a_connection_that_is_cut_harms_nothing():
    begun, go_on = threading.Event(), threading.Event()

    def waiting(text: str) -> Answer:
        begun.set()
        go_on.wait(10)
        return shout(text)

    with serving(waiting) as port:
        for sent in (b'{"text": "a"}', b'{"te'):  # a request that is whole, and one that is not
            connection = socket.create_connection((LOCAL, port))
            head = [
                "POST /translate HTTP/1.1",
                f"Host: {LOCAL}",
                "Content-Type: application/json",
                "Content-Length: 13",
            ]
            connection.sendall("\r\n".join([*head, "", ""]).encode() + sent)
            assert begun.wait(10)
            connection.close()
        go_on.set()
        assert translate(port, "b")[0] == 200


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Tiny models over text that Moses tokenizes, as it is for the released ones."""
    home = write_models(tmp_path_factory.mktemp("a home"))
    preparation = home / "data" / "preparation.json"
    preparation.write_text(json.dumps(json.loads(preparation.read_text()) | {"tokenizer": "moses"}))
    return home


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\u200b", "Source sentence 1 is empty: give it at least one word."),
        ("a \u00ad\ufeff" + "b" * 30, "Source sentence 1 has 32 tokens and the model reads at most 20: split it."),
        (" \n", "There is no word in this: type a sentence."),
    ],
)
def test_what_a_model_cannot_read_is_refused_in_a_sentence(home, text, sentence):
    with serving(Translators([home / "ea model"], cpu=True).answer) as port:
        assert translate(port, text) == (400, {"error": sentence})
        assert translate(port, "a")[0] == 200


@pytest.mark.parametrize(
    ("second", "flaw"),
    [
        ("other words model", "has another vocabulary than"),
        ("other languages model", "translates en-de, not de-en"),
    ],
)
def test_two_models_that_do_not_read_the_same_are_refused(home, second, flaw):
    with pytest.raises(UserError, match=rf"{second} {flaw}.*\.$"):
        Translators([home / "ea model", home / second], cpu=True)


def test_words_that_the_models_did_not_learn_are_named_once(home):
    sentence = "a z b-z, a \U0001f642"
    assert Translators([home / "ea model"], cpu=True).unknown(sentence) == ["z", "-", ",", "\U0001f642"]
    vocabulary = {"a", "z", "-"}
    assert Translators([home / "ea model"], True, vocabulary).unknown(sentence) == ["b", ",", "\U0001f642"]


def test_a_port_that_is_taken_is_told():
    taken, sentence = listen(LOCAL, 0), r"cannot listen on 127\.0\.0\.1, port \d+ .*: choose another with --port"
    with taken, pytest.raises(UserError, match=sentence):
        listen(LOCAL, taken.getsockname()[1])


def test_a_port_that_no_machine_has_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["demo", "--port", "70000"])
    with pytest.raises(SystemExit, match="--port needs a whole number of at most 65535, not 70000: see --help"):
        main()


@pytest.fixture(scope="module")
def demo():
    """The command with the released models; yields its port."""
    command = ["bash", ROOT / "scripts/demo.sh", "--port", "0", "--cpu"]
    process = subprocess.Popen(
        command, cwd="/", env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True
    )
    line = next(line for line in process.stdout if line.startswith("open http"))
    yield process, int(re.search(r"http://127\.0\.0\.1:(\d+) ", line)[1])
    process.send_signal(signal.SIGINT)
    assert process.wait(20) in (0, 130, -signal.SIGINT)


def memory_of(process: subprocess.Popen) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.slow
def test_five_hundred_sentences_take_no_more_memory_than_fifty(demo):
    process, port = demo
    sizes = []
    for number in range(500):
        status, found = translate(port, f"Der Arzt bringt Wein mit und sieht {number} Blumen.")
        assert status == 200 and len(found["translations"]) == 2
        if number in (50, 499):
            sizes.append(memory_of(process))
    assert sizes[1] < sizes[0] + 50e6


@pytest.mark.slow
@needs_browser
def test_a_reader_types_a_sentence_and_sees_its_translation_and_attention(demo):
    _, port = demo
    sentences = {
        "Sie sieht den Koch.": "She sees the cook.",
        "<script>window.owned = 1</script> \U0001f642": None,
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd": None,
    }
    with Browser() as browser:
        browser.open(f"http://{LOCAL}:{port}/")
        browser.wait_for("return document.getElementById('text').value !== ''")
        before = ""
        for text, expected in sentences.items():
            browser.run("document.getElementById('text').value = arguments[0]", text)
            browser.run("document.getElementById('translate').click()")
            shown = f"document.getElementById('attention').src !== {json.dumps(before)}"
            browser.wait_for(f"return document.getElementById('attention').src && {shown}")
            before = browser.run("return document.getElementById('attention').src")
            if expected:
                assert browser.text("li span") == expected
            assert browser.run("return window.owned") is None
        assert browser.text("#unknown").startswith("The models have never seen \u05e9")
        refused = {"ja " * 300: "This has 899 characters", "ja" * 500_000: "This is too long"}
        for text, sentence in (("", None), *refused.items()):
            browser.run("document.getElementById('text').value = arguments[0]", text)
            browser.run("document.getElementById('translate').click()")
            if sentence:
                said = "return document.getElementById('error').textContent"
                browser.wait_for(f"{said}.startsWith({json.dumps(sentence)})")
        assert [text for text in browser.complaints() if "400" not in text] == []


@pytest.mark.slow
@needs_browser
def test_the_frame_is_as_high_as_its_maps_whose_last_layer_it_shows(demo):
    with Browser() as browser:
        browser.open(f"http://{LOCAL}:{demo[1]}/")
        assert browser.wait_for("return document.querySelectorAll('.example').length") == 3
        assert "few hundred German words" in browser.text("#about")
        browser.run("document.querySelectorAll('.example')[1].click()")
        browser.wait_for("return document.getElementById('attention').src")
        browser.run("document.getElementById('attention').scrollIntoView()")
        browser.wait_for("return document.getElementById('attention').offsetHeight > 300")
        assert browser.text("li span") == "The doctor brings along wine."
        assert browser.text("#unknown") == ""
        for width in (1280, 400):
            browser.resize(width, 700)
            browser.run("document.getElementById('attention').scrollIntoView()")  # frames out of sight are not laid out
            browser.send("/frame", {"id": 0})
            browser.wait_for("return document.documentElement.scrollHeight <= innerHeight")
            assert browser.run("return document.querySelectorAll('canvas').length") == 2
            assert browser.text("#number") == "6 of 6"
            browser.send("/frame", {"id": None})
            assert browser.run("return document.documentElement.scrollWidth") <= width


def test_more_models_than_two_and_odd_hosts_are_refused():
    for flags, sentence in (
        (["a", "b", "c"], "MODEL_DIR: give one or two models"),
        (["--port", "x"], "--port"),
        (["--host", "203.0.113.9"], "cannot listen on 203.0.113.9"),
    ):
        command = ["bash", ROOT / "scripts/demo.sh", *flags]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.returncode and len(result.stderr.splitlines()) == 1 and sentence in result.stderr
