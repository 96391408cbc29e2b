"""Vectors are what NumPy makes of each text alone, however texts are read together."""

from __future__ import annotations

import copy
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.bilm import numpy_bilm
from tests.tiny_models import VOCABULARY, make_model
from torch.nn.utils.rnn import pad_sequence

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Embedder, Progress, usual_batch_tokens
from elmo.embed.mix import LayerMix
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.model_folder import save_config, save_weights
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import Vocabulary

# How many words are read at a time where nobody says.


WORDS = Vocabulary(("<S>", "</S>", "<UNK>", "oil"), (1, 1, 1, 1))


@pytest.mark.parametrize(
    ("hidden", "tokens"), [(16, 32768), (128, 32768), (256, 16384), (512, 8192), (1024, 8192)]
)
def test_the_smaller_the_model_the_more(hidden: int, tokens: int) -> None:
    config = BiLMConfig(word_dim=8, hidden=hidden, projection=8)
    assert usual_batch_tokens(BiLM(config, WORDS)) == tokens


Array = NDArray[np.float64]
CLOSE = {"rtol": 0, "atol": 2e-6}
WORDS_embedder = st.sampled_from(["the", "cat", "sat", "naïve", "雨", "unheard", "of"])
TEXTS = st.lists(st.lists(WORDS_embedder, max_size=9), min_size=1, max_size=6)
MODELS = {kind: make_model(kind) for kind in ("words", "characters", "both")}
EMBEDDERS = {kind: Embedder(loaded) for kind, loaded in MODELS.items()}
WORD_MODEL = EMBEDDERS["words"]
SENTENCES = [["the", "cat", "sat"], ["雨"], ["a", "naïve", "dog", "sat", "on", "a", "mat"]]


def expected(model: BiLM, text: list[str]) -> Array:
    """(layers, words, dim), one text read alone and at once."""
    if not text:
        return np.zeros((1 + model.config.layers, 0, 2 * model.config.width))
    return numpy_bilm.activations(model, text)


@pytest.mark.parametrize("texts", [1, 2, 6])
def test_vectors_under_autocast_are_the_same(texts: int) -> None:
    embedder = Embedder.from_pretrained()
    sentences = (SENTENCES * 2)[:texts]
    before = embedder.encode(sentences)
    with torch.autocast("cpu"):
        np.testing.assert_array_equal(embedder.encode(sentences), before)
        fresh = Embedder.from_pretrained(mix=MixConfig(mix="frozen", layer_weights=(1, 0, 0)))
        words = fresh.encode(sentences)
    np.testing.assert_array_equal(fresh.encode(sentences), words)


def longer(length: int) -> list[str]:
    random = np.random.default_rng(length)
    return [str(word) for word in random.choice(VOCABULARY.words[3:], length)]


@pytest.mark.parametrize("kind", list(EMBEDDERS))
@pytest.mark.parametrize("layer", [0, 1, 2, "top", "average", "mix"])
def test_each_layer_against_an_independent_computation(kind: str, layer: Any) -> None:
    embedder = EMBEDDERS[kind]
    for text, found in zip(
        SENTENCES, embedder.encode(SENTENCES, output="tokens", layer=layer), strict=True
    ):
        layers = expected(embedder.model, text)
        whole = {"top": layers[-1], "average": layers.mean(0), "mix": layers.mean(0)}
        assert found.dtype == np.float32
        np.testing.assert_allclose(
            found, whole[layer] if layer in whole else layers[layer], **CLOSE
        )


def test_all_layers_come_as_layers_words_dim() -> None:
    for text, found in zip(
        SENTENCES, WORD_MODEL.encode(SENTENCES, output="tokens", layer="all"), strict=True
    ):
        np.testing.assert_allclose(found, expected(WORD_MODEL.model, text), **CLOSE)
    pooled = WORD_MODEL.encode(SENTENCES, layer="all")
    assert pooled.shape == (3, 3, 12)
    np.testing.assert_allclose(pooled[2], expected(WORD_MODEL.model, SENTENCES[2]).mean(1), **CLOSE)


