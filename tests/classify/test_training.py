"""A training that is stopped, anywhere, ends as if it had not been."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.classify.toy import TOPICS, toy_config, toy_model, toy_texts
from torch import nn

from elmo.classify.classifier import TextClassifier, unfinished, unfinished_job
from elmo.classify.config import ClassifierConfig, FineTuningConfig
from elmo.classify.data import LabelledTexts
from elmo.classify.features import (
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
    cut_texts,
    tokenize_texts,
)
from elmo.classify.linear import class_balance
from elmo.classify.loop import Checkpoints, job_of
from elmo.classify.training import (
    Trained,
    classifier_card,
    train,
    train_classifier,
)
from elmo.config import Json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Progress
from elmo.errors import ConfigError, UserError
from elmo.model_folder import save_config, save_weights
from elmo.static.vectors import StaticVectors

DATA = toy_texts()
TUNING = FineTuningConfig(fine_tune_epochs=2, unfreeze_epochs=0.5, language_weight=0.1)
CONFIG = replace(
    toy_config(), learning=replace(toy_config().learning, epochs=2, fine_tuning=TUNING)
)
VECTORS = StaticVectors(("cat", "hail"), np.array([[1, 2], [3, 4]], np.float32))
LOOKS = 28
"""So often a training is asked whether it is to stop: after each of six batches and at the end of
each of four epochs."""


def job(config: ClassifierConfig = CONFIG, texts: str = "a", bilm: str = "b") -> Json:
    return job_of(config, {"texts": texts, "bilm": bilm, "word_vectors": None})


@contextmanager
def checkpointed(
    out: Path, job: Json, minutes: float, *, fresh: bool = False
) -> Generator[Checkpoints]:
    with unfinished_job(out, fresh) as folder:
        yield Checkpoints(folder, job, minutes)


def learned(
    out: Path, *, minutes: float = 5.0, on_texts: Callable[[Progress], None] = lambda report: None
) -> Trained:
    with checkpointed(out, job(), minutes) as checkpoints:
        return train(
            toy_model(), DATA, CONFIG, word_vectors=VECTORS, scratch=out.parent,
            on_texts=on_texts, checkpoints=checkpoints,
        )  # fmt: skip


def stopped_at(look: int) -> Callable[[], AbstractContextManager[Callable[[], bool]]]:
    """In place of signals: one comes so many looks after the beginning."""
    looks = 0

    def stop() -> bool:
        nonlocal looks
        looks += 1
        return looks >= look

    @contextmanager
    def watched() -> Generator[Callable[[], bool]]:
        yield stop

    return watched


def stop(out: Path, look: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmo.training.checkpoint.stop_requested", stopped_at(look))
        with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
            learned(out)


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    first, second = one.state_dict(), other.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def assert_same(one: Trained, other: Trained) -> None:
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert_same_weights(one.classifier.network, other.classifier.network)
    assert_same_weights(one.classifier.language_model.model, other.classifier.language_model.model)
    histories = [
        [replace(report, seconds=0.0) for report in trained.history] for trained in (one, other)
    ]
    assert histories[0] == histories[1]
    assert one.stopped == other.stopped
    assert "network stopped after epoch" in one.stopped


@pytest.fixture(scope="module")
def whole() -> Trained:
    """What a training gives that is neither stopped nor watched."""
    return train(toy_model(), DATA, CONFIG, word_vectors=VECTORS)


@given(looks=st.lists(st.integers(1, LOOKS), min_size=1, max_size=3))
@settings(max_examples=10)
def test_a_training_stopped_anywhere_ends_like_one_that_was_not(
    whole: Trained, tmp_path_factory: pytest.TempPathFactory, looks: list[int]
) -> None:
    out = tmp_path_factory.mktemp("parts") / "out"
    behind = 0
    for look in looks:
        if behind + look <= LOOKS:
            stop(out, look)
            behind += look
    assert_same(learned(out), whole)
    assert not unfinished(out).exists()
    shutil.rmtree(out.parent)


@pytest.mark.parametrize("look", [1, 7, 14, 15, LOOKS])
def test_a_stop_may_fall_on_any_border(whole: Trained, tmp_path: Path, look: int) -> None:
    """The first batch, the end of an epoch, of a phase, of all."""
    stop(tmp_path / "out", look)
    assert_same(learned(tmp_path / "out"), whole)


def test_layers_are_not_read_again_for_a_biLM_that_learns(tmp_path: Path) -> None:
    read: list[Progress] = []
    stop(tmp_path / "out", 13)
    learned(tmp_path / "out", on_texts=read.append)
    assert read
    read.clear()
    stop(tmp_path / "out", 15)
    learned(tmp_path / "out", on_texts=read.append)
    assert not read


def test_a_checkpoint_is_written_when_it_is_time_to(whole: Trained, tmp_path: Path) -> None:
    out, lost = tmp_path / "out", KeyError("power")
    seen: list[str] = []

    def fail(report: object) -> None:
        seen.extend(path.name for path in unfinished(out).glob("step-*"))
        if len(seen) == 9:
            raise lost

    with pytest.raises(KeyError, match="power"), checkpointed(out, job(), 0.0) as checkpoints:
        train(
            toy_model(), DATA, CONFIG, word_vectors=VECTORS, scratch=tmp_path, on_report=fail,
            checkpoints=checkpoints,
        )  # fmt: skip
    assert seen == [f"step-{number:09d}" for number in range(1, 10)]
    again = learned(out)
    assert_same(again, whole)
    assert again.seconds > sum(report.seconds for report in again.history[1:])


def test_a_training_without_a_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), checkpointed(tmp_path / "out", job(), 5.0):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_damaged_checkpoint_is_named_and_nothing_starts_over_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop(tmp_path / "out", 5)
    path = unfinished(tmp_path / "out") / "step-000000001" / "training.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"no checkpoint can be read \(step-000000001\)"):
        learned(tmp_path / "out")
    assert "skipping a damaged checkpoint" in caplog.text
    assert path.exists()


def test_another_training_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stop(out, 3)
    learning = replace(CONFIG.learning, seed=1, feature_memory=0.5)
    for other, named in (
        (job(replace(CONFIG, learning=learning), texts="c"), "seed: 0 before, 1 now\n  texts: "),
        (job(bilm="c"), "bilm: b before, c now"),
    ):
        with pytest.raises(UserError, match=named), checkpointed(out, other, 5.0):
            pass
    assert unfinished(out).exists()


def test_another_version_of_elmo_may_resume(tmp_path: Path) -> None:
    stop(tmp_path / "out", 3)
    newer = {**job(), "version": "99"}
    with checkpointed(tmp_path / "out", newer, 5.0) as checkpoints:
        assert checkpoints.phase == "network"


def test_fresh_deletes_the_checkpoints_and_nothing_that_is_not_ours(tmp_path: Path) -> None:
    stop(tmp_path / "out", 3)
    with checkpointed(tmp_path / "out", job(texts="c"), 5.0, fresh=True) as checkpoints:
        assert checkpoints.phase is None
    mine = unfinished(tmp_path / "out") / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    with (
        pytest.raises(UserError, match="files that elmo did not write"),
        checkpointed(tmp_path / "out", job(), 5.0),
    ):
        pass
    assert mine.read_text() == "mine"


def test_where_layers_are_kept_may_change(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stop(out, 3)
    elsewhere = replace(CONFIG, learning=replace(CONFIG.learning, feature_memory=0.5))
    with checkpointed(out, job(elsewhere), 5.0) as checkpoints:
        assert checkpoints.phase == "network"


def test_what_a_process_that_died_left_half_written_is_removed(tmp_path: Path) -> None:
    mark = "elmo-0a1b2c3d.partial"
    left = [f".out.{mark}", f".out.unfinished.{mark}"]
    others = [f".out.b.{mark}", f".other.{mark}", f"out.{mark}", ".out.7.partial"]
    for name in (*left, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").touch()
    with checkpointed(tmp_path / "out", job(), 5.0):
        pass
    assert {path.name for path in tmp_path.iterdir()} == set(others)


def test_two_processes_cannot_make_the_same_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with checkpointed(out, job(), 5.0):
        with pytest.raises(UserError, match="another process"), checkpointed(out, job(), 5.0):
            pass
        assert unfinished(out).exists()


# What learns and what does not, end to end on a toy task.

BASE = toy_config()
MODEL = toy_model()
"""For tests in which it is frozen."""


def with_mix(**settings: Any) -> Any:
    return replace(BASE, network=replace(BASE.network, mix=MixConfig(**settings)))


def test_trainable_weights_change_and_the_bilm_does_not() -> None:
    loaded = toy_model()
    before = {name: one.clone() for name, one in loaded.model.state_dict().items()}
    trained = train(loaded, DATA, BASE)
    mix = trained.classifier.network.mix
    assert mix.weights != pytest.approx((1 / 3,) * 3, abs=1e-4)
    assert mix.gamma != pytest.approx(1, abs=1e-4)
    after = loaded.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert trained.probabilities.shape == (60, 2)
    right = trained.probabilities.argmax(1) == trained.classes
    assert right.mean() >= 0.9
    assert trained.trouble is None


def test_words_never_seen_are_understood_by_the_vectors_given_for_them() -> None:
    like = {"animals": [2.0, -1], "weather": [-1.0, 2]}
    rows = {word: like[topic] for topic, words in TOPICS.items() for word in words}
    rows |= {"horse": like["animals"], "snow": like["weather"]}
    given = StaticVectors(tuple(rows), np.array(list(rows.values()), np.float32))
    trained = train(toy_model(), DATA, BASE, word_vectors=given)
    labels = trained.classifier.predict(["Horse", "the snow", "HORSE"]).tolist()
    assert labels == ["animals", "weather", "animals"]
    without = train(toy_model(), DATA, BASE).classifier.predict_proba(["Horse", "Snow"])
    assert np.array_equal(without[0], without[1])


def test_without_own_words_there_is_nothing_to_begin_with_given_vectors() -> None:
    given = StaticVectors(("cat",), np.ones((1, 2), np.float32))
    config = replace(BASE, network=replace(BASE.network, task_dim=0))
    with pytest.raises(UserError, match="--task-dim 2"):
        train(MODEL, DATA, config, word_vectors=given)


def test_frozen_weights_do_not_change_at_all() -> None:
    weights, gamma = (0.2, 0.5, 0.3), 0.7
    trained = train(toy_model(), DATA, with_mix(mix="frozen", layer_weights=weights, gamma=gamma))
    mix = trained.classifier.network.mix
    assert mix.weights == pytest.approx(weights, abs=1e-7)
    assert mix.gamma == pytest.approx(gamma, abs=1e-7)
    assert all(report.mix_weights == mix.weights for report in trained.history)


def test_a_drawn_mix_follows_from_its_seed() -> None:
    drawn = [
        train(toy_model(), DATA, with_mix(mix="frozen", mix_seed=seed)).classifier.network.mix
        for seed in (1, 1, 2)
    ]
    assert drawn[0].weights == drawn[1].weights != drawn[2].weights


def test_a_learned_function_learns() -> None:
    trained = train(toy_model(), DATA, with_mix(mix="function", function_hidden=6))
    mix = trained.classifier.network.mix
    assert mix.weights is None
    fresh = train(
        toy_model(), DATA,
        replace(
            with_mix(mix="function", function_hidden=6),
            learning=replace(BASE.learning, learning_rate=1e-12),
        ),
    ).classifier.network.mix  # fmt: skip
    pairs = zip(mix.parameters(), fresh.parameters(), strict=True)
    assert all(not torch.allclose(one, other) for one, other in pairs)


@pytest.mark.parametrize("fails", [False, True])
def test_the_dropout_of_fine_tuning_ends_with_it(fails: bool) -> None:
    loaded = toy_model()
    stacks, seen = loaded.model.directions, set[float]()
    before = [stack.dropout for stack in stacks]
    tuning = replace(TUNING, fine_tune_epochs=1, bilm_dropout=0.25)
    config = replace(CONFIG, learning=replace(CONFIG.learning, epochs=1, fine_tuning=tuning))

    def listen(report: object) -> None:
        seen.update(stack.dropout for stack in stacks)
        if fails and getattr(report, "phase", "") == "fine-tuning":
            raise KeyError

    with pytest.raises(KeyError) if fails else nullcontext():
        train(loaded, DATA, config, on_report=listen)
    assert 0.25 in seen
    assert [stack.dropout for stack in stacks] == before != [0.25, 0.25]


def test_fine_tuning_changes_every_layer_of_the_bilm() -> None:
    loaded = toy_model()
    before = {name: one.clone() for name, one in loaded.model.named_parameters()}
    tuning = FineTuningConfig(fine_tune_epochs=2, fine_tune_rate=0.01, language_weight=0.1)
    config = replace(BASE, learning=replace(BASE.learning, epochs=1, fine_tuning=tuning))
    trained = train(loaded, DATA, config)
    assert {report.phase for report in trained.history} == {"network", "fine-tuning"}
    changed = {n for n, p in loaded.model.named_parameters() if not torch.equal(p, before[n])}
    assert changed >= {name for name in before if not name.startswith("output.")}
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())


def test_words_of_development_texts_alone_have_no_vector() -> None:
    trained = train(toy_model(), DATA, BASE)
    seen = {word for row in trained.split.train for word in DATA.texts[int(row)].split()}
    assert set(trained.classifier.task_vocabulary.words[3:]) == seen


def test_balanced_weights_make_classes_count_alike() -> None:
    rows = [row for row in range(len(DATA.texts)) if DATA.labels[row] == "animals" or row % 3 == 0]
    classes = np.array([DATA.labels[row] == "weather" for row in rows], np.int64)
    weights = class_balance(classes, 2).numpy()
    sums = np.bincount(classes, weights=weights[classes])
    np.testing.assert_allclose(sums, [len(classes) / 2] * 2, rtol=1e-6)
    balanced = replace(BASE, learning=replace(BASE.learning, class_weights="balanced"))
    found = [train(MODEL, DATA.select(rows), config).probabilities for config in (BASE, balanced)]
    assert found[1][:, 1].mean() > found[0][:, 1].mean()  # the rarer class gains


def test_the_same_seed_gives_the_same_classifier_and_leaves_chance_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = train(MODEL, DATA, BASE)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(99)
    other = train(MODEL, DATA, BASE)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_layers_computed_before_change_nothing(tmp_path: Path) -> None:
    words = cut_texts(tokenize_texts(MODEL, DATA.texts), 100)
    texts = TokenizedTexts(words, build_task_vocabulary(words, 1))
    features = FrozenFeatures.compute(texts, MODEL.model, memory=1, folder=tmp_path)
    given = train(MODEL, DATA, BASE, features=features)
    np.testing.assert_array_equal(given.probabilities, train(MODEL, DATA, BASE).probabilities)
    with pytest.raises(UserError, match="other texts"):
        train(MODEL, toy_texts(seed=8), BASE, features=features)


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="have no labels"):
        train(toy_model(), LabelledTexts(["a"], None, ["row 0"]), BASE)
    with pytest.raises(UserError, match="at least 2 rows"):
        train(toy_model(), LabelledTexts(["a", "b", "c"], ["x", "x", "y"], ["1", "2", "3"]), BASE)
    bad = replace(BASE, learning=replace(BASE.learning, epochs=0, clip=-1.0))
    with pytest.raises(ConfigError, match="2 problems"):
        train(toy_model(), DATA, bad)


def test_labels_that_the_texts_do_not_tell_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Training texts are learned by heart, so that their accuracy shows nothing."""
    random = np.random.default_rng(0)
    texts = [" ".join(map(str, random.integers(0, 500, 8))) for _ in range(120)]
    labels = [str(label) for label in random.choice(["x", "y"], 120)]
    data = LabelledTexts(texts, labels, [str(row) for row in range(120)])
    trained = train(toy_model(), data, ClassifierConfig(parts="ngrams"))
    assert (trained.probabilities.argmax(1) == trained.classes).mean() > 0.95
    assert "hardly more than the most frequent label" in caplog.text
    caplog.clear()
    train(toy_model(), toy_texts(120), ClassifierConfig(parts="ngrams"))
    assert "hardly more" not in caplog.text
    # 40 common texts for each rare one, told apart without a mistake: nothing to be warned of.
    common = [f"{random.choice(TOPICS['animals'])} {row}" for row in range(200)]
    rare = [f"{TOPICS['weather'][0]} {row}" for row in range(5)]
    unbalanced = LabelledTexts(common + rare, ["x"] * 200 + ["y"] * 5, [""] * 205)
    assert (
        train(toy_model(), unbalanced, ClassifierConfig(parts="ngrams")).probabilities[200:, 1]
        > 0.5
    ).all()
    assert "hardly more" not in caplog.text


