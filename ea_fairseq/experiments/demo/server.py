"""The demo's server: its page, the translations of sentences typed there, and pages of their attention."""

import asyncio
import json
import secrets
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.demo.translators import Answer
from ea_fairseq.plain.project import PACKAGE

HERE = Path(__file__).parent
MOST_BYTES = 8192  # per request
WAITING = 8  # maximum of requests at once, including the one being translated
KEPT = 4  # pages of attention
BUSY = "Other sentences are being translated: try again in a few seconds."
SAFE = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
OF_PAGE = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'"
OF_MAPS = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; sandbox allow-scripts"


class Demo:
    """The state that the routes share.

    Args:
        answer: translates a raw sentence; it is called in a thread, for one sentence at a time.
        facts: what the page says about the models.
    """

    def __init__(self, answer: Callable[[str], Answer], facts: dict):
        self.answer, self.facts, self.waiting = answer, facts, 0
        self.turn = asyncio.Lock()
        self.pages: OrderedDict[str, str] = OrderedDict()

    async def translate(self, request: Request) -> Response:
        """Answers ``{"text": ...}`` with translations and the address of a page of their attention."""
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return refusal(415, "Send JSON.")
        if self.waiting >= WAITING:
            return refusal(503, BUSY, {"Retry-After": "3"})
        self.waiting += 1
        try:
            text = await text_of(request)
            async with self.turn:
                if await request.is_disconnected():
                    return refusal(400, "Nobody waits for this any more.")
                found = await anyio.to_thread.run_sync(self.answer, text)
        except UserError as error:
            return refusal(400, str(error))
        except ClientDisconnect:
            return refusal(400, "The request ended early.")
        finally:
            self.waiting -= 1
        name = secrets.token_urlsafe(12)
        self.pages[name] = found.page
        while len(self.pages) > KEPT:
            self.pages.popitem(last=False)
        translations = [
            {"model": model, "hypotheses": [vars(hypothesis) for hypothesis in hypotheses]}
            for model, hypotheses in found.translations.items()
        ]
        answer = {"translations": translations, "unknown": found.unknown, "attention": f"/attention/{name}"}
        return JSONResponse(answer, headers=SAFE)

    async def attention(self, request: Request) -> Response:
        """Serves a page of attention that is still kept."""
        page = self.pages.get(request.path_params["name"])
        if page is None:
            return PlainTextResponse("This page is no longer kept: translate the sentence again.", 404, headers=SAFE)
        return HTMLResponse(page, headers=SAFE | {"Content-Security-Policy": OF_MAPS})

    async def models(self, request: Request) -> Response:
        """Serves the facts about the models."""
        return JSONResponse(self.facts, headers=SAFE)


async def text_of(request: Request) -> str:
    """Reads the text of a request; raises UserError if it is too long or not text."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise UserError("This is too long: type one sentence.")
    try:
        text = json.loads(body)["text"]
        text.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError("This is no text.") from None
    return text


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """An error response with a sentence for the reader of the page."""
    return JSONResponse({"error": sentence}, status, headers=SAFE | (headers or {}))


def asset(path: Path, kind: str) -> Route:
    """The route of a file of the page."""
    content = path.read_text(encoding="utf-8")
    headers = SAFE | {"Content-Security-Policy": OF_PAGE}

    async def give(request: Request) -> Response:
        return Response(content, media_type=kind, headers=headers)

    return Route("/" if path.suffix == ".html" else f"/{path.name}", give)


def application(answer: Callable[[str], Answer], facts: dict, hosts: list[str]) -> Starlette:
    """The server for these host names; requests for others, as after DNS rebinding, are refused."""
    demo = Demo(answer, facts)
    routes = [
        asset(HERE / "demo.html", "text/html"),
        asset(PACKAGE / "explorer" / "theme.css", "text/css"),
        asset(HERE / "demo.css", "text/css"),
        asset(HERE / "demo.js", "text/javascript"),
        Route("/models", demo.models),
        Route("/translate", demo.translate, methods=["POST"]),
        Route("/attention/{name}", demo.attention),
    ]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)])
