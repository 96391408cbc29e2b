"""Documents to words: a fast Unicode tokenizer in the manner of the Penn Treebank, or your own.

Written here since a tokenizer must be the same wherever a model is used, must lose no character
and needs no more than one regular expression; the libraries made for it bring whole pipelines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import regex

from elmo.errors import UserError

Tokenizer = Callable[[str], list[str]]


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How documents are cut into words; saved with every model."""

    tokenizer: Literal["regex", "whitespace", "custom"] = "regex"
    """regex: words, numbers and punctuation apart; whitespace: the text is tokenized already and
    is cut at spaces only; custom: a Python function of your own."""

    lowercase: bool = False
    """Whether words are made lower case; ELMo reads characters, so case is best kept."""


def build_tokenizer(config: TokenizerConfig, custom: Tokenizer | None = None) -> Tokenizer:
    """Give the function that cuts a document into words."""
    if (config.tokenizer == "custom") != (custom is not None):
        raise UserError(
            "a tokenizer function is given exactly if the tokenizer is 'custom', but "
            f"it is {config.tokenizer!r} and there is {'no' if custom is None else 'a'} function; "
            "pass the function the model was trained with, or choose the tokenizer 'custom'"
        )
    if custom is not None:
        tokenize: Tokenizer = _Checked(custom)
    else:
        tokenize = tokenize_words if config.tokenizer == "regex" else str.split
    return _Lowercased(tokenize) if config.lowercase else tokenize


def tokenize_words(text: str) -> list[str]:
    """Cut a text into words, numbers and punctuation; only white space is lost."""
    return _TOKEN.findall(text)


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

_TOKEN = regex.compile(
    "|".join(
        (
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
    ),
    regex.VERSION1,
)
