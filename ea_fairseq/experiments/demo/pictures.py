"""Takes pictures of the demo and of the attention explorer, with the released models."""

import base64
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from ea_fairseq.errors import UserError
from ea_fairseq.plain.commands import Parser
from ea_fairseq.plain.processes import own_command, own_environment

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
KEYS = {"left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015", "tab": "\ue004", "enter": "\ue007"}
WIDTH = 1100


class Browser:
    """A headless browser with one page, which ends with its context."""

    def __init__(self, width: int = 1280, height: int = 1000, *flags: str):
        if not (CHROMIUM and CHROMEDRIVER):
            raise UserError("this needs Chromium: apt-get install chromium chromium-driver.")
        self.process = subprocess.Popen(
            [CHROMEDRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        port = first_match(self.process, r"started successfully on port (\d+)")
        self.address = f"http://127.0.0.1:{port}/session"
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--window-size={width},{height}", *flags]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.address += "/" + self.send("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def send(self, path: str, body: dict | None = None, method: str = "POST") -> Any:
        """Sends a command to chromedriver; returns the answer."""
        content = None if method == "GET" else json.dumps(body or {}).encode()
        request = Request(self.address + path, content, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, address: str) -> None:
        self.send("/url", {"url": address})

    def run(self, script: str, *arguments: object) -> Any:
        """Runs a script; returns its result."""
        return self.send("/execute/sync", {"script": script, "args": arguments})

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait_for(self, script: str, seconds: float = 30.0) -> Any:
        """Runs a script until its result is true; returns the result."""
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < end, script
            time.sleep(0.05)
        return found

    def choose(self, name: str, value: str) -> None:
        """Sets a control, with the same events as a user's choice."""
        script = (
            "const found = document.getElementById(arguments[0]); found.value = arguments[1];"
            "for (const kind of ['input', 'change']) found.dispatchEvent(new Event(kind, { bubbles: true }));"
        )
        self.run(script, name, value)

    def press(self, *keys: str) -> None:
        """Presses keys, by their letters or by the names of KEYS."""
        actions = []
        for key in keys:
            actions += [{"type": kind, "value": KEYS.get(key, key)} for kind in ("keyDown", "keyUp")]
        self.send("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def move_to(self, selector: str) -> None:
        """Moves the mouse to the middle of a visible element."""
        script = "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
        x, y = self.run(f"{script} return [box.x + box.width / 2, box.y + box.height / 2].map(Math.round)", selector)
        moves = [{"type": "pointerMove", "x": x + apart, "y": y, "duration": 50} for apart in (-2, 0)]
        self.send("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})

    def resize(self, width: int, height: int) -> None:
        """Resizes the page, which may be narrower than a window can be."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})

    def fit(self, width: int) -> None:
        """Makes the page as high as its content."""
        self.resize(width, self.run("return Math.ceil(document.body.getBoundingClientRect().bottom)"))
        self.settle()

    def complaints(self) -> list[str]:
        """Returns what the page has written to the console so far."""
        return [entry["message"] for entry in self.send("/se/log", {"type": "browser"})]

    def settle(self, seconds: float = 1.5) -> None:
        """Waits until animations have ended."""
        time.sleep(seconds)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("/screenshot", method="GET")))

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.send("", method="DELETE")
        finally:
            self.process.terminate()
            self.process.wait()


def first_match(process: subprocess.Popen[str], pattern: str) -> str:
    """Returns the pattern's group in the first matching line of a program's output."""
    matches = (re.search(pattern, line) for line in process.stdout or ())
    return next(match[1] for match in matches if match)


def main() -> None:
    """Writes explorer.png and demo.png."""
    parser = Parser("pictures", __doc__, "ea-fairseq pictures docs/figures")
    parser.add_argument("out", type=Path, help="folder of the pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    command = own_command("demo", "--port", "0", "--cpu")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own_environment()) as demo:
        try:
            draw(first_match(demo, r"^open (\S+)"), args.out)
        finally:
            demo.terminate()
    print(*(args.out / f"{name}.png" for name in ("demo", "explorer")), sep="\n")


def draw(address: str, out: Path) -> None:
    """Takes the pictures of a running demo."""
    with Browser() as browser:
        browser.resize(WIDTH, 1000)
        browser.open(address)
        browser.wait_for("return document.getElementById('text').value !== ''")
        browser.run("document.getElementById('translate').click()")
        page = browser.wait_for("return document.getElementById('attention').src")
        browser.settle()
        browser.fit(WIDTH)
        browser.screenshot(out / "demo.png")
        browser.open(page)
        browser.run("document.querySelector('canvas').focus()")
        browser.press(*["down"] * 5, *["right"] * 8)  # to the verb at the end of the German clause
        browser.fit(WIDTH)
        browser.screenshot(out / "explorer.png")
