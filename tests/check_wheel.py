"""Check an installed wheel: all of the source is in it, and every module imports on core alone.

Run by `make wheel` with the Python of a clean environment: `python -I tests/check_wheel.py src`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.metadata import entry_points
from pathlib import Path

PACKAGE = "elmo"
NEEDS_EXTRA = {"elmo.serve": {"fastapi", "prometheus_client", "pydantic", "starlette", "uvicorn"}}
"""Packages whose modules need an extra, and what may be missing without it."""


def source_modules(source: Path) -> set[str]:
    """The dotted name of every module under the source folder."""
    files = (path.relative_to(source).with_suffix("") for path in source.rglob("*.py"))
    return {".".join(file.parts).removesuffix(".__init__") for file in files}


def installed_modules() -> set[str]:
    """The dotted name of every module that can be reached in the installed package."""
    package = importlib.import_module(PACKAGE)
    found = pkgutil.walk_packages(package.__path__, prefix=f"{PACKAGE}.")
    return {PACKAGE} | {module.name for module in found}


def check_origin() -> None:
    """Fail unless the package comes from this environment rather than from the checkout."""
    origin = Path(str(importlib.import_module(PACKAGE).__file__)).resolve()
    if not origin.is_relative_to(Path(sys.prefix).resolve()):
        sys.exit(f"{PACKAGE} was imported from {origin}, not from the environment {sys.prefix}")
    if not origin.with_name("py.typed").is_file():
        sys.exit("the wheel has no py.typed: users would get no types")


def main(source: Path) -> None:
    """Import every module and load the command."""
    check_origin()
    modules = installed_modules()
    if modules != source_modules(source):
        sys.exit(f"wheel and source differ in: {sorted(modules ^ source_modules(source))}")
    for name in sorted(modules):
        if name.endswith(".__main__"):  # importing it would run the command
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in NEEDS_EXTRA.get(".".join(name.split(".")[:2]), ()):
                raise
    for command in entry_points(group="console_scripts", name=PACKAGE):
        command.load()
    print(f"wheel: all {len(modules)} modules import in a clean environment")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
