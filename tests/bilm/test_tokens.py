"""The token layer against the official equations, written with loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.bilm.numpy_bilm import array, character_features, highway_layer, official_row, token
from torch import Tensor

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.tokens import CharacterCNN, Highway, TokenLayer, look_up
from elmo.text.batches import Words, sentence_batch
from elmo.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "cat", "naïve", "雨", "x" * 60, "unheard"]
CHARACTERS = CharacterConfig(char_dim=3, filters=((1, 2), (2, 3), (7, 4)), highways=2)
ACTIVATIONS = {"relu": lambda x: max(0.0, x), "tanh": np.tanh}


def config(kind: str, **settings: object) -> BiLMConfig:
    given = {"word_dim": 4, "hidden": 5, "softmax": SoftmaxConfig(tied=False), **settings}
    return BiLMConfig(input=kind, characters=CHARACTERS, **given)  # pyright: ignore


def shaken(module: torch.nn.Module) -> None:
    """Give every parameter, biases included, a value that would be missed."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=parameter.dtype) * 0.3)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("highways", [0, 1, 2])
def test_character_features(activation: str, highways: int) -> None:
    torch.manual_seed(0)
    settings = CharacterConfig(
        char_dim=3,
        filters=((1, 2), (2, 3), (7, 4)),
        highways=highways,
        activation=activation,  # pyright: ignore
    )
    cnn = CharacterCNN(settings).double()
    shaken(cnn)
    rows = [official_row(word) for word in WORDS]
    found = cnn(torch.tensor(rows))
    expected = [character_features(cnn, row, ACTIVATIONS[activation]) for row in rows]
    np.testing.assert_allclose(array(found), np.array(expected), atol=1e-12)


def test_highway() -> None:
    torch.manual_seed(1)
    highway = Highway(4).double()
    # "Carry" gates the transform: at first a highway lets nearly everything pass.
    assert highway.gate.bias.eq(-2).all()
    assert highway.transform.bias.eq(0).all()
    shaken(highway)
    inputs = torch.randn(3, 4, dtype=torch.float64)
    expected = np.array([highway_layer(highway, array(row)) for row in inputs])
    np.testing.assert_allclose(array(highway(inputs)), expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("projection", [None, 4])
def test_token_vectors(vocabulary: Vocabulary, kind: str, projection: int | None) -> None:
    torch.manual_seed(2)
    layer = TokenLayer(config(kind, projection=projection), len(vocabulary)).double()
    shaken(layer)
    batch = sentence_batch([WORDS[2:]], vocabulary, spelled=kind != "words")
    found = array(layer(batch.words))[batch.forward.inputs[:, 0]]
    expected = [
        token(layer, word, vocabulary.id(word), ACTIVATIONS["relu"]) for word in ["<S>", *WORDS[2:]]
    ]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-12)


def test_word_vectors_as_wide_as_the_model_need_no_projection(vocabulary: Vocabulary) -> None:
    assert TokenLayer(config("words", word_dim=5), len(vocabulary)).projection is None
    assert TokenLayer(config("words", word_dim=4), len(vocabulary)).projection is not None
    assert TokenLayer(config("characters"), len(vocabulary)).word_vectors is None


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
def test_gradients_against_differences(vocabulary: Vocabulary, kind: str) -> None:
    torch.manual_seed(3)
    layer = TokenLayer(config(kind), len(vocabulary)).double()
    shaken(layer)
    words = sentence_batch([["cat", "雨"]], vocabulary, spelled=kind != "words").words
    parameters = dict(layer.named_parameters())
    # The vectors of characters are checked apart: most are not used by these words.
    large = {"characters.characters.weight"}
    names = [name for name in parameters if name not in large]

    def vectors(*values: Tensor) -> Tensor:
        given = {**parameters, **dict(zip(names, values, strict=True))}
        return torch.func.functional_call(layer, given, (words,))

    leaves = [parameters[name].detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(vectors, leaves, fast_mode=True)


def test_gradients_of_the_characters() -> None:
    torch.manual_seed(4)
    cnn = CharacterCNN(CHARACTERS).double()
    row = torch.tensor([official_row("cat")])
    used = sorted(set(row[0].tolist()))

    def features(vectors: Tensor) -> Tensor:
        table = cnn.characters.weight.detach().index_copy(0, torch.tensor(used), vectors)
        return torch.func.functional_call(cnn, {"characters.weight": table}, (row,))

    leaf = cnn.characters.weight.detach()[used].clone().requires_grad_()
    assert torch.autograd.gradcheck(features, (leaf,))


def test_frozen_word_vectors_get_no_gradient(vocabulary: Vocabulary) -> None:
    layer = TokenLayer(config("both", freeze_words=True), len(vocabulary))
    layer(sentence_batch([["cat"]], vocabulary, spelled=True).words).sum().backward()
    missing = [name for name, parameter in layer.named_parameters() if parameter.grad is None]
    assert missing == ["words.weight"]


def test_the_first_character_stands_for_nothing() -> None:
    assert CharacterCNN(CHARACTERS).characters.weight[0].eq(0).all()


def test_words_without_spelling_are_told_apart_by_id_only(vocabulary: Vocabulary) -> None:
    layer = TokenLayer(config("words"), len(vocabulary))
    found = layer(Words(torch.tensor([2, 2, 3]), None))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_look_up_spreads_vectors_over_a_reading() -> None:
    vectors = torch.randn(4, 3)
    places = torch.tensor([[0, 3], [3, 1]])
    assert torch.equal(look_up(vectors, places)[1, 0], vectors[3])
    assert look_up(vectors, places).shape == (2, 2, 3)
