"""How large a model and its training are: parameters counted exactly, memory estimated.

Counted from the settings alone, so that a model too large for the machine need not be built.
"""

from __future__ import annotations

from itertools import pairwise

from elmo.bilm.config import BiLMConfig, CharacterConfig
from elmo.pretrain.config import OptimizerName, PretrainConfig
from elmo.text.characters import CHARACTER_IDS, ROW_LENGTH

BYTES = 4
MOMENTS: dict[OptimizerName, int] = {"adamw": 2, "adagrad": 1, "sgd": 1}
DISTINCT_SHARE = 0.4
"""Distinct words among the tokens of a batch, as a rule of thumb."""
DIRECTIONS = 2
RUNTIME_BYTES = 400 << 20
"""What Python and PyTorch take before there is a model."""


def count_parameters(config: BiLMConfig, vocabulary: int) -> int:
    """How many numbers a model learns or is given, tied ones counted once."""
    return (
        _word_parameters(config, vocabulary)
        + _character_parameters(config)
        + DIRECTIONS * config.layers * _layer_parameters(config)
        + _output_parameters(config, vocabulary)
    )


def weights_bytes(config: PretrainConfig, vocabulary: int) -> int:
    """Memory of weights, gradients and what the optimizer remembers."""
    parameters = count_parameters(config.model, vocabulary)
    is_frozen = config.model.freeze_words and config.model.input != "characters"
    frozen = vocabulary * config.model.word_dim if is_frozen else 0
    copies = 1 + MOMENTS[config.training.optimizer]
    # Each direction forms its own gradient of the shared output, which is scaled before the two
    # are added: for a moment there are four besides their sum.
    shared = _output_parameters(config.model, vocabulary)
    if config.model.softmax.tied:
        shared += vocabulary * config.model.width
    return BYTES * (parameters + copies * (parameters - frozen) + 2 * DIRECTIONS * shared)


def activations_bytes(config: PretrainConfig) -> int:
    """Memory that the largest batch needs besides."""
    model, tokens = config.model, config.batching.batch_tokens
    # Of each step a layer keeps its input, gates, cells, squashed cells and output, and forms the
    # gradients of input and gates; the softmax keeps states, true words and the gradients of both.
    layer = 3 * model.width + 2 * 4 * model.hidden + 2 * model.hidden
    directions = DIRECTIONS * tokens * (model.layers * layer + 4 * model.width)
    words = int(DISTINCT_SHARE * tokens) * _word_activations(model)
    return BYTES * (directions + words)


def _word_activations(config: BiLMConfig) -> int:
    """Numbers kept and formed for each distinct word of a batch."""
    if not config.spelled:
        return 2 * config.width
    characters = config.characters
    maps = sum(number * (ROW_LENGTH - width + 1) for width, number in characters.filters)
    highways = 8 * characters.highways * characters.features
    return 2 * (maps + characters.char_dim * ROW_LENGTH + config.width) + highways


def _word_parameters(config: BiLMConfig, vocabulary: int) -> int:
    return 0 if config.input == "characters" else vocabulary * config.word_dim


def _character_parameters(config: BiLMConfig) -> int:
    """The character CNN, and the projection behind words and characters."""
    parts = 0 if config.input == "characters" else config.word_dim
    total = 0
    if config.spelled:
        parts += config.characters.features
        total = _cnn_parameters(config.characters)
    is_projected = config.spelled or parts != config.width
    return total + (_linear(parts, config.width) if is_projected else 0)


def _cnn_parameters(config: CharacterConfig) -> int:
    filters = sum(_linear(config.char_dim * width, number) for width, number in config.filters)
    highways = 2 * config.highways * _linear(config.features, config.features)
    return CHARACTER_IDS * config.char_dim + filters + highways


def _layer_parameters(config: BiLMConfig) -> int:
    projection = 0 if config.projection is None else config.hidden * config.projection
    return _linear(2 * config.width, 4 * config.hidden) + projection


def _output_parameters(config: BiLMConfig, vocabulary: int) -> int:
    """The softmax without the weights it borrows from the words."""
    if config.softmax.loss == "none":
        return 0
    if config.softmax.loss == "adaptive":
        return _adaptive_parameters(config, vocabulary)
    return vocabulary + (0 if config.softmax.tied else vocabulary * config.width)


def _adaptive_parameters(config: BiLMConfig, vocabulary: int) -> int:
    edges = [cut for cut in config.softmax.cutoffs if cut < vocabulary]
    edges.append(vocabulary)
    total = _linear(config.width, edges[0] + len(edges) - 1)
    for number, (first, last) in enumerate(pairwise(edges), start=1):
        size = max(8, config.width // 4**number)
        total += size * config.width + _linear(size, last - first)
    return total


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs
