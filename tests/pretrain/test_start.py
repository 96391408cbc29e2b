"""What a run starts from."""

from __future__ import annotations

import pytest
import torch

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.errors import UserError
from elmo.pretrain.start import adopt, fresh_model, set_word_vectors, starting_vocabulary
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

WORDS = BiLMConfig(word_dim=4, hidden=4)
ADAPTIVE = BiLMConfig(
    word_dim=4, hidden=4, softmax=SoftmaxConfig(loss="adaptive", cutoffs=(6, 14), tied=False)
)


def test_the_seed_alone_decides_the_weights(vocabulary):
    torch.manual_seed(1)
    first = fresh_model(WORDS, vocabulary, 7)
    before = torch.random.get_rng_state()
    second = fresh_model(WORDS, vocabulary, 7)
    assert torch.equal(before, torch.random.get_rng_state()), "the caller's generator was touched"
    other = fresh_model(WORDS, vocabulary, 8)
    assert torch.equal(first.token_layer.words.weight, second.token_layer.words.weight)
    assert not torch.equal(first.token_layer.words.weight, other.token_layer.words.weight)


def test_a_new_model_knows_how_frequent_words_are(vocabulary):
    model = fresh_model(WORDS, vocabulary, 0)
    counts = torch.tensor(vocabulary.counts) + 1.0
    assert torch.allclose(model.output.bias.softmax(0), counts / counts.sum())


@pytest.mark.parametrize("config", [WORDS, ADAPTIVE])
def test_adopting_keeps_what_was_learned_and_makes_room_for_new_words(vocabulary, config):
    old = fresh_model(config, vocabulary, 0)
    grown = vocabulary.grown(["zebra", "yak"], [5, 4])
    new = fresh_model(config, grown, 1)
    adopt(new, old)
    states = torch.randn(3, 4)
    expected = old.output.log_probabilities(states)
    found = new.output.log_probabilities(states)[:, : len(vocabulary)]
    # The new words take a share; among the old ones nothing changes.
    if config is WORDS:
        renormalised = found - found.logsumexp(1, keepdim=True)
        assert torch.allclose(renormalised, expected, atol=1e-5)
    else:
        head = slice(0, 6)
        ratio = found[:, head] - expected[:, head]
        assert torch.allclose(ratio, ratio[:, :1].expand_as(ratio), atol=1e-5)
    assert torch.equal(
        new.token_layer.words.weight[: len(vocabulary)], old.token_layer.words.weight
    )


@pytest.mark.parametrize("loss", ["full", "none"])
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_words_to_predict_when_a_model_is_gone_on_from(vocabulary, kind, loss):
    softmax = SoftmaxConfig(loss=loss, tied=False)
    other = BiLM(BiLMConfig(input=kind, word_dim=4, hidden=4, softmax=softmax), vocabulary)
    counted = Vocabulary((*SPECIAL_WORDS, "yak", "cat"), (50, 50, 3, 7, 6))
    found = starting_vocabulary(other, counted)
    if (kind, loss) == ("characters", "none"):
        assert found == counted
        return
    assert found.words == (*vocabulary.words, "yak")
    counts = dict(zip(found.words, found.counts, strict=True))
    old = dict(zip(vocabulary.words, vocabulary.counts, strict=True))
    assert (counts["yak"], counts["dog"]) == (7, old["dog"])
    assert counts["cat"] == (6 if loss == "none" else old["cat"])


def test_word_vectors_longer_than_the_models_are_refused(vocabulary, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("1 5\ncat 1 2 3 4 5\n")
    with pytest.raises(UserError, match="--word-dim 5 or more"):
        set_word_vectors(fresh_model(WORDS, vocabulary, 0), path)


def test_shorter_word_vectors_are_the_first_numbers_of_longer_ones(vocabulary, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 2 3\nzebra 4 5 6\ndog 7 8 9\n")
    model, fresh = fresh_model(WORDS, vocabulary, 0), fresh_model(WORDS, vocabulary, 0)
    assert set_word_vectors(model, path) == 2 / len(vocabulary)
    cat, dog = vocabulary.id("cat"), vocabulary.id("dog")
    expected = fresh.token_layer.words.weight.detach().clone()
    expected[cat, :3] = torch.tensor([1.0, 2, 3])
    expected[dog, :3] = torch.tensor([7.0, 8, 9])
    assert torch.equal(model.token_layer.words.weight, expected)


def test_vectors_without_a_known_word_are_refused(vocabulary, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("1 4\nzebra 1 2 3 4\n")
    with pytest.raises(UserError, match="none of its words"):
        set_word_vectors(fresh_model(WORDS, vocabulary, 0), path)


def test_a_character_model_has_no_word_vectors_to_set(vocabulary, tmp_path):
    config = BiLMConfig(input="characters", hidden=4, softmax=SoftmaxConfig(tied=False))
    with pytest.raises(UserError, match="character model"):
        set_word_vectors(fresh_model(config, vocabulary, 0), tmp_path / "vectors.txt")
