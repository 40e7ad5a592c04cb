"""Pictures of the demo and of the page on which attention is explored, from the released models."""

import subprocess
from pathlib import Path

from ea_fairseq.errors import UserError
from ea_fairseq.experiments.demo.browser import CHROMEDRIVER, CHROMIUM, Browser
from ea_fairseq.plain.commands import Parser
from ea_fairseq.plain.processes import own_command, own_environment

WIDTH = 1100
SETTINGS = {"layer": "4", "stage": "logits", "head": "2"}  # of the page


def main() -> None:
    """Writes explorer.png and demo.png."""
    parser = Parser("pictures", __doc__, "ea-fairseq pictures docs/figures")
    parser.add_argument("out", type=Path, help="folder of the pictures")
    args = parser.parse_args()
    if not (CHROMIUM and CHROMEDRIVER):
        raise UserError("this needs Chromium: apt-get install chromium chromium-driver.")
    args.out.mkdir(parents=True, exist_ok=True)
    command = own_command("demo", "--port", "0", "--cpu")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own_environment()) as demo:
        try:
            address = next(line for line in demo.stdout if line.startswith("open ")).split()[1]
            draw(address, args.out)
        finally:
            demo.terminate()
    print(*(args.out / f"{name}.png" for name in ("demo", "explorer")), sep="\n")


def draw(address: str, out: Path) -> None:
    """Takes the pictures of a demo that is being served."""
    with Browser() as browser:
        browser.resize(WIDTH, 1060)
        browser.open(address)
        browser.wait_for("return document.getElementById('text').value !== ''")
        browser.run("document.getElementById('translate').click()")
        page = browser.wait_for("return document.getElementById('attention').src")
        browser.settle()
        browser.screenshot(out / "demo.png")
        browser.resize(WIDTH, 780)
        browser.open(page)
        for name, value in SETTINGS.items():
            browser.choose(name, value)
        browser.run("document.querySelector('canvas').focus()")
        browser.press("down", "right")
        browser.settle()
        browser.screenshot(out / "explorer.png")
