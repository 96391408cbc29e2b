"""Taggers: they learn, save, resume, and read no sentence by its neighbours."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tests.classify.toy import toy_model
from tests.tasks.toy import TAGGER, WORDS_CONFIG, epochs, toy_tags, write_toy

import elmo
from elmo.classify.config import FineTuningConfig
from elmo.classify.features import TokenizedTexts
from elmo.classify.loop import Checkpoints, EpochReport, PhaseState
from elmo.config import check
from elmo.errors import ConfigError, UserError
from elmo.files import sha256
from elmo.tasks.config import TaggerConfig, WordsConfig
from elmo.tasks.data import TaggedTexts
from elmo.tasks.tagger import TokenTagger
from elmo.tasks.tags import convert


def trained(config: TaggerConfig, data: TaggedTexts) -> TokenTagger:
    tagger = TokenTagger(config=config)
    tagger.train(toy_model(), data)
    return tagger


@pytest.mark.parametrize(("decoder", "encoder"), [("softmax", "none"), ("crf", "lstm")])
def test_it_learns(decoder: str, encoder: str) -> None:
    config = replace(TAGGER, decoder=decoder, encoder=encoder)
    tagger = trained(config, toy_tags())
    test = toy_tags(20, seed=1)
    assert tagger.score(test.words, test.tags) > 0.9


@pytest.mark.parametrize("where", ["input", "output", "both", "none"])
def test_elmo_at_input_and_output(where: str) -> None:
    words = replace(WORDS_CONFIG, elmo=where)
    tagger = trained(epochs(replace(TAGGER, words=words), 1), toy_tags(spans=True))
    sizes = {"input": (12 + 4, 12), "output": (4, 24), "both": (16, 24), "none": (4, 12)}
    assert tagger.network.encoder is not None
    found = tagger.network.encoder.lstm.input_size, tagger.network.scores.in_features
    assert found == sizes[where]
    assert tagger.config_.decoder == "crf"
    assert tagger.scheme == "iob2"
    assert len(tagger.predict([["the", "cat"]])[0]) == 2


def test_spans_come_back_in_the_scheme_of_the_file() -> None:
    data = toy_tags(spans=True)
    tags = [convert(some, "bioes") for some in data.tags]
    in_bioes = TaggedTexts(data.words, tags, data.locations)
    tagger = trained(TAGGER, in_bioes)
    assert tagger.scheme == "bioes"
    assert any(tag.startswith("S-") for tags in tagger.predict(data.words) for tag in tags)
    assert not any(name.startswith(("S-", "E-")) for name in tagger.classes_)
    # Measured by spans, whichever scheme the gold tags have.
    first = tagger.evaluate(in_bioes.words, in_bioes.tags)
    second = tagger.evaluate(data.words, data.tags)
    assert first.f1 == second.f1
    assert first.f1 is not None
    assert first.f1.value > 0.8


def test_batch_mates_do_not_matter() -> None:
    tagger = trained(epochs(TAGGER, 2), toy_tags(spans=True))
    sentences = toy_tags(30, seed=2).words
    assert tagger.predict(sentences) == [tagger.predict([one])[0] for one in sentences]
    texts = TokenizedTexts(sentences, tagger.task_vocabulary, True)
    with torch.no_grad():
        together = tagger.network(texts.read(range(30), tagger.language_model.model))
        alone = tagger.network(texts.read([3], tagger.language_model.model))
    np.testing.assert_allclose(together[3, : len(sentences[3])], alone[0], atol=1e-5)


def test_save_and_load(tmp_path: Path) -> None:
    tagger = trained(epochs(TAGGER, 1), toy_tags(spans=True))
    tagger.save_pretrained(tmp_path / "tagger")
    loaded = elmo.TokenTagger.from_pretrained(tmp_path / "tagger")
    sentences = [*toy_tags(20, seed=3).words, [], ["never-seen"]]
    assert loaded.predict(sentences) == tagger.predict(sentences)
    assert loaded.predict(sentences)[-2] == []
    assert "crf" in repr(loaded)
    with pytest.raises(UserError, match="empty folder"):
        tagger.save_pretrained(tmp_path / "tagger")
    (tmp_path / "tagger" / "bilm" / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError):
        TokenTagger.from_pretrained(tmp_path / "tagger")
    with pytest.raises(UserError, match="elmo tag train"):
        TokenTagger.from_pretrained(tmp_path)


def test_bad_input(caplog: pytest.LogCaptureFixture) -> None:
    tagger = trained(epochs(TAGGER, 1), toy_tags())
    with pytest.raises(UserError, match="sentence 1: expected one tag per word, got 2 words, 1"):
        TokenTagger().fit([["a", "b"]], [["X"]])
    with pytest.raises(UserError, match="expected tags for each sentence"):
        TokenTagger().fit([["a"]], [])
    with pytest.raises(UserError, match="expected a list of words"):
        tagger.evaluate(["a b"], [["X", "Y"]])
    with pytest.raises(UserError, match="put it in a list"):
        tagger.predict("the cat")
    with pytest.raises(UserError, match="not trained"):
        TokenTagger().predict([["a"]])
    with caplog.at_level(logging.WARNING):
        metrics = tagger.evaluate([["the", "cat"]], [["O", "never"]])
    assert "'never', first at sentence 1" in caplog.text
    assert metrics.accuracy.value <= 0.5


def test_empty_sentences_are_left_out_of_training() -> None:
    data = toy_tags(10)
    every = TaggedTexts([*data.words, []], [*data.tags, []], [*data.locations, "sentence 11"])
    assert trained(epochs(TAGGER, 1), every).predict([[]]) == [[]]
    with pytest.raises(UserError, match="two different tags"):
        trained(TAGGER, TaggedTexts([[], []], [[], []], ["1", "2"]))


def test_settings_that_contradict() -> None:
    with pytest.raises(ConfigError, match="encoder"):
        check(TaggerConfig(encoder="none", words=WordsConfig(elmo="both")))
    with pytest.raises(ConfigError, match="read nothing"):
        check(TaggerConfig(words=WordsConfig(elmo="none", task_dim=0)))
    tuning = replace(TAGGER.learning, fine_tuning=FineTuningConfig(fine_tune_epochs=1))
    with pytest.raises(ConfigError, match="no biLM to fine-tune"):
        check(replace(TAGGER, words=WordsConfig(elmo="none"), learning=tuning))


def test_scikit_learn_can_clone_it() -> None:
    copy = clone(TokenTagger(config=TAGGER))
    assert copy.config == TAGGER
    assert copy.set_params(device="cpu") is copy
    with pytest.raises(UserError, match="unknown parameter"):
        copy.set_params(size=1)
    assert "not trained" in repr(copy)


def stopping_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Make the training fail, as a power cut would, after some steps."""
    done = [0]
    original = Checkpoints.after_step

    def after_step(self: Checkpoints, state: PhaseState) -> None:
        original(self, state)
        done[0] += 1
        if done[0] == steps:
            raise KeyError("power")

    monkeypatch.setattr(Checkpoints, "after_step", after_step)


