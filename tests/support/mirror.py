"""A server that gives files over HTTP, as badly as a test asks for."""

import os
import re
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import patch


@dataclass(frozen=True)
class Answer:
    """How a file is given: as it is, or with the faults that are set."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None  # bytes after which the connection ends
    stall: int | None = None  # bytes after which nothing comes any more
    length: int | None = None  # bytes that Content-Length claims
    announced: bool = True  # whether there is a Content-Length
    ranges: bool = True  # whether Range is heeded
    drip: float | None = None  # seconds between two bytes
    reason: str | None = None  # phrase beside the status


WHOLE = Answer()
RANGELESS = Answer(ranges=False)
WEB_PAGE = Answer(headers={"Content-Type": "text/html; charset=utf-8"}, body=b"<html>Please log in.</html>")


def cut(after: int, **faults) -> Answer:
    """A transfer that ends after some bytes."""
    return Answer(cut=after, **faults)


def stall(after: int) -> Answer:
    """A transfer that comes to a standstill after some bytes."""
    return Answer(stall=after)


def drip(seconds: float) -> Answer:
    """A transfer of a byte now and then."""
    return Answer(drip=seconds)


def failure(status: int) -> Answer:
    """An error such as 404 or 503, with the page that usually comes with it."""
    return Answer(status, WEB_PAGE.headers, b"<html>Sorry.</html>")


def redirect(address: str) -> Answer:
    """A redirect to another address, or to another path of the same mirror."""
    return Answer(302, {"Location": address}, b"")


@dataclass(frozen=True)
class Visit:
    """A request that came: its path, and the byte that its Range starts from."""

    path: str
    start: int | None


class Mirror(AbstractContextManager):
    """A local server of files, given by their paths; other paths are answered with 404.

    `plan` says how the next requests for a path are answered; `visits` are those that came. Used in a `with` statement,
    within which no proxy stands between local programs and the mirror.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.visits: list[Visit] = []
        self.closing = threading.Event()
        self._answers: dict[str, list[Answer]] = {}
        self._then: dict[str, Answer] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._proxies = patch.dict(os.environ, no_proxy="127.0.0.1", NO_PROXY="127.0.0.1")

    def plan(self, path: str, *answers: Answer, then: Answer = WHOLE) -> None:
        """Answer the next requests for the path with these answers, one each, and those after them with `then`."""
        self._answers[path], self._then[path] = list(answers), then

    def next_answer(self, path: str) -> Answer:
        """The answer to a request that came for the path."""
        planned = self._answers.get(path)
        answer = planned.pop(0) if planned else self._then.get(path, WHOLE)
        return failure(404) if answer.body is None and path not in self.files else answer

    def starts(self, path: str) -> list[int | None]:
        """The byte that each request for the path asked to start from."""
        return [visit.start for visit in self.visits if visit.path == path]

    def __enter__(self) -> "Mirror":
        self._proxies.start()
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._proxies.stop()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, mirror: Mirror, *arguments) -> None:
        self.mirror = mirror
        super().__init__(*arguments)

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else None
        self.mirror.visits.append(Visit(self.path, start))
        with suppress(ConnectionError):
            self.give(self.mirror.next_answer(self.path), start)

    def give(self, answer: Answer, start: int | None) -> None:
        body = self.mirror.files[self.path] if answer.body is None else answer.body
        status, headers = answer.status, dict(answer.headers)
        if start is not None and status == 200 and answer.ranges:
            size = len(body)
            status, span = (206, f"{start}-{size - 1}") if start < size else (416, "*")
            headers["Content-Range"] = f"bytes {span}/{size}"
            body = body[start:]
        if answer.announced:
            headers["Content-Length"] = str(len(body) if answer.length is None else answer.length)
        self.send_response(status, answer.reason)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        body = body[: answer.cut if answer.stall is None else answer.stall]
        if answer.drip is not None:
            for byte in body:
                self.wfile.write(bytes([byte]))
                self.mirror.closing.wait(answer.drip)
        else:
            self.wfile.write(body)
        if answer.stall is not None:
            self.mirror.closing.wait()

    def log_message(self, *_) -> None:
        pass
