"""How figures are written: the same way wherever the report shows them."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.study.results import Setting, Spread

SIGNIFICANT = 0.05
"""Below this p a difference is called one."""
SMALLEST_P = 1e-300
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def score(value: float) -> str:
    """An accuracy, an F1 or a weight."""
    return f"{value:.4f}"


def spread(figures: Spread, seeds: int) -> str:
    """A mean, with its deviation if there are several seeds."""
    return score(figures.mean) + (f" ± {figures.deviation:.4f}" if seeds > 1 else "")


def interval(low: float, high: float) -> str:
    """An interval for a cell."""
    return f"{score(low)}–{score(high)}"


def within(figures: Spread) -> str:
    """A mean and its interval for a sentence."""
    return f"{score(figures.mean)} ({score(figures.low)} to {score(figures.high)})"


def whole(number: int) -> str:
    """A count, in thousands."""
    return f"{number:,}"


def counted(number: int, what: str) -> str:
    """A count of things that take an s."""
    return f"{whole(number)} {what}{'' if number == 1 else 's'}"


def speed(per_second: float) -> str:
    """Things a second."""
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def p_cell(p: float) -> str:
    """A p-value, rounded to neither side of where a difference begins."""
    if p < SMALLEST_P:
        return f"< {_without_zeros(SMALLEST_P)}"
    if p < 0.001:
        return _without_zeros(p)
    return next(
        text
        for digits in range(2, 18)
        if (float(text := f"{p:.{digits}g}") < SIGNIFICANT) == (p < SIGNIFICANT)
    )


def p_value(p: float) -> str:
    """The same for a sentence, whose lines it does not break."""
    cell = p_cell(p)
    text = f"p {cell}" if cell.startswith("<") else f"p = {cell}"
    return text.replace(" ", "\N{NO-BREAK SPACE}").replace("-", "-\N{WORD JOINER}")


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days: the two largest that matter."""
    rounded = round(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if rounded < _MINUTE:
        return f"{rounded} s"
    if rounded < _HOUR:
        return f"{rounded // _MINUTE} min {rounded % _MINUTE} s"
    minutes = round(seconds / _MINUTE)
    if minutes * _MINUTE < _DAY:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / _HOUR)
    return f"{hours // 24} d {hours % 24} h"


def setting(value: Setting) -> str:
    """A setting or a fact."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def called(title: str) -> str:
    """A title for a sentence, where its comma would be taken for one of the sentence's."""
    name, _, rest = title.partition(", ")
    return f"{name} ({rest.partition(' (')[0]})" if rest else name


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def shortened(text: str, longest: int) -> str:
    """A text that is no longer than that."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def around(text: str, word: str, longest: int) -> str:
    """A part of a text that is no longer than that, with the word in it if the text has it."""
    if len(text) <= longest:
        return text
    place = max(0, f" {text} ".find(f" {word} "))
    first = max(0, min(place - (longest - len(word)) // 2, len(text) - longest))
    part = text[first : first + longest]
    # No words cut in half, but for one that is longer than that.
    if first and text[first - 1] != " ":
        part = part.partition(" ")[2] or part
    if first + longest < len(text) and text[first + longest] != " ":
        part = part.rpartition(" ")[0] or part
    return f"{'… ' * (first > 0)}{part.strip()}{' …' * (first + longest < len(text))}"


def _without_zeros(p: float) -> str:
    digit, exponent = f"{p:.0e}".split("e")
    return f"{digit}e{int(exponent)}"