def test_an_interrupted_training_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toy(tmp_path)
    tuned = replace(TAGGER.learning, epochs=2, fine_tuning=FineTuningConfig(fine_tune_epochs=2))
    config = replace(TAGGER, learning=tuned)
    reports: list[object] = []

    def train(out: str, *, fresh: bool = False) -> Path:
        run = TokenTagger(tmp_path / "bilm", config).train_files(
            str(tmp_path / "train_spans.conll"), tmp_path / out,
            test=str(tmp_path / "test_spans.conll"), checkpoint_minutes=0,
            on_report=reports.append, fresh=fresh,
        )  # fmt: skip
        assert run.metrics["test"].f1 is not None
        return run.folder

    whole = train("whole")
    phases = {one.phase for one in reports if isinstance(one, EpochReport)}
    assert phases == {"network", "fine-tuning"}
    for steps in (3, 11):
        with monkeypatch.context() as patch:
            stopping_after(patch, steps)
            with pytest.raises(KeyError):
                train("stopped")
    resumed = train("stopped")
    for name in ("network.safetensors", "bilm/model.safetensors"):
        assert sha256(resumed / name) == sha256(whole / name)
    with pytest.raises(UserError, match="--fresh"):
        train("whole")
    train("whole", fresh=True)
    files = {path.name for path in whole.iterdir()}
    assert files >= {"tagger.json", "README.md", "log.jsonl", "metrics_test.json", "task_words.txt"}
