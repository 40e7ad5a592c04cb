"""Downloads over HTTP that resume after cuts, stalls and outages, and are bounded in size."""

import os
import re
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, responses
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tqdm import tqdm

from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.text_lines import named_in_errors, tidy

RETRIED_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
CHUNK = 1 << 20  # bytes
MAX_WAIT = 300  # seconds
MIN_PROGRESS = 10_000  # bytes; an attempt, or ``stall`` seconds, that bring fewer count as no progress
MAX_REASON = 200  # characters


class BrokenTransferError(Exception):
    """A transfer failed and is worth another attempt; the message is the reason."""


class RefusedError(Exception):
    """A place does not provide the archive; the message is the reason."""


@dataclass(frozen=True)
class Patience:
    """How often and how long to wait for a server, and how much it may send."""

    attempts: float = 5  # consecutive attempts without progress
    wait: float = 5  # seconds before the second of them, doubled before each later one
    stall: float = 60  # seconds without progress
    largest: float = 10_000_000_000  # bytes of a file whose size is unknown

    @classmethod
    def from_environment(cls) -> "Patience":
        """Reads DOWNLOAD_ATTEMPTS, _WAIT, _STALL and _LARGEST, if they are set.

        Raises:
            UserError: naming the variable that is not a positive number.
        """
        given = {}
        for name in ("attempts", "wait", "stall", "largest"):
            variable = f"DOWNLOAD_{name.upper()}"
            if text := os.environ.get(variable):
                if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text) or float(text) == 0:
                    raise UserError(f"{variable} must be a number above 0, not '{text}'.")
                given[name] = float(text)
        return cls(**given)


def transfer(address: str, size: int | None, part: Path, patience: Patience) -> None:
    """Downloads a file to ``part``, continuing what is there, with as many attempts as are allowed.

    Args:
        size: size of the file in bytes, if it is known.

    Raises:
        RefusedError: if the server refuses, or no attempt succeeds.
    """
    most, failures = _size(part), 0
    while True:
        try:
            return _attempt(address, size, part, patience)
        except BrokenTransferError as error:
            failures = 1 if _size(part) >= most + MIN_PROGRESS else failures + 1
            most = max(most, _size(part))
            if failures >= patience.attempts:
                raise RefusedError(str(error)) from None
            wait = min(patience.wait * 2 ** (failures - 1), MAX_WAIT)
            print(printable(f"{address}: {error}; trying again in {wait:g} s"), flush=True)
            time.sleep(wait)


def _size(part: Path) -> int:
    """Returns the size of a file in bytes, or 0 if there is none."""
    return part.stat().st_size if part.exists() else 0


def _attempt(address: str, size: int | None, part: Path, patience: Patience) -> None:
    """Requests the missing bytes of ``part`` once; raises BrokenTransferError or RefusedError."""
    done = _size(part)
    if done and done == size:
        return
    with _open(address, done, patience.stall) as response:
        start, total = _start_and_size(response)
        if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and total == done:
            return
        if start not in (0, done) or isinstance(response, HTTPError):
            part.unlink(missing_ok=True)
            raise BrokenTransferError("it did not resume where the file broke off")
        if response.headers.get_content_type() == "text/html":
            raise RefusedError("it answered with a web page")
        if None not in (total, size) and total != size:
            raise RefusedError(f"its file has {total} bytes, not {size}")
        if size is None and (total or 0) > patience.largest:
            raise RefusedError(f"its file has {total} bytes, more than {_largest(patience)}")
        _receive(response, part, start, total or size, patience)


def _open(address: str, start: int, stall: float) -> HTTPResponse | HTTPError:
    """Requests an address from byte ``start`` on; returns the answer, status 416 included."""
    headers = {"User-Agent": "ea-fairseq"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        return urlopen(Request(address, headers=headers), timeout=stall)
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return error
        error.close()
        passing = error.code in RETRIED_STATUSES or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        answer = f"it answered {error.code} {responses.get(error.code, '')}".rstrip()
        raise (BrokenTransferError if passing else RefusedError)(answer) from None
    except (OSError, HTTPException, ValueError) as error:  # the last for an address that it redirects to
        raise BrokenTransferError(_reason(error, stall)) from None


def _start_and_size(response: HTTPResponse | HTTPError) -> tuple[int | None, int | None]:
    """The offset at which the answer starts and the size of the whole file, in bytes; None if unknown."""
    if response.status == HTTPStatus.OK:
        return 0, response.length
    span = re.fullmatch(r"bytes (?:(\d{1,18})-\d+|\*)/(?:(\d{1,18})|\*)", response.headers["Content-Range"] or "")
    start, total = span.groups() if span else (None, None)
    return int(start) if start else None, int(total) if total else None


def _largest(patience: Patience) -> str:
    """Returns the part of a message that names the largest allowed size."""
    return f"{patience.largest:.0f} bytes, the limit if the size is unknown (DOWNLOAD_LARGEST)"


def _receive(response: HTTPResponse, part: Path, done: int, size: int | None, patience: Patience) -> None:
    """Appends what the server sends to ``part``, which has ``done`` bytes already.

    Raises:
        RefusedError: for more bytes than ``size`` or, if that is unknown, than the limit.
        BrokenTransferError: for fewer bytes than ``size``, hardly any for some time, and network errors.
    """
    came, since = 0, time.monotonic()
    bar = {"unit": "B", "unit_scale": True, "delay": 2, "leave": False, "file": sys.stdout}
    with (
        named_in_errors(part),
        part.open("ab" if done else "wb") as file,
        tqdm(desc=part.name, total=size, initial=done, **bar) as shown,
    ):
        while chunk := _read(response, patience.stall):
            done += len(chunk)
            if done > (patience.largest if size is None else size):
                part.unlink()
                raise RefusedError(f"it sent more than {f'{size} bytes' if size is not None else _largest(patience)}")
            file.write(chunk)
            shown.update(len(chunk))
            came += len(chunk)
            if came >= MIN_PROGRESS:
                came, since = 0, time.monotonic()
            elif time.monotonic() - since > patience.stall:
                raise BrokenTransferError(f"it sent less than {MIN_PROGRESS} bytes in {patience.stall:g} s")
    if size is not None and done < size:
        raise BrokenTransferError(f"it broke off after {done} of {size} bytes")


def _read(response: HTTPResponse, stall: float) -> bytes:
    """Reads the next bytes; raises BrokenTransferError if that fails."""
    try:
        return response.read1(CHUNK)
    except (OSError, HTTPException) as error:
        raise BrokenTransferError(_reason(error, stall)) from None


def _reason(error: Exception, stall: float) -> str:
    """Describes a network error in a few words."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"it sent nothing for {stall:g} s"
    return tidy(str(getattr(cause, "strerror", None) or cause or type(cause).__name__)).lower()[:MAX_REASON]