def test_texts_of_another_language_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    data = toy_texts(40)
    train(toy_model(), data, ClassifierConfig(parts="ngrams"))
    assert "its layers add little" not in caplog.text
    texts = [" ".join(f"{word}en" for word in text.split()) for text in data.texts]
    foreign = LabelledTexts(texts, data.labels, data.locations)
    train(toy_model(), foreign, ClassifierConfig(parts="ngrams"))
    assert "so the elmo part will add little to the n-grams here" in caplog.text


# The card says what the figures say.


def test_figures_weights_and_command_are_on_it() -> None:
    trained = train(toy_model(), toy_texts(), toy_config())
    held = toy_texts(30, seed=4)
    evaluation = trained.classifier.evaluate(held.texts, held.labels or ())
    card = classifier_card(trained, {"test": evaluation}, "toy.csv", "elmo classify train toy.csv")
    accuracy = evaluation.metrics.accuracy
    assert f"| test | 30 | {accuracy.value:.4f} | {accuracy.low:.4f} to" in card
    weights = trained.classifier.network.mix.weights or ()
    assert "weigh " + ", ".join(f"{weight:.3f}" for weight in weights) in card
    assert "elmo classify train toy.csv" in card
    assert "| biLM | frozen |" in card


# From files to a folder that holds all there is to know.


