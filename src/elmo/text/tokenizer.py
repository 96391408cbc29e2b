"""Documents to words: a fast Unicode tokenizer in the manner of the Penn Treebank, or your own.

Written here since a tokenizer must be the same wherever a model is used, must lose no character
and needs no more than one regular expression; the libraries made for it bring whole pipelines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import regex

from elmo.errors import ConfigError, UserError
from elmo.runtime import require_extra

Tokenizer = Callable[[str], list[str]]
BUILT_IN = ("regex", "regex-2", "characters", "whitespace", "custom")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How documents are cut into words; saved with every model."""

    tokenizer: str = "regex"
    """regex: words, numbers and punctuation apart; regex-2: the same, but C++, C#, .NET and Hebrew
    abbreviations stay whole; characters: for scripts without spaces; whitespace: the text is
    tokenized already and is cut at spaces only; spacy:de, spacy:th, …: the rules of a language of
    spaCy's (extra: spacy); module:function: a Python function that returns a list of words; custom:
    a function that is passed from Python."""

    lowercase: bool = False
    """Whether words are made lower case; ELMo reads characters, so case is best kept."""

    def problems(self) -> Iterable[str]:
        if self.tokenizer not in BUILT_IN and ":" not in self.tokenizer:
            yield (
                f"tokenizer: expected {', '.join(BUILT_IN)}, spacy:LANGUAGE or module:function; "
                f"got {self.tokenizer!r:.60}"
            )


def build_tokenizer(config: TokenizerConfig, custom: Tokenizer | None = None) -> Tokenizer:
    if ":" in config.tokenizer:
        custom = custom or named_tokenizer(config.tokenizer)
        config = replace(config, tokenizer="custom")
    if (config.tokenizer == "custom") != (custom is not None):
        raise UserError(
            "a tokenizer function is given exactly if the tokenizer is 'custom', but "
            f"it is {config.tokenizer!r} and there is {'no' if custom is None else 'a'} function; "
            "pass the function the model was trained with, or choose the tokenizer 'custom'"
        )
    if problems := list(config.problems()):
        raise ConfigError(problems)
    if custom is not None:
        tokenize: Tokenizer = _Checked(custom)
    else:
        tokenize = TOKENIZERS[config.tokenizer]
    return _Lowercased(tokenize) if config.lowercase else tokenize


_allowed = set(filter(None, os.environ.get("ELMO_TOKENIZERS", "").split(",")))


def allow_tokenizer(name: str) -> None:
    """Allow a `module:function` to be called, because the user named it.

    Names in model folders are not enough: a folder that comes from anywhere must not decide which
    code runs.
    """
    _allowed.add(name)


@cache
def named_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of a name: `spacy:de`, `spacy:en_core_web_sm` or `module:function`.

    The function may be in a module of the working folder.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise UserError(
            f"unknown tokenizer {name!r:.80}; expected model, whitespace, spacy:LANGUAGE (such as "
            "spacy:de), spacy:PACKAGE or MODULE:FUNCTION"
        )
    if module == "spacy":
        return SpacyTokenizer(attribute)
    if name not in _allowed:
        raise UserError(
            f"this model reads words cut by the function {name!r}, which is called only if you "
            f"name it yourself: --tokenizer {name}, or ELMO_TOKENIZERS={name}"
        )
    # `python -m` puts the working folder on sys.path, a console script does not.
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"tokenizer {name!r}: cannot be imported ({error})") from None
    finally:
        sys.path.pop(0)
    if not callable(function):
        raise UserError(f"tokenizer {name!r}: expected a function, got {type(function).__name__}")
    return cast("Tokenizer", function)


class SpacyTokenizer:
    """The tokenizer of a language or of an installed pipeline package of spaCy's."""

    def __init__(self, language: str) -> None:
        self._language = language
        spacy: Any = require_extra("spacy", "spacy")
        try:
            is_code = len(language) <= 3  # de: its rules alone; otherwise a package by name
            pipeline = spacy.blank(language) if is_code else spacy.load(language)
            self._tokenizer = pipeline.tokenizer
        except (ImportError, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(f"tokenizer 'spacy:{language}': {reason:.200}") from None

    def __reduce__(self) -> tuple[type[SpacyTokenizer], tuple[str]]:
        return SpacyTokenizer, (self._language,)

    def __call__(self, text: str) -> list[str]:
        return [token.text for token in self._tokenizer(text) if not token.is_space]


def tokenize_words(text: str) -> list[str]:
    """Cut a text into words, numbers and punctuation; only white space is lost."""
    return _TOKEN.findall(text)


def tokenize_words_2(text: str) -> list[str]:
    """The same, but names of programming languages and Hebrew abbreviations stay whole."""
    return _token_2().findall(text)


def tokenize_characters(text: str) -> list[str]:
    """Cut a text into characters as readers see them: letters with their marks."""
    return regex.findall(r"\S\p{M}*", text)


TOKENIZERS: dict[str, Tokenizer] = {
    "regex": tokenize_words,
    "regex-2": tokenize_words_2,
    "characters": tokenize_characters,
    "whitespace": str.split,
}


def join_words(words: Sequence[str]) -> str:
    """Words as a text for readers: no space before a full stop, nor within Chinese or Thai.

    >>> join_words(["Oil", "did", "n't", "fall", "(", "much", ")", "."])
    "Oil didn't fall (much)."
    """
    text, quoted = "", False
    glue = True
    for word in words:
        closes = bool(_CLOSING.fullmatch(word)) or (word == '"' and quoted)
        opens = bool(_OPENING.fullmatch(word)) or (word == '"' and not quoted)
        quoted ^= word == '"'
        unspaced = bool(text and _UNSPACED.match(text[-1]) and _UNSPACED.match(word))
        text += word if glue or closes or unspaced else f" {word}"
        glue = opens
    return text


_CLOSING = regex.compile(
    r"[.,;:!?%)\]}»”’…。、，；：！？）」』】]|\.\.+|['’](?:s|re|ve|ll|d|m)|[nN]['’][tT]"
)
_OPENING = regex.compile(r"[(\[{«“‘（「『【$£]")
_UNSPACED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"。、，；：！？）」』】（「『【ー]"
)


