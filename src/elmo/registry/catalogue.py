"""What is known of each public model: models.json, facts gathered from public sources.

No address has been tried from here. Where the sources state nothing, a field is empty, and nothing
is guessed; an address by the pattern of its neighbours says so in its status.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from elmo.config import from_json, nearest
from elmo.errors import UserError
from elmo.files import read_json

MODELS = Path(__file__).with_name("models.json")
ARCHIVE = "archive"
"""The one file of a model that is published as an archive."""
NORWEGIAN = ("no", "nb", "nn")


@dataclass(frozen=True, kw_only=True)
class PublicModel:
    """A model that somebody has published."""

    name: str
    language: str
    """ISO 639, such as de; zh-hant for traditional Chinese."""
    language_name: str
    format: Literal["bilm-tf", "many-langs"]
    corpus: str | None = None
    aliases: tuple[str, ...] = ()
    parameters: str | None = None
    size: str | None = None
    licence: str | None = None
    tokenization: str | None = None
    """How its training text was cut into words: cut yours alike."""
    citation: str | None = None
    files: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Addresses of options.json and weights.hdf5, or of one archive; mirrors in order."""
    checksums: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Published checksums, by file and algorithm."""
    pages: tuple[str, ...] = ()
    """Web pages that describe it."""
    dead: tuple[str, ...] = ()
    """Earlier addresses that are reported dead."""
    status: str | None = None
    """What the sources say about its addresses, and when."""


@cache
def public_models() -> dict[str, PublicModel]:
    """All models by name, families together."""
    models: dict[str, PublicModel] = {}
    for entry in cast("list[dict[str, Any]]", read_json(MODELS)):
        plain = {key: value for key, value in entry.items() if key not in ("files", "checksums")}
        read = from_json(PublicModel, plain, str(MODELS))
        files = {name: tuple(addresses) for name, addresses in entry["files"].items()}
        checksums: dict[str, dict[str, str]] = entry.get("checksums", {})
        models[read.name] = replace(read, files=files, checksums=checksums)
    return models


def find_model(name: str) -> PublicModel | None:
    """The model of this name or alias, in any case of letters; None for what is no name at all.

    Raises `UserError` for what is nearly a name, or starts like one.
    """
    by_name = {
        known.lower(): model
        for model in public_models().values()
        for known in (model.name, *model.aliases)
    }
    if name.lower() in by_name:
        return by_name[name.lower()]
    family, slash, rest = name.lower().partition("/")
    families = {known.partition("/")[0] for known in by_name}
    if slash and "/" not in rest and family in families:
        raise UserError(
            f"{name}: neither a folder nor a public model{nearest(name.lower(), by_name)}; "
            "elmo models lists them"
        )
    return None


def choose_models(
    language: str | None = None, family: str | None = None, text: str | None = None
) -> list[PublicModel]:
    """The models of a language, by code or name, and of a family, whose entry holds the text."""

    def fits(model: PublicModel) -> bool:
        wanted, code = (language or "").lower(), model.language
        spoken = (
            not wanted
            or code == wanted
            or code.startswith(f"{wanted}-")
            or (wanted == "no" and code in NORWEGIAN)
            or (len(wanted) > 3 and wanted in model.language_name.lower())
        )
        everything = " ".join((model.name, *model.aliases, model.corpus or "", model.language_name))
        return (
            spoken
            and (family is None or model.name.startswith(f"{family.lower()}/"))
            and (text is None or text.lower() in everything.lower())
        )

    return [model for model in public_models().values() if fits(model)]
