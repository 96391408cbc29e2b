"""A page of HTML as tests see it: its tables as cells, its text, its tags."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """What a parser that knows nothing of this project finds in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._table = ""
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "table":
            self._table = (found.get("id") or "").removeprefix("table-")
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th"):
            self.tables[self._table][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_cell:
            self.tables[self._table][-1][-1] += data

    def line(self, table: str, name: str) -> list[str]:
        """The cells of the line of that name."""
        (found,) = [line for line in self.tables[table] if line[0] == name]
        return found[1:]