@dataclass(frozen=True)
class _Lowercased:
    """Case goes after cutting, since the cuts depend on it. A class, so that it can be pickled."""

    tokenize: Tokenizer

    def __call__(self, text: str) -> list[str]:
        return [token.lower() for token in self.tokenize(text)]


@dataclass(frozen=True)
class _Checked:
    """A user's function, held to what the rest of the package relies on."""

    tokenize: Callable[[str], object]

    def __call__(self, text: str) -> list[str]:
        tokens = self.tokenize(text)
        if not isinstance(tokens, list):
            raise UserError(
                "the tokenizer function must return a list of strings, "
                f"but returned {tokens!r:.60} for {text!r:.60}"
            )
        for token in tokens:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(token, str) or token.split() != [token]:
                raise UserError(
                    "the tokenizer function must return words that are strings, not empty and "
                    f"without white space, but returned {token!r:.60} for {text!r:.60}"
                )
        return tokens  # pyright: ignore[reportUnknownVariableType]


# Marks and joiners belong to words: Hindi vowels, accents written apart, Persian half-spaces.
_LETTER = r"[\p{L}\p{M}\p{N}\u200c\u200d--[\p{Han}\p{Hiragana}\p{Katakana}]]"
_END = r"(?![\p{L}\p{M}\p{N}])"
_CLITIC = rf"['’](?i:s|re|ve|ll|d|m){_END}"
_NOT = rf"[nN]['’][tT]{_END}"
_IN_NAMES = rf"(?!{_CLITIC}|(?<=[nN])['’][tT]{_END})['’]"
_JOIN = rf"(?:[-_‐‑]|(?<=\p{{L}})(?:&|{_IN_NAMES})(?=\p{{L}})|(?<=\p{{N}})[.,:/](?=\p{{N}}))"
_TITLES = r"Mr|Mrs|Ms|Dr|Prof|St|Sen|Rep|Gov|Gen|Lt|Col|Sgt|Capt|Rev|Hon|Jr|Sr|Ph\.D"
_PLACES_AND_FIRMS = (
    "Ave|Blvd|Ft|Mt|Ariz|Calif|Colo|Conn|Fla|Ky|Pa|Va|Inc|Corp|Co|Cos|Ltd|Bros|Dept|Univ"
)
_DATES_AND_MORE = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec|etc|vs"
_SHORT = f"{_TITLES}|{_PLACES_AND_FIRMS}|{_DATES_AND_MORE}"
_SITES = "com|org|net|edu|gov|info|biz|mil|eu|uk|de|fr|jp|cn|au|ca|io|tv"
_VISIBLE = r"[^\s\x1c-\x1f<>\"“”]"
_EMOJI = r"\p{Extended_Pictographic}[\p{M}\p{Emoji_Modifier}]*"

_RULES = (
    # Most words need no other rule; this line alone doubles the speed.
    r"[a-zA-Z]++(?=[ ,])",
    rf"(?:(?:https?|ftp)://|www\.){_VISIBLE}+(?<![.,;:!?)\]}}'’])",
    # Bounded as real addresses are, so that no text takes quadratic time.
    r"[\w.+-]{1,64}+@[\w-]{1,63}(?:\.[\w-]{1,63})+",
    rf"(?:{_LETTER}[\w-]{{0,62}}\.){{1,5}}(?:{_SITES}){_END}(?:/{_VISIBLE}*(?<=[\w/]))?",
    rf"(?:\p{{L}}\.){{2,}}(?:\p{{L}}{_END})?(?:-{_LETTER}+)?",
    rf"(?:{_SHORT}|\p{{Lu}}|No(?=\.\s*\d))\.(?!\.)",
    # A word lets go of the n that "n't" needs.
    rf"{_LETTER}+(?:{_JOIN}{_LETTER}+)*(?<!(?={_NOT})[nN])",
    _NOT,
    _CLITIC,
    rf"['’]\d\ds?{_END}|\.\d+{_END}",
    # Chinese characters stand alone, as spaces do not part their words; kana in runs.
    r"\p{Han}\p{M}*|[\p{Hiragana}ー]+\p{M}*|[\p{Katakana}ー]+\p{M}*",
    r"--+|==+|__+|\*\*+|~~+|##+|\.\.+|''|``",
    rf"{_EMOJI}(?:\u200d{_EMOJI})*|\p{{Regional_Indicator}}{{2}}",
    r"[^\s\x1c-\x1f]\p{M}*",
)
_TOKEN = regex.compile("|".join(_RULES), regex.VERSION1)


@cache
def _token_2() -> regex.Pattern[str]:
    """The rules of regex-2: new ones come first, so that all else is cut as before."""
    hebrew = r"[\p{Hebrew}&&\p{L}]\p{M}*"
    rules = (
        r"(?<![\p{L}\p{N}])[A-Z](?:\+\+|\#)(?![\p{L}+\#])",
        rf"(?:(?<![\p{{L}}\p{{N}}])[A-Z]\w*)?\.NET{_END}",
        # Gershayim before the last letter of an abbreviation, geresh after a letter.
        rf"(?:{hebrew})+(?:[\"״]{hebrew}|['׳](?:{hebrew})*)",
    )
    return regex.compile("|".join((*rules, *_RULES)), regex.VERSION1)
