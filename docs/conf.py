"""Sphinx: `make docs` builds build/docs, with warnings as errors; notebooks are executed."""

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.pycode import ModuleAnalyzer

import elmo

project = "elmo"
author = copyright = "The elmo contributors"
version = release = elmo.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["results/*", "performance/*"]

html_theme = "furo"
html_title = f"elmo {release}"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_css_files = ["pages.css"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "html_image"]
myst_heading_anchors = 3
default_role = "code"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

nb_execution_mode = "force"
nb_execution_in_temp = True  # what a notebook writes does not stay
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The kernels of the notebooks: one thread each, and a cache of their own.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["ELMO_CACHE"] = str(Path(__file__).parent.parent / "build" / "docs-cache")


OPTIONAL = {"serve", "tasks", "public-models", "explore"}
"""Features that not every version has, each with pages that are called so or begin so."""


def list_optional_pages(app: Any, name: str, source: list[str]) -> None:
    """Put the pages of optional features into the table of contents, if they are there."""
    if name == "index":
        lines: list[str] = []
        for line in source[0].split("\n"):
            pages = [] if line not in OPTIONAL else Path(app.srcdir).glob(f"{line}*.md")
            lines += sorted(path.stem for path in pages) if line in OPTIONAL else [line]
        source[0] = "\n".join(lines)


def without_overloads(self: ModuleAnalyzer, analyze: Any = ModuleAnalyzer.analyze) -> None:
    """One signature per function, which the docstring describes, instead of all its overloads."""
    analyze(self)
    self.overloads = {}


def shorten_types(app: Any, doctree: Any) -> None:
    """Unions in which Sphinx leaves the mark for a short name: ~typing.Literal, ~torch.dtype."""
    for node in list(doctree.findall(nodes.Text)):
        if "~typing." in node or "~torch." in node:
            node.parent.replace(node, nodes.Text(re.sub(r"~(\w+\.)+", "", node)))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    ModuleAnalyzer.analyze = without_overloads
    app.connect("source-read", list_optional_pages)
    app.connect("doctree-read", shorten_types)
