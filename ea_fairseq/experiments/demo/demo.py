"""``ea-fairseq demo``: serves the demo on this machine."""

import socket
import sys
from contextlib import redirect_stdout
from pathlib import Path

from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.commands import Parser, at_least, quiet
from ea_fairseq.plain.project import PROJECT

RELEASED = [PROJECT / "checkpoints" / f"embedded-{name}" for name in ("ea_transformer_lite", "transformer_lite")]
LOCAL = "127.0.0.1"
MAX_PORT = 65535
EXAMPLES = (
    "Sie sieht den Koch, der eine Blume pflanzt.",
    "Der Arzt bringt Wein mit.",
    "Ich fahre ins Dorf, um einen Teppich zu verkaufen.",
)
ABOUT = (
    "The released models know only the few hundred German words and the kinds of sentences of the small corpus that "
    "they were trained on. Other German comes out as nonsense."
)


def listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket; raises UserError if the port is taken or the address is not this machine's."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(kind, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(64)
    except OSError as error:
        found.close()
        reason = error.strerror or error
        raise UserError(f"cannot listen on {host}, port {port} ({reason}): choose another with --port.") from None
    return found


def main() -> None:
    """Loads the models, prints the address and serves the page."""
    parser = Parser(
        "demo",
        "Opens a page on this machine that translates what is typed there and shows the attention of the translation,\n"
        "for one model or two side by side. Stop it with Ctrl-C.",
        "ea-fairseq demo runs/multi30k-deen/ea_transformer_lite/seed-1 runs/multi30k-deen/transformer_lite/seed-1",
    )
    add = parser.add_argument
    text = "one or two trained models (default: the released ones)"
    add("folders", type=Path, nargs="*", metavar="MODEL_DIR", help=text)
    add("--tag", metavar="NAME", help="tag of all sentences, such as a domain, if the models were trained with tags")
    add("--port", type=at_least(0), default=8000, metavar="N", help="port; 0 chooses a free one (default: 8000)")
    text = f"address to listen at; any other than the default serves other machines, too (default: {LOCAL})"
    add("--host", default=LOCAL, metavar="ADDRESS", help=text)
    parser.add_user_dir()
    parser.add_cpu()
    args = parser.parse_args()
    if args.port > MAX_PORT:
        parser.error(f"--port needs a whole number of at most {MAX_PORT}, not {args.port}")
    if len(args.folders) > 2:
        parser.error("MODEL_DIR: give one or two models")
    folders = args.folders or RELEASED
    about, examples = (ABOUT, EXAMPLES) if {folder.resolve() for folder in folders} <= {*RELEASED} else ("", ())
    listening = listen(args.host, args.port)
    quiet()
    print("loading the models", flush=True)
    with redirect_stdout(sys.stderr):
        from ea_fairseq.data import embedded_corpus
        from ea_fairseq.experiments.demo.translators import Translators, words

        vocabulary = {*words(embedded_corpus.unpack()["train.de"].decode())} if about else None
        translators = Translators(folders, args.cpu, vocabulary, args.tag)
        translators.answer(examples[0] if examples else ".")  # warm-up, so that the first user need not wait
    import uvicorn

    from ea_fairseq.experiments.demo.server import application

    facts = {"models": list(translators.models), "languages": translators.languages}
    facts |= {"tag": args.tag, "about": about, "examples": examples}
    local = args.host == LOCAL
    hosts = [LOCAL, "localhost"] if local else ["*"]
    port = listening.getsockname()[1]
    if not local:
        print(printable(f"everyone who can reach {args.host} can translate here and read the last translations"))
    print(printable(f"open http://{args.host}:{port} in a browser; Ctrl-C stops this"), flush=True)
    server = uvicorn.Server(
        uvicorn.Config(
            application(translators.answer, facts, hosts),
            log_level="error",
            timeout_graceful_shutdown=1,
            limit_concurrency=64,
            server_header=False,
        )
    )
    server.run(sockets=[listening])
