"""What is written follows the probabilities of reading everything anew, and the seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from tests.bilm import numpy_bilm
from tests.language.tiny_models import make_model

from elmo.checkpoint import LoadedModel
from elmo.errors import ConfigError
from elmo.language.generate import chances, generate
from elmo.language.generation_config import GenerationConfig

DIRECTIONS = pytest.mark.parametrize("direction", ["forward", "backward"])


def brute_force(loaded: LoadedModel, prompt: list[str], length: int, direction: str) -> list[str]:
    """Read all words anew before each choice, and take the best one."""
    model = loaded.model
    backward = direction == "backward"
    stack = model.backward_stack if backward else model.forward_stack
    read = ["</S>", *prompt[::-1]] if backward else ["<S>", *prompt]
    never, stop = ([1, 2], "<S>") if backward else ([0, 2], "</S>")
    while len(read) < 1 + len(prompt) + length:
        logits = numpy_bilm.next_word(model, stack, read)
        logits[never] = -np.inf
        word = model.vocabulary.words[int(logits.argmax())]
        if word == stop:
            break
        read.append(word)
    return read[:0:-1] if backward else read[1:]


@DIRECTIONS
@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("prompt", [[], ["the", "unheard", "cat"]])
def test_greedy_text_is_that_of_reading_everything_anew(
    kind: str, direction: str, prompt: list[str]
) -> None:
    for seed in range(4):
        loaded = make_model(kind, seed=seed)
        config = GenerationConfig(direction=direction, length=12, temperature=0)  # pyright: ignore
        made = generate(loaded, prompt, config)
        assert list(made.words) == brute_force(loaded, prompt, 12, direction)
        assert made.prompt == tuple(prompt)
        assert made.ended == (len(made.written) < 12)


@DIRECTIONS
def test_words_come_as_often_as_they_are_probable(direction: str) -> None:
    loaded = make_model("words")
    model = loaded.model
    seen = Counter(
        (made.written or ("(end)",))[0]
        for seed in range(1000)
        for made in [
            generate(
                loaded,
                ["cat"],
                GenerationConfig(direction=direction, length=1, seed=seed),  # pyright: ignore
            )
        ]
    )
    backward = direction == "backward"
    stack = model.backward_stack if backward else model.forward_stack
    logits = numpy_bilm.next_word(model, stack, ["</S>" if backward else "<S>", "cat"])
    words = ["(end)", *model.vocabulary.words[3:]]
    weights = np.exp(logits[[0 if backward else 1, *range(3, len(logits))]])
    expected = 1000 * weights / weights.sum()
    observed = np.array([seen[word] for word in words], float)
    often = expected >= 5
    both = [[*one[often], one[~often].sum() + 1e-9] for one in (observed, expected)]
    assert often.sum() > 3
    assert chisquare(*both).pvalue > 1e-3
    assert set(seen) <= set(words)


def test_the_seed_decides() -> None:
    loaded = make_model()
    texts = [generate(loaded, "the", GenerationConfig(seed=seed)) for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 2


def test_the_global_generator_is_left_alone() -> None:
    loaded = make_model()
    before = torch.get_rng_state()
    generate(loaded)
    assert torch.equal(torch.get_rng_state(), before)


@DIRECTIONS
def test_a_boundary_ends_a_text_and_the_unknown_word_is_never_written(direction: str) -> None:
    loaded = make_model()
    bias = loaded.model.output.bias.data  # pyright: ignore
    bias[2] = 50.0  # pyright: ignore
    config = GenerationConfig(direction=direction, length=200)  # pyright: ignore
    bias[:2] = -50.0  # pyright: ignore
    made = generate(loaded, ["cat"], config)
    assert not made.ended
    assert len(made.written) == 200
    assert set(made.written) <= set(loaded.model.vocabulary.words[3:])
    bias[0 if direction == "backward" else 1] = 40.0  # pyright: ignore
    made = generate(loaded, ["cat"], config)
    assert made.ended
    assert made.words == ("cat",)


def test_backward_text_reads_from_left_to_right() -> None:
    loaded = make_model()
    made = generate(loaded, "the cat", GenerationConfig(direction="backward", length=5, seed=3))
    assert made.words[-2:] == ("the", "cat")
    assert made.words == made.written + made.prompt


LOGITS = st.lists(st.floats(-20, 20), min_size=1, max_size=12)


@given(LOGITS, st.floats(0.1, 5), st.none() | st.integers(1, 15), st.floats(0.01, 1))
def test_cuts_keep_the_most_probable_words(
    logits: list[float], temperature: float, top_k: int | None, top_p: float
) -> None:
    config = GenerationConfig(temperature=temperature, top_k=top_k, top_p=top_p)
    found = chances(torch.tensor(logits, dtype=torch.float64), config).numpy()
    weights = np.exp((np.array(logits) - max(logits)) / temperature)
    best = np.sort(weights)[::-1][:top_k]
    kept = found > 0
    assert found.sum() == pytest.approx(1)
    assert weights[kept].min() >= weights[~kept].max(initial=0) - 1e-12
    assert kept.sum() <= len(best)
    share = weights[kept] / best.sum()
    assert share.sum() >= top_p - 1e-9
    assert share.sum() - share.min() < top_p + 1e-9
    np.testing.assert_allclose(found[kept], weights[kept] / weights[kept].sum())


def test_a_tiny_temperature_is_greedy() -> None:
    logits = torch.tensor([1.0, 3.0, -torch.inf, 2.999], dtype=torch.float64)
    found = chances(logits, GenerationConfig(temperature=1e-300))
    assert found.tolist() == [0, 1, 0, 0]


def test_contradictory_settings_are_named_at_once() -> None:
    config = GenerationConfig(length=0, temperature=-1, top_k=0, top_p=0, seed=-1)
    with pytest.raises(ConfigError) as raised:
        generate(make_model(), "the", config)
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "length", "temperature", "top_k", "top_p", "seed",
    ]  # fmt: skip
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ConfigError):
            generate(make_model(), "the", GenerationConfig(temperature=bad))
