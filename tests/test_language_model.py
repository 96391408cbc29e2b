"""What is written follows the probabilities of reading everything anew, and the seed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from tests.bilm import numpy_bilm
from tests.tiny_models import make_model

from elmo.bilm.config import GenerationConfig
from elmo.embed.embedder import Embedder
from elmo.errors import ConfigError, UserError
from elmo.evaluate import evaluate
from elmo.language_model import (
    Candidate,
    LanguageModel,
    TextScore,
    combine,
    describe,
    sampling_distribution,
)
from elmo.text.batching import pack_texts
from elmo.text.config import Batching
from elmo.text.tokenizer import TokenizerConfig

# Each word's probability is what reading the whole prefix, or suffix, anew would give.


WORDS = st.sampled_from(["the", "cat", "sat", "naïve", "雨", "unheard", "of"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=9), min_size=1, max_size=5)


def brute_force(loaded: LanguageModel, words: list[str], *, backward: bool) -> list[float]:
    """Read the words before each one anew, and look up its probability; the boundary is last."""
    model = loaded.model
    known = {word: place for place, word in enumerate(model.vocabulary.words)}
    stack = model.backward_stack if backward else model.forward_stack
    path = ["</S>", *words[::-1], "<S>"] if backward else ["<S>", *words, "</S>"]
    return [
        float(numpy_bilm.next_word(model, stack, path[:end])[known.get(path[end], 2)])
        for end in range(1, len(path))
    ]


def values(scored: TextScore) -> list[float]:
    words = [value for one in scored.words for value in (one.forward, one.backward)]
    ends = [scored.forward, scored.backward]
    return words + [value for one in ends for value in asdict(one).values()]


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_scores_are_those_of_reading_each_prefix_anew(kind: str) -> None:
    loaded = make_model(kind)
    words = ["the", "unheard", "cat", "雨"]
    (scored,) = loaded.score([words])
    ahead = brute_force(loaded, words, backward=False)
    behind = brute_force(loaded, words, backward=True)
    assert [one.word for one in scored.words] == words
    assert [one.known for one in scored.words] == [True, False, True, True]
    np.testing.assert_allclose([one.forward for one in scored.words], ahead[:-1], atol=1e-9)
    np.testing.assert_allclose([one.backward for one in scored.words], behind[-2::-1], atol=1e-9)
    for found, expected in ((scored.forward, ahead), (scored.backward, behind)):
        assert found.boundary == pytest.approx(expected[-1], abs=1e-9)
        assert found.total == pytest.approx(sum(expected), abs=1e-9)
        assert found.perplexity == pytest.approx(math.exp(-np.mean(expected)))
    assert scored.perplexity == pytest.approx(math.exp(-np.mean(ahead + behind)))


@given(TEXTS, st.integers(2, 6), st.integers(0, 20))
def test_neither_batch_nor_window_matters(texts: list[list[str]], window: int, room: int) -> None:
    loaded = make_model("both", "adaptive")
    cut = loaded.score(texts, Batching(window=window, batch_tokens=window + room))
    for together, text in zip(cut, texts, strict=True):
        (alone,) = loaded.score([text])
        assert [one.word for one in together.words] == text
        np.testing.assert_allclose(values(together), values(alone), atol=1e-9)


@pytest.mark.parametrize("loss", ["full", "sampled", "adaptive"])
def test_scores_add_up_to_the_loss_of_an_evaluation(loss: str) -> None:
    loaded = make_model("words", loss)
    texts = [["the", "cat"], ["a", "dog", "sat", "on", "the", "mat"]]
    scores = loaded.score(texts)
    batch = pack_texts(texts, loaded.model.vocabulary, spelled=False)
    expected = evaluate(loaded.model, [batch])
    forward = -sum(one.forward.total for one in scores) / expected.forward.targets
    assert forward == pytest.approx(expected.forward.loss)


def test_strings_are_cut_as_the_model_says() -> None:
    loaded = make_model()
    spaces = replace(loaded, tokenizer=TokenizerConfig(tokenizer="whitespace", lowercase=True))
    assert [one.word for one in loaded.score(["the cat's mat."])[0].words] == [
        "the", "cat", "'s", "mat", ".",
    ]  # fmt: skip
    assert [one.word for one in spaces.score(["The mat."])[0].words] == ["the", "mat."]
    own = replace(
        loaded,
        tokenizer=TokenizerConfig(tokenizer="custom"),
        custom_tokenizer=lambda text: text.split("-"),
    )
    assert [one.word for one in own.score(["the-cat"])[0].words] == ["the", "cat"]


def test_a_custom_tokenizer_is_needed_for_strings_only() -> None:
    loaded = replace(make_model(), tokenizer=TokenizerConfig(tokenizer="custom"))
    assert len(loaded.score([["the", "cat"]])) == 1
    with pytest.raises(UserError, match="tokenizer function"):
        loaded.score(["the cat"])


def test_one_string_gives_one_result() -> None:
    loaded = make_model("both")
    assert loaded.score("the cat") == loaded.score(["the cat"])[0]
    assert [one.word for one in loaded.score("the").words] == ["the"]
    assert loaded.fill("the ___") == loaded.fill(["the ___"])[0]
    assert loaded.evaluate("the cat") == loaded.evaluate([["the", "cat"]])


def test_a_model_says_what_it_is() -> None:
    assert repr(make_model()) == (
        "LanguageModel(words, 2 x 6 per direction, vocabulary 12, 1,428 parameters, cpu)"
    )


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_what_is_saved_scores_the_same(kind: str, tmp_path: Path) -> None:
    before = make_model(kind)
    before.model.float()
    before.model.compute_dtype = torch.float32
    before = replace(before, config={"run": {"command": "x"}})
    before.save_pretrained(tmp_path / "model")
    after = LanguageModel.from_pretrained(tmp_path / "model")
    assert after.path == tmp_path / "model"
    assert after.config["run"] == {"command": "x"}
    assert after.score(["the naïve cat", "雨"]) == before.score(["the naïve cat", "雨"])
    after.save_pretrained(tmp_path / "half", precision="bf16")
    assert describe(tmp_path / "half").number_format == "BF16"
    with pytest.raises(UserError, match="already exists"):
        after.save_pretrained(tmp_path / "half")


def test_bad_texts_are_refused() -> None:
    with pytest.raises(UserError, match="text 2 of 2 holds no word"):
        make_model().score(["the", " "])
    assert make_model().score([]) == []


# Candidates for a blank are those that reading either side anew, word by word, would give.


def normalised(log_weights: numpy_bilm.Array) -> numpy_bilm.Array:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def brute_force_predict(
    loaded: LanguageModel, words: list[str], place: int
) -> tuple[numpy_bilm.Array, numpy_bilm.Array, numpy_bilm.Array]:
    """The chances of all words but the special ones: from the left, from the right, from both."""
    model = loaded.model
    left = numpy_bilm.next_word(model, model.forward_stack, ["<S>", *words[:place]])[3:]
    right = numpy_bilm.next_word(model, model.backward_stack, ["</S>", *words[:place:-1]])[3:]
    counts = np.array(model.vocabulary.counts[3:], float)
    both = np.exp(left) * np.exp(right) / (counts / counts.sum())
    return normalised(left), normalised(right), both / both.sum()


def check(
    loaded: LanguageModel, candidates: tuple[Candidate, ...], expected: numpy_bilm.Array
) -> None:
    order = np.argsort(-expected)[: len(candidates)]
    assert [one.word for one in candidates] == [
        loaded.model.vocabulary.words[3 + place] for place in order
    ]
    np.testing.assert_allclose([one.probability for one in candidates], expected[order], atol=1e-9)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_candidates_are_those_of_both_sides(kind: str) -> None:
    loaded = make_model(kind)
    (found,) = loaded.fill(["the unheard ___ sat on"], 4)
    (blank,) = found.blanks
    expected = brute_force_predict(loaded, ["the", "unheard", "", "sat", "on"], 2)
    assert blank.place == 2
    check(loaded, blank.forward, expected[0])
    check(loaded, blank.backward, expected[1])
    check(loaded, blank.combined, expected[2])
    assert len(blank.forward) == 4
    assert found.words == ("the", "unheard", blank.combined[0].word, "sat", "on")


@pytest.mark.parametrize("window", [2, 256])
def test_each_of_several_blanks_takes_the_others_as_unknown(window: int) -> None:
    loaded = make_model("both")
    texts = ["___ cat ____ on the _____", "a ___"]
    batching = Batching(window=window, batch_tokens=max(window, 20))
    found, short = loaded.fill(texts, batching=batching)
    words = ["<UNK>", "cat", "<UNK>", "on", "the", "<UNK>"]
    assert [blank.place for blank in found.blanks] == [0, 2, 5]
    for blank in found.blanks:
        expected = brute_force_predict(loaded, words, blank.place)
        check(loaded, blank.forward, expected[0])
        check(loaded, blank.backward, expected[1])
        check(loaded, blank.combined, expected[2])
    assert [blank.place for blank in short.blanks] == [1]


def test_special_words_are_never_proposed() -> None:
    loaded = make_model()
    loaded.model.output.bias.data[:3] = 50.0  # pyright: ignore
    (found,) = loaded.fill(["the ___"], 1000)
    for kind in (found.blanks[0].forward, found.blanks[0].backward, found.blanks[0].combined):
        assert {one.word for one in kind} == set(loaded.model.vocabulary.words[3:])
        assert sum(one.probability for one in kind) == pytest.approx(1)


def test_both_sides_together_are_exact_where_they_are_independent_given_the_word() -> None:
    rng = np.random.default_rng(0)
    prior = rng.dirichlet(np.ones(5))
    left, right = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))  # p(side | word)
    given_left = prior * left / (prior * left).sum()
    given_right = prior * right / (prior * right).sum()
    logs = [torch.from_numpy(one).log() for one in (given_left, given_right, prior)]
    expected = prior * left * right / (prior * left * right).sum()
    np.testing.assert_allclose(combine(*logs).exp().numpy(), expected)


def test_a_blank_may_be_marked_in_another_way() -> None:
    loaded = make_model()
    for text in ("the [MASK] sat", ["the", "[MASK]", "sat"]):
        (found,) = loaded.fill([text], blank="[MASK]")
        assert (found.words[0], found.blanks[0].place, found.words[2]) == ("the", 1, "sat")
    found = loaded.fill("(___)")
    assert (found.words[0], found.blanks[0].place, found.words[2]) == ("(", 1, ")")
    (found,) = loaded.fill([["___"]])
    assert (len(found.words), found.blanks[0].place) == (1, 0)


def test_what_cannot_be_answered_is_refused() -> None:
    loaded = make_model()
    with pytest.raises(UserError, match="a text with a blank"):
        loaded.fill(["the cat"])
    with pytest.raises(UserError, match="a text with a blank"):
        loaded.fill([["the", "cat"]])
    with pytest.raises(UserError, match="at least one candidate per blank, got 0"):
        loaded.fill(["the ___"], 0)
    with pytest.raises(UserError, match="blank: expected a mark"):
        loaded.fill(["the ___"], blank="")


DIRECTIONS = pytest.mark.parametrize("direction", ["forward", "backward"])


def brute_force_generate(
    loaded: LanguageModel, prompt: list[str], length: int, direction: str
) -> list[str]:
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
        made = loaded.generate(prompt, config)
        assert list(made.words) == brute_force_generate(loaded, prompt, 12, direction)
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
            loaded.generate(
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


def test_settings_may_be_given_by_name() -> None:
    loaded = make_model()
    config = GenerationConfig(temperature=0.5, length=7, seed=3)
    assert loaded.generate("the", temperature=0.5, length=7, seed=3) == loaded.generate(
        "the", config
    )
    assert loaded.generate("the", config, seed=4) == loaded.generate("the", replace(config, seed=4))


def test_the_seed_decides() -> None:
    loaded = make_model()
    texts = [loaded.generate("the", GenerationConfig(seed=seed)) for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 2


def test_the_global_generator_is_left_alone() -> None:
    loaded = make_model()
    before = torch.get_rng_state()
    loaded.generate()
    assert torch.equal(torch.get_rng_state(), before)


@DIRECTIONS
def test_a_boundary_ends_a_text_and_the_unknown_word_is_never_written(direction: str) -> None:
    loaded = make_model()
    bias = loaded.model.output.bias.data  # pyright: ignore
    bias[2] = 50.0  # pyright: ignore
    config = GenerationConfig(direction=direction, length=200)  # pyright: ignore
    bias[:2] = -50.0  # pyright: ignore
    made = loaded.generate(["cat"], config)
    assert not made.ended
    assert len(made.written) == 200
    assert set(made.written) <= set(loaded.model.vocabulary.words[3:])
    bias[0 if direction == "backward" else 1] = 40.0  # pyright: ignore
    made = loaded.generate(["cat"], config)
    assert made.ended
    assert made.words == ("cat",)


def test_backward_text_reads_from_left_to_right() -> None:
    loaded = make_model()
    made = loaded.generate("the cat", GenerationConfig(direction="backward", length=5, seed=3))
    assert made.words[-2:] == ("the", "cat")
    assert made.words == made.written + made.prompt


LOGITS = st.lists(st.floats(-20, 20), min_size=1, max_size=12)


@given(LOGITS, st.floats(0.1, 5), st.none() | st.integers(1, 15), st.floats(0.01, 1))
def test_cuts_keep_the_most_probable_words(
    logits: list[float], temperature: float, top_k: int | None, top_p: float
) -> None:
    config = GenerationConfig(temperature=temperature, top_k=top_k, top_p=top_p)
    found = sampling_distribution(torch.tensor(logits, dtype=torch.float64), config).numpy()
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
    found = sampling_distribution(logits, GenerationConfig(temperature=1e-300))
    assert found.tolist() == [0, 1, 0, 0]


def test_contradictory_settings_are_named_at_once() -> None:
    config = GenerationConfig(length=0, temperature=-1, top_k=0, top_p=0, seed=-1)
    with pytest.raises(ConfigError) as raised:
        make_model().generate("the", config)
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "length", "temperature", "top_k", "top_p", "seed",
    ]  # fmt: skip
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ConfigError):
            make_model().generate("the", GenerationConfig(temperature=bad))


@pytest.mark.parametrize(
    "texts",
    [None, 5, math.nan, b"oil", [b"oil"], [None], [5], [["oil", 5]], np.array("oil"), np.zeros(2)],
)
def test_what_is_no_text_is_refused_by_every_verb(texts: Any) -> None:
    """`score([b"oil"])` gave the scores of three unknown words, and None a TypeError."""
    model = make_model()
    for call in (model.score, model.fill, model.evaluate, Embedder(model).encode):
        with pytest.raises(UserError, match="expected"):
            call(texts)
    with pytest.raises(UserError, match="expected"):
        model.generate(texts)
    assert model.score(np.array(["the cat", "the dog"]))[1].words[1].word == "dog"


def test_nothing_has_no_perplexity() -> None:
    for texts in ([], [""], [[]]):
        with pytest.raises(UserError, match="no word"):
            make_model().evaluate(texts)