@given(TEXTS, st.sampled_from(["mean", "std", "max", "first", "last", "mean+std+max"]))
def test_pooling_sees_words_only(texts: list[list[str]], pooling: str) -> None:
    found = WORD_MODEL.encode(texts, layer=2, pooling=pooling)
    pools = {
        "mean": lambda x: x.mean(0),
        "std": lambda x: x.std(0),
        "max": lambda x: x.max(0),
        "first": lambda x: x[0],
        "last": lambda x: x[-1],
    }
    for row, text in zip(found, texts, strict=True):
        words = expected(WORD_MODEL.model, text)[2]
        parts = [pools[one](words) if text else np.zeros(12) for one in pooling.split("+")]
        np.testing.assert_allclose(row, np.concatenate(parts), **CLOSE)


@given(
    TEXTS,
    st.sampled_from(["words", "characters", "both"]),
    st.sampled_from([2, 3, 7, 4096]),
    st.sampled_from(["zero", "warm"]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=15)
def test_batch_order_padding_and_history_change_nothing(
    texts: list[list[str]], kind: str, batch_tokens: int, start: Any, random: Any
) -> None:
    embedder = EMBEDDERS[kind]
    options: Any = {"output": "tokens", "layer": "all", "initial_state": start}
    alone = [embedder.encode([text], **options)[0] for text in texts]
    order = list(range(len(texts)))
    random.shuffle(order)
    together = embedder.encode([texts[n] for n in order], **options, batch_tokens=batch_tokens)
    for number, found in zip(order, together, strict=True):
        np.testing.assert_allclose(found, alone[number], **CLOSE)


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_a_long_text_in_windows_equals_reading_it_at_once(kind: str) -> None:
    texts = [longer(61), ["cat"], longer(20)]
    (at_once, _, _) = EMBEDDERS[kind].encode(texts, output="tokens", layer="all")
    for batch_tokens in (8, 61, 62, 63):
        options: Any = {"output": "tokens", "layer": "all", "batch_tokens": batch_tokens}
        found = EMBEDDERS[kind].encode(texts, **options)
        np.testing.assert_allclose(found[0], at_once, **CLOSE)
        np.testing.assert_allclose(found[2], expected(MODELS[kind].model, texts[2]), **CLOSE)


def carried_in_numpy(model: BiLM, texts: list[list[str]]) -> list[Array]:
    """Texts one after the other, each direction's state going on through all boundaries."""
    found: list[list[Array]] = []
    for direction in model.directions:
        backward = direction is model.backward_stack
        states: list[tuple[Array, Array]] = [
            (np.zeros(layer.width), np.zeros(layer.hidden))  # pyright: ignore
            for layer in direction.layers
        ]
        outputs: list[Array] = []
        for text in texts:
            read = ["<S>", *text, "</S>"]
            inputs = numpy_bilm.tokens(model, read[::-1] if backward else read)
            layers = [inputs]
            for number, layer in enumerate(direction.layers):
                inputs, *state = numpy_bilm.lstm(layer, inputs, *states[number])  # pyright: ignore
                states[number] = (state[0], state[1])
                layers.append(inputs)
            stacked = np.stack(layers)
            outputs.append((stacked[:, ::-1] if backward else stacked)[:, 1:-1])
        found.append(outputs)
    return [np.concatenate(pair, axis=2) for pair in zip(*found, strict=True)]


@given(TEXTS, st.integers(1, 3), st.sampled_from([2, 9, 4096]))
@settings(max_examples=10)
def test_carried_states_equal_reading_on_in_each_slot(
    texts: list[list[str]], slots: int, batch_tokens: int
) -> None:
    options: Any = {"initial_state": "carry", "slots": slots, "batch_tokens": batch_tokens}
    found = WORD_MODEL.encode(texts, output="tokens", layer="all", **options)
    for slot in range(min(slots, len(texts))):
        wanted = carried_in_numpy(WORD_MODEL.model, texts[slot::slots])
        for one, other in zip(found[slot::slots], wanted, strict=True):
            np.testing.assert_allclose(one, other, **CLOSE)
    again = WORD_MODEL.encode(texts, output="tokens", layer="all", **options)
    assert all(np.array_equal(one, other) for one, other in zip(found, again, strict=True))


def test_a_warm_start_reads_on_from_a_neutral_context() -> None:
    model = WORD_MODEL.model
    context = list(VOCABULARY.words[3:])
    (warm,) = WORD_MODEL.encode([SENTENCES[0]], output="tokens", layer="all", initial_state="warm")
    (_, wanted) = carried_in_numpy(model, [context, SENTENCES[0]])
    np.testing.assert_allclose(warm, wanted, **CLOSE)
    assert not np.allclose(warm, expected(model, SENTENCES[0]), atol=1e-3)


def test_streaming_gives_what_encoding_at_once_gives() -> None:
    texts = [longer(n % 7) for n in range(30)]
    for options in ({"layer": 1}, {"output": "tokens"}, {"initial_state": "carry", "slots": 7}):
        streamed = WORD_MODEL.encode_iter(iter(texts), batch_tokens=9, **options)
        whole = WORD_MODEL.encode(texts, **options)  # pyright: ignore
        for one, other in zip(streamed, whole, strict=True):
            np.testing.assert_allclose(one, other, **CLOSE)


def test_only_some_texts_are_taken_at_a_time() -> None:
    taken: list[int] = []

    def texts() -> Any:
        for number in range(1000):
            taken.append(number)
            yield ["cat"] * 5

    next(WORD_MODEL.encode_iter(texts(), batch_tokens=12))
    assert len(taken) < 50


def test_strings_are_cut_as_in_training() -> None:
    cut = WORD_MODEL.loaded.tokenize("The cat sat.")
    found = WORD_MODEL.encode(["The cat sat.", cut])
    np.testing.assert_array_equal(found[0], found[1])


def test_a_text_without_words_is_zeros_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = WORD_MODEL.encode(["the cat", " ", "dog"], pooling="max")
    assert (found[1] == 0).all()
    assert found[[0, 2]].any()
    assert "text 1" in caplog.text


def test_no_texts_give_empty_arrays() -> None:
    assert WORD_MODEL.encode([]).shape == (0, 12)
    assert WORD_MODEL.encode([], layer="all", pooling="mean+max").shape == (0, 3, 24)
    assert WORD_MODEL.encode([], output="tokens") == []


def test_a_mix_of_ones_own() -> None:
    config = MixConfig(mix="frozen", layer_weights=(0.2, 0.3, 0.5), gamma=2.0)
    layers = expected(WORD_MODEL.model, SENTENCES[0])
    wanted = 2 * np.einsum("l,lwd->wd", [0.2, 0.3, 0.5], layers)
    for mix in (config, LayerMix(config, 3, 12)):
        embedder = Embedder(MODELS["words"], mix=mix)
        (found,) = embedder.encode(SENTENCES[:1], output="tokens")
        np.testing.assert_allclose(found, wanted, **CLOSE)
    joined = Embedder(MODELS["words"], mix=MixConfig(mix="concatenation"))
    assert joined.encode(SENTENCES).shape == (3, 36)
    with pytest.raises(UserError, match=r"expected a mix of 3 layers of size 12, .* got 4"):
        Embedder(MODELS["words"], mix=LayerMix(MixConfig(), 4, 12))


def test_progress_is_told() -> None:
    told: list[Progress] = []
    WORD_MODEL.encode(SENTENCES, batch_tokens=8, progress=told.append)
    assert [one.texts for one in told] == sorted(one.texts for one in told)
    assert (told[-1].texts, told[-1].total, told[-1].tokens) == (3, 3, 11)
    assert told[-1].seconds_left == 0


def test_nothing_of_the_model_changes() -> None:
    before = {name: one.clone() for name, one in WORD_MODEL.model.state_dict().items()}
    state = torch.get_rng_state()
    WORD_MODEL.encode(SENTENCES, initial_state="warm")
    assert torch.equal(torch.get_rng_state(), state)
    after = WORD_MODEL.model.state_dict()
    assert all(torch.equal(one, after[name]) for name, one in before.items())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    loaded = make_model()
    save_config(tmp_path, loaded.model.config, loaded.tokenizer, {})
    save_weights(tmp_path / "model.safetensors", loaded.model.float())
    VOCABULARY.save(tmp_path / "vocabulary.txt")
    return tmp_path


def test_a_saved_model_gives_the_same_vectors(folder: Path) -> None:
    found = Embedder.from_pretrained(folder).encode(SENTENCES)
    np.testing.assert_allclose(found, WORD_MODEL.encode(SENTENCES), rtol=0, atol=1e-5)
    half = Embedder.from_pretrained(folder, dtype="bfloat16").encode(SENTENCES[:1])
    np.testing.assert_allclose(half, found[:1], rtol=0, atol=0.1)


def test_the_warm_state_follows_the_weights(folder: Path) -> None:
    embedder = Embedder.from_pretrained(folder)
    before = embedder.encode(SENTENCES, initial_state="warm")
    assert embedder.warm_state is embedder.warm_state
    with torch.no_grad():
        for parameter in embedder.model.forward_stack.parameters():
            parameter.mul_(1.5)
    expected = Embedder(embedder.loaded).encode(SENTENCES, initial_state="warm")
    assert not np.allclose(before, expected, atol=1e-3)
    for changed in (embedder, copy.deepcopy(embedder)):
        found = changed.encode(SENTENCES, initial_state="warm")
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 3}, "layers 0 to 2"),
        ({"layer": -1}, "layers 0 to 2"),
        ({"layer": "tpo"}, "layer: expected a whole number or one of mix, top"),
        ({"layer": 1.5}, "layer: expected a whole number .* got 1.5"),
        ({"layer": None}, "layer: expected a whole number .* got None"),
        ({"layer": np.int64(3)}, "layers 0 to 2"),
        ({"pooling": ["mean", "max"]}, r"pooling: expected mean, .* got \['mean', 'max'\]"),
        ({"slots": "2"}, "slots: expected a whole number of at least 1, got '2'"),
        ({"batch_tokens": "9"}, "batch_tokens: expected a whole number of at least 2, got '9'"),
        ({"pooling": "mean+median"}, "got 'median'"),
        ({"initial_state": "cold"}, "expected zero, warm or carry"),
        ({"slots": 2}, "expected 1 unless initial_state is carry"),
        ({"batch_tokens": 1, "output": "words"}, "2 problems"),
    ],
)
def test_bad_settings_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        WORD_MODEL.encode(SENTENCES, **settings)  # pyright: ignore


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["cat", None], "text 1: expected a string or a list of words, got NoneType"),
        ([["cat", 3]], "text 0: expected words, got int: 3"),
    ],
)
def test_bad_texts_are_told(texts: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        WORD_MODEL.encode(texts)


def test_one_string_gives_the_result_of_that_text() -> None:
    np.testing.assert_array_equal(WORD_MODEL.encode("the cat"), WORD_MODEL.encode(["the cat"])[0])
    tokens = WORD_MODEL.encode("the cat", output="tokens", layer="all")
    assert tokens.shape == (3, 2, 12)
    with pytest.raises(UserError, match="put it in a list"):
        next(WORD_MODEL.encode_iter("the cat"))


# An embedder in Hugging Face's datasets: the same vectors, batch by batch.


TEXTS_map_function = ["the cat sat", "a dog", "naïve 雨", "the mat on the mat", "cat"]


@pytest.fixture(scope="module")
def embedder(vocabulary) -> Embedder:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    return Embedder(LanguageModel(model, TokenizerConfig()))


@pytest.mark.filterwarnings("ignore")
def test_map_adds_a_column_of_vectors(embedder):
    datasets = pytest.importorskip("datasets", reason="needs the extra `datasets`")
    rows = datasets.Dataset.from_dict({"text": TEXTS_map_function, "label": range(5)})

    def encode(batch):
        return {"vector": embedder.encode(batch["text"], layer="top")}

    mapped = rows.map(encode, batched=True, batch_size=2)
    assert mapped["label"][:] == list(range(5))
    expected = embedder.encode(TEXTS_map_function, layer="top")
    np.testing.assert_allclose(np.array(mapped["vector"][:]), expected, rtol=1e-5, atol=1e-6)


# What users of other libraries type.


def saved(folder: Path) -> Embedder:
    make_model().save_pretrained(folder)
    return Embedder.from_pretrained(folder)


@pytest.mark.parametrize("output", ["pooled", "tokens"])
def test_one_string_gives_what_it_gives_in_a_list(output: Any) -> None:
    for text in ("the cat sat", ""):
        (expected,) = WORD_MODEL.encode([text], output=output)
        np.testing.assert_array_equal(WORD_MODEL.encode(text, output=output), expected)


@given(TEXTS)
@settings(max_examples=20, deadline=None)
def test_normalised_vectors_have_length_one_and_the_same_direction(texts: list[list[str]]) -> None:
    plain = WORD_MODEL.encode(texts).astype(np.float64)
    found = WORD_MODEL.encode(texts, normalize=True)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(found, plain / np.where(lengths == 0, 1, lengths), **CLOSE)
    words = WORD_MODEL.encode(texts, output="tokens", normalize=True)
    for text in words:
        np.testing.assert_allclose(np.linalg.norm(text, axis=-1), 1, **CLOSE)


def test_tensors_hold_what_arrays_hold() -> None:
    vectors = WORD_MODEL.encode(SENTENCES, convert_to="torch")
    assert isinstance(vectors, torch.Tensor)
    np.testing.assert_array_equal(vectors.numpy(), WORD_MODEL.encode(SENTENCES))
    words = WORD_MODEL.encode(SENTENCES, output="tokens", convert_to="torch")
    assert [tuple(text.shape) for text in words] == [(3, 12), (1, 12), (7, 12)]
    assert pad_sequence(words, batch_first=True).shape == (3, 7, 12)
    assert WORD_MODEL.encode("the cat", convert_to="torch").shape == (12,)
    with pytest.raises(UserError, match="convert_to: expected numpy or torch, got 'list'"):
        WORD_MODEL.encode(SENTENCES, convert_to="list")  # pyright: ignore


def test_similarity_is_the_cosine_and_zero_without_words() -> None:
    vectors = WORD_MODEL.encode([*SENTENCES, []])
    found = WORD_MODEL.similarity(vectors, vectors[:2])
    for row, a in enumerate(vectors.astype(np.float64)):
        for column, b in enumerate(vectors[:2].astype(np.float64)):
            norms = np.linalg.norm(a) * np.linalg.norm(b)
            assert found[row, column] == pytest.approx(a @ b / norms if norms else 0, abs=1e-6)
    assert WORD_MODEL.similarity(vectors[0], vectors[0]) == pytest.approx(1, abs=1e-6)


def test_a_progress_bar_is_shown_on_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    shown = WORD_MODEL.encode(SENTENCES, show_progress=True)
    np.testing.assert_array_equal(shown, WORD_MODEL.encode(SENTENCES))
    out, error = capfd.readouterr()
    assert out == ""
    assert "tokens/s" in error
    seen: list[int] = []
    WORD_MODEL.encode(SENTENCES, show_progress=True, progress=lambda done: seen.append(done.texts))
    assert seen[-1] == len(SENTENCES)
    assert "tokens/s" in capfd.readouterr().err


def test_repr_says_what_it_is(tmp_path: Path) -> None:
    text = repr(saved(tmp_path / "model"))
    for part in (str(tmp_path / "model"), "words", "2 layers of 12", "average", "dim=12", "cpu"):
        assert part in text


def test_a_pickle_holds_path_and_settings_not_weights(tmp_path: Path) -> None:
    embedder = saved(tmp_path / "model")
    embedder.mix = LayerMix(MixConfig(mix="trainable"), 3, 12)
    with torch.no_grad():
        embedder.mix.scale.fill_(2.0)
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 4096
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.encode(SENTENCES), embedder.encode(SENTENCES))
    with torch.no_grad():
        next(embedder.model.parameters()).add_(1)
    with pytest.raises(UserError, match="the weights have changed"):
        pickle.dumps(embedder)
    with pytest.raises(UserError, match="loaded from a folder"):
        pickle.dumps(WORD_MODEL)


def test_a_deep_copy_has_weights_of_its_own(tmp_path: Path) -> None:
    embedder = saved(tmp_path / "model")
    before = embedder.encode(SENTENCES)
    copied = copy.deepcopy(embedder)
    with torch.no_grad():
        next(embedder.model.parameters()).add_(1)
    np.testing.assert_array_equal(copied.encode(SENTENCES), before)
    assert not np.allclose(embedder.encode(SENTENCES), before)


@pytest.mark.parametrize("texts", [None, 7, iter(["the cat"])])
def test_what_is_no_list_of_texts_is_told(texts: Any) -> None:
    with pytest.raises(UserError, match="expected a text or a list of texts"):
        WORD_MODEL.encode(texts)