def write_toy(folder: Path) -> None:
    """A biLM's folder and two tables."""
    loaded = toy_model()
    (folder / "bilm").mkdir()
    save_config(folder / "bilm", loaded.model.config, loaded.tokenizer, {})
    loaded.model.vocabulary.save(folder / "bilm" / "vocabulary.txt")
    save_weights(folder / "bilm" / "model.safetensors", loaded.model)
    for name, seed in (("train", 0), ("test", 1)):
        data = toy_texts(60, seed)
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["label", "text"])
            writer.writerows(zip(data.labels or (), data.texts, strict=True))


def test_a_folder_holds_classifier_figures_pictures_and_card(tmp_path: Path) -> None:
    write_toy(tmp_path)
    out = tmp_path / "out"
    made = train_classifier(
        str(tmp_path / "train.csv"), tmp_path / "bilm", out, toy_config(),
        test=str(tmp_path / "test.csv"), command="elmo classify train …",
    )  # fmt: skip
    assert {path.name for path in out.iterdir()} == {
        "README.md", "bilm", "classifier.json", "classifier.safetensors",
        "confusion_development.png", "confusion_test.png", "confusion_train.png",
        "learning_curve.png", "linear.safetensors", "log.jsonl",
        "metrics_development.json", "metrics_test.json", "metrics_train.json",
        "mistakes_development.json", "mistakes_test.json", "mistakes_train.json", "own_words.txt",
    }  # fmt: skip
    assert made.evaluations["test"].metrics.count == 60
    assert made.evaluations["train"].metrics.count == len(made.trained.split.train)
    assert made.evaluations["test"].metrics.accuracy.value >= 0.9
    again = TextClassifier.from_pretrained(out)
    texts = toy_texts(9, seed=2).texts
    expected = made.trained.classifier.predict_proba(texts)
    np.testing.assert_array_equal(again.predict_proba(texts), expected)
    card = (out / "README.md").read_text()
    assert "elmo classify train …" in card
    assert "| animals, weather |" in card
    assert f"{made.evaluations['test'].metrics.accuracy.value:.4f}" in card
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["epoch"] for entry in log] == [1, 2, 3, 4, 5, 6]


