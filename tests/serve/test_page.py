"""The page in a real browser: every view, by keyboard, light and dark, narrow and wide."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.serve.conftest import TOKEN, Running, running, wait_until

from elmo.serve.app import static_files
from elmo.serve.config import ServeConfig

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here; Debian: apt-get install chromium"
)
VIEWS = {
    "sentence": ".kwic mark",
    "compare": ".heatmap td.best",
    "predict": "button.bar.both",
    "surprisal": ".word.heat",
    "classify": ".word.heat",
    "map": ".list li",
    "model": "table.facts",
}
HOSTILE = "<img src=x onerror=alert(1)> & \"quoted\" 'text'"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )


class Visit:
    """A page with everything that it complained about and asked for."""

    def __init__(self, browser: Any, url: str, width: int = 1600, scheme: str = "light") -> None:
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.url, self.width = url, width
        self.messages: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def open(self, view: str, **params: str) -> Any:
        query = "&".join(f"{name}={quote(value)}" for name, value in params.items())
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#/{view}?{query}")
        self.page.locator(VIEWS[view]).first.wait_for(timeout=30_000)
        self.page.locator(".spin").first.wait_for(state="hidden", timeout=30_000)
        return self.page

    def check(self) -> None:
        assert self.messages == []
        assert {host for host in self.hosts if host} <= {self.url.removeprefix("http://")}
        self.context.close()


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), (360, "dark")])
def test_every_view(server: Running, browser: Any, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    visit = Visit(browser, server.url, width, scheme)
    for view in VIEWS:
        page = visit.open(view)
        page.mouse.move(0, 0)
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        shown = page.locator(".context").first.inner_text()
        assert "4 labels" in shown if view == "classify" else "default" in shown
        found = axe.run(page).response["violations"]
        serious = [
            (one["id"], [node["html"][:160] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], (view, serious)
    visit.check()


@needs_browser
def test_an_answer_that_is_cut_off_is_no_empty_answer(server: Running, browser: Any) -> None:
    visit = Visit(browser, server.url)
    page = visit.open("model")
    outcome = page.evaluate(
        """async () => {
            const { api } = await import("/static/common.js");
            const cut = async () => { throw new DOMException("", "AbortError"); };
            window.fetch = async () => ({ ok: true, json: cut });
            return api("/api/info").then(() => "answered", (error) => error.name);
        }"""
    )
    assert outcome == "AbortError"
    visit.check()


@needs_browser
def test_by_keyboard(server: Running, browser: Any) -> None:
    visit = Visit(browser, server.url)
    page = visit.open("sentence", text="The bank raised its rates .")
    # From the top of the page: the skip link, then the views.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Compare"
    page.keyboard.press("Enter")
    page.locator(VIEWS["compare"]).first.wait_for()
    assert page.locator("nav a[aria-current]").inner_text() == "Compare"

    page = visit.open("sentence", text="The bank raised its rates .")
    page.get_by_role("button", name="rates", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**word=4*")
    page.get_by_role("button", name="all", exact=True).press("Enter")
    page.wait_for_url("**distinct=none*")

    page = visit.open("compare", a="The bank .", b="A river bank .")
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.wait_for_url("**layer=0*")
    same = page.locator(".heatmap tbody tr").nth(1).locator("td").nth(2).inner_text()
    assert same == "1.00"

    page = visit.open("predict", text="Oil prices fell .", blank="1")
    before = page.locator("textarea").input_value()
    page.locator("button.bar.forward").nth(3).focus()
    page.keyboard.press("Enter")
    wait_for(page, lambda: page.locator("textarea").input_value() != before)
    page.get_by_role("button", name="after", exact=True).press("Enter")
    page.wait_for_url("**blank=4*")

    page = visit.open("surprisal", text="Oil prices fell .")
    page.get_by_role("button", name="backward").press("Space")
    page.wait_for_url("**direction=backward*")
    page.get_by_role("button", name="prices").focus()
    assert "prices" in page.get_by_role("heading", name="Instead of").inner_text()

    page = visit.open("classify", text="Oil prices fell .")
    page.get_by_role("button", name="Oil").press("Enter")
    page.wait_for_url("**out=0*")
    page.get_by_role("heading", name="without the words struck out").wait_for()
    page.get_by_role("button", name="Sports").press("Enter")
    page.get_by_role("heading", name="What speaks for “Sports”").wait_for()

    page = visit.open("model", lookup="bank quuxly")
    page.get_by_role("cell", name="unknown", exact=True).wait_for()
    visit.check()


def wait_for(page: Any, condition: Any) -> None:
    for _ in range(300):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("waited too long")


@needs_browser
def test_word_map(server: Running, browser: Any, tmp_path: Path) -> None:
    visit = Visit(browser, server.url)
    word = server.client.get("/api/info").json()["corpus"]["ambiguous"][0][0]
    page = visit.open("map", word=word)
    canvas = page.locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    assert word in page.locator(".tip").inner_text().lower()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="1 selected").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("slider").press("Home")
    page.wait_for_url("**layer=0*")
    page.get_by_role("slider").press("End")
    page.wait_for_url("**layer=average*")

    # A lasso around the whole map selects every point.
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    right, bottom = box["width"] - 15, box["height"] - 15  # the corners are round
    corners = [(15, 15), (right, 15), (right, bottom), (15, bottom)]
    page.wait_for_timeout(900)  # points are moving
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 15, box["y"] + 15)
    page.mouse.down()
    for x, y in [*corners, corners[0]]:
        page.mouse.move(box["x"] + x, box["y"] + y, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    count = len(server.post("/api/occurrences", word=word).json()["occurrences"])
    page.get_by_role("heading", name=f"{count} selected").wait_for()

    for kind in ("SVG", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind, exact=True).click()
        path = tmp_path / f"map.{kind.lower()}"
        download.value.save_as(path)
        content = path.read_bytes()
        assert content.startswith(b"<svg" if kind == "SVG" else b"\x89PNG")
        assert kind == "PNG" or content.count(b"fill-opacity") == count
    visit.check()


@needs_browser
def test_umap_in_a_worker(server: Running, browser: Any) -> None:
    visit = Visit(browser, server.url)
    page = visit.open("map", word="the", umap="1", layer="2")
    wait_for(page, lambda: "UMAP:" not in page.locator(".mapgrid").inner_text())
    visit.check()


@needs_browser
def test_another_word_while_points_are_selected_and_umap_runs(
    server: Running, browser: Any
) -> None:
    corpus = server.client.get("/api/info").json()["corpus"]
    counts, rare = dict(corpus["frequent"]), corpus["ambiguous"][-1][0]
    common = max(counts, key=lambda word: counts[word])
    visit = Visit(browser, server.url)
    page = visit.open("map", word=common, umap="1", layer="2")
    page.locator("canvas").focus()
    page.keyboard.press("ArrowLeft")  # the last point, which the rarer word does not have
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="1 selected").wait_for()
    field = page.get_by_role("combobox", name="Word")
    for word in (rare, common, rare):
        field.fill(word)
        field.press("Enter")
    count = len(server.post("/api/occurrences", word=rare).json()["occurrences"])
    assert count < counts[common]
    page.get_by_role("heading", name=f"{count} occurrences").wait_for()
    wait_for(page, lambda: "UMAP:" not in page.locator(".mapgrid").inner_text())
    visit.check()


@needs_browser
def test_nothing_to_show_says_what_to_do(server: Running, browser: Any) -> None:
    visit = Visit(browser, server.url)
    page = visit.page
    fields = {"compare": "a", "map": "word"}
    for view in [view for view in VIEWS if view != "model"]:
        page.goto("about:blank")
        page.goto(f"{server.url}/#/{view}?{fields.get(view, 'text')}=")
        page.get_by_role("status").filter(has_text="Type ").wait_for()
        assert page.locator(".spin").count() == 0
    page = visit.open("surprisal")
    page.locator("textarea").fill("")  # the example does not come back
    page.get_by_role("status").filter(has_text="Type a text").wait_for()
    assert page.locator("textarea").input_value() == ""
    visit.check()


@needs_browser
def test_a_view_that_cannot_be_loaded_says_so(server: Running, browser: Any) -> None:
    visit = Visit(browser, server.url)
    page = visit.open("sentence")
    page.route("**/views/compare.js", lambda route: route.abort())
    page.get_by_role("link", name="Compare").click()
    page.get_by_role("alert").filter(has_text="could not be loaded").wait_for()
    visit.context.close()


@needs_browser
def test_state_is_in_the_link_and_text_stays_text(server: Running, browser: Any) -> None:
    visit = Visit(browser, server.url)
    for view, name in (("sentence", "text"), ("compare", "a"), ("surprisal", "text")):
        page = visit.open(view, **{name: HOSTILE})
        assert page.locator("textarea").first.input_value() == HOSTILE
        assert "onerror" in page.locator("main").inner_text()
        assert page.locator("main img").count() == 0
    page.locator("textarea").first.fill("")
    page.wait_for_timeout(400)
    page.locator("textarea").first.fill("word " * 12)
    page.wait_for_url("**text=word*")
    visit.check()


@needs_browser
def test_errors_are_shown(server: Running, browser: Any) -> None:
    visit = Visit(browser, server.url)
    page = visit.page
    page.goto(f"{server.url}/#/map?word=xylophone")
    page.get_by_role("alert").wait_for()
    assert "does not occur in the corpus" in page.get_by_role("alert").inner_text()
    assert [one for one in visit.messages if "422" not in one] == []  # the browser's own line
    visit.context.close()


@needs_browser
def test_token_leaves_the_link(cache: object, browser: Any) -> None:
    with running(ServeConfig(port=0, corpus_words=500), TOKEN) as server:
        wait_until(lambda: server.state.corpus.state == "ready")
        visit = Visit(browser, server.url)
        visit.page.goto(f"{server.url}/#token={TOKEN}")
        visit.page.locator(VIEWS["sentence"]).first.wait_for()
        assert TOKEN not in visit.page.url
        visit.page.reload()
        visit.page.locator(VIEWS["sentence"]).first.wait_for()
        visit.check()
        stranger = Visit(browser, server.url)
        stranger.page.goto(server.url)
        stranger.page.get_by_role("alert").wait_for()
        stranger.context.close()


def test_first_load_is_small() -> None:
    names = ("index.html", "style.css", "app.js", "common.js", "icon.svg", "vendor/ui.js")
    first = [static_files()[name] for name in (*names, "views/sentence.js")]
    assert sum(len(content) for content, *_ in first) <= 150_000
    assert sum(len(packed) for _, packed, *_ in first) <= 50_000
    whole = [static_files()[name] for name in ("views/map.js", "vendor/d3.js")]
    assert sum(len(content) for content, *_ in first + whole) <= 150_000


def test_licences_are_there() -> None:
    assert "vendor/licences/preact.txt" in static_files()
    assert "vendor/licences/umap-js.txt" in static_files()


def test_pages_of_the_server(server: Running) -> None:
    answer = server.client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-encoding"] == "gzip"
    tag = {"if-none-match": answer.headers["etag"]}
    assert server.client.get("/", headers=tag).status_code == 304
    plain = server.client.get("/static/app.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.headers["content-type"].startswith("text/javascript")
