"""Take the pictures of the docs from a running `elmo serve`, after the shipped model has changed.

elmo serve &
python benchmarks/page_pictures.py http://127.0.0.1:8000

Needs playwright, Pillow and a Chromium (`--chromium PATH`; default: the one on the path). It prints
what docs/serve.md says about the word map.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page, sync_playwright

BANK = "The bank raised its rates on Monday as oil prices fell ."
COACH = "The central bank raised interest rates after the coach of the national team resigned ."
PATIENCE = 600_000  # ms: the corpus is indexed first


def open_view(page: Page, address: str, shown: str) -> None:
    page.goto(address)
    page.locator(shown).first.wait_for(timeout=PATIENCE)
    page.locator(".spin").first.wait_for(state="hidden", timeout=PATIENCE)
    page.wait_for_timeout(1500)  # points and bars move to their places


def take(page: Page, path: Path, *, whole: bool = False) -> None:
    """A picture of 128 colours, a third of the size."""
    page.screenshot(path=path, full_page=whole)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("server", help="address of elmo serve")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    args = parser.parse_args()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
        wide, dark, phone = (
            browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            for width, height, scheme in (
                (1600, 1000, "light"),
                (1600, 800, "dark"),
                (360, 800, "light"),
            )
        )
        open_view(wide, f"{args.server}/#/map?word=bank&layer=2", ".list li")
        take(wide, args.out / "explorer-word-map.png")
        print(wide.locator("main").inner_text().partition("Nearest neighbour")[2][:120])
        sentence = f"{args.server}/#/sentence?text={quote(BANK)}&word=1"
        open_view(dark, sentence, ".kwic mark")
        take(dark, args.out / "explorer-sentence-dark.png")
        open_view(phone, f"{args.server}/#/classify?text={quote(COACH)}", ".word.heat")
        take(phone, args.out / "explorer-classify-phone.png", whole=True)


if __name__ == "__main__":
    main()