def test_the_rows_of_mistakes_are_those_of_all_files(tmp_path: Path) -> None:
    write_toy(tmp_path)
    path = tmp_path / "train.csv"
    with path.open(newline="") as stream:
        rows = [*csv.reader(stream)][1:]
    wrong = {3, 17, 31, 52}  # as if by mistake, so that there are mistakes in both parts
    labels = sorted({label for label, _ in rows})
    for row in wrong:
        rows[row][0] = labels[rows[row][0] == labels[0]]
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["label", "text"], *rows])
    config = replace(toy_config(), parts="network")
    config = replace(config, learning=replace(config.learning, development_share=0.5))
    made = train_classifier(str(path), tmp_path / "bilm", tmp_path / "out", config)
    for part in ("train", "development"):
        mistakes = json.loads((tmp_path / "out" / f"mistakes_{part}.json").read_text())
        assert [mistake["row"] for mistake in mistakes] == [
            mistake.row for mistake in made.evaluations[part].mistakes
        ]
        assert mistakes
        for mistake in mistakes:
            assert [mistake["gold"], mistake["text"]] == rows[mistake["row"]]


def test_a_classifier_keeps_the_word_vectors_it_began_with(tmp_path: Path) -> None:
    write_toy(tmp_path)
    vectors = tmp_path / "glove.txt"
    vectors.write_text("cat 1 2\nzebra 3 4\nhail 5 6\n")
    made = train_classifier(
        str(tmp_path / "train.csv"), tmp_path / "bilm", tmp_path / "out", toy_config(),
        word_vectors=vectors,
    )  # fmt: skip
    again = TextClassifier.from_pretrained(tmp_path / "out")
    assert again.network.task_embedding is not None
    assert again.network.task_embedding.weight[again.task_vocabulary.id("zebra")].tolist() == [
        3,
        4,
        0,
        0,
    ]
    texts = ["the Zebra", "Hail on a cat", "a cat"]
    expected = made.trained.classifier.predict_proba(texts)
    np.testing.assert_array_equal(again.predict_proba(texts), expected)
    assert not np.array_equal(expected[0], again.predict_proba(["the unheard"])[0])


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    write_toy(tmp_path)
    with pytest.raises(UserError, match="already exists"):
        train_classifier(str(tmp_path / "train.csv"), tmp_path / "bilm", tmp_path / "bilm")


def test_a_time_between_checkpoints_cannot_be_negative(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checkpoint_minutes: cannot be negative, got -1"):
        train_classifier("none.csv", tmp_path, tmp_path / "out", checkpoint_minutes=-1)


def test_a_fine_tuned_bilm_cannot_be_a_reference(tmp_path: Path) -> None:
    config = toy_config()
    tuned = replace(config.learning, fine_tuning=FineTuningConfig(fine_tune_epochs=1))
    with pytest.raises(UserError, match="leave out --reference"):
        train_classifier(
            "none.csv", tmp_path, tmp_path / "out", replace(config, learning=tuned), reference=True
        )
