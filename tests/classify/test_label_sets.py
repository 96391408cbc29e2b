"""Several labels per text: reading, splitting, learning and measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from tests.classify.toy import FILLERS, TOPICS, toy_model

from elmo.classify.classifier import TextClassifier
from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.data import (
    LabelledTexts,
    LabelOptions,
    development_split,
    read_labelled,
    split_labels,
)
from elmo.classify.label_sets import (
    encode_sets,
    fit_thresholds,
    label_sets,
    measure_label_sets,
    saved_thresholds,
    separator_for,
    strata,
    wrong_label_sets,
)
from elmo.classify.linear import (
    class_balance,
    cross_validation,
    fit_ngrams,
    fit_part_weights,
    fit_pooled,
    loss_of,
)
from elmo.cli.main import main
from elmo.errors import UserError

NAMES = ("money", "sports", "tech")
WORDS = {"money": "bank stocks rates", "sports": "goal match team", "tech": "chip code phone"}


def several(count: int, seed: int = 0) -> tuple[list[list[str]], np.ndarray]:
    """Texts with words of each of their labels, and which labels these are; some have none."""
    random = np.random.default_rng(seed)
    targets = (random.random((count, 3)) < 0.4).astype(np.int64)
    texts: list[list[str]] = []
    for row in targets:
        words = ["the", "of", "a"]
        for label, name in enumerate(NAMES):
            if row[label]:
                words += random.choice(WORDS[name].split(), 2).tolist()
        texts.append(random.permutation(words).tolist())
    return texts, targets


def test_labels_of_a_cell() -> None:
    assert split_labels("a; b;;a ; c d", ";") == ("a", "b", "c d")
    assert split_labels("", ";") == split_labels(" ; ", ";") == ()
    assert split_labels("a;b", None) == ("a;b",)
    assert list(LabelOptions(labels_separator="").problems())


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / "news.csv"
    path.write_text("text,label\nrates fell,money\nclub sold,money|sports\nnothing,\n")
    data = read_labelled(str(path), labels_separator="|")
    assert data.label_names == ("money", "sports")
    assert data.encoded(data.label_names).tolist() == [[1, 0], [1, 1], [0, 0]]
    assert data.select([1]).encoded(NAMES).tolist() == [[1, 1, 0]]
    one = LabelledTexts(data.texts, data.labels, data.locations)
    assert one.digest != data.digest
    with pytest.raises(UserError, match="1 of 3 rows has no label"):
        read_labelled(str(path))
    with pytest.raises(UserError, match=r"'art', first at 'news.csv', row 7"):
        encode_sets([("money", "art")], NAMES, "|", ["'news.csv', row 7"])
    path.write_text("subject,words\nmoney,a\nmoney|sports,b\nsports,c\n")
    with pytest.raises(UserError, match="looks like a header"):
        read_labelled(str(path), labels_separator="|")


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 1000))
def test_every_row_is_held_out_once(rows: int, labels: int, seed: int) -> None:
    targets = (np.random.default_rng(seed).random((rows, labels)) < 0.3).astype(np.int64)
    classes = strata(targets)
    assert np.bincount(classes)[classes].min() >= 2
    split = development_split(targets, 0.2, seed)
    assert sorted([*split.train, *split.development]) == list(range(rows))
    held_out = [row for fold in cross_validation(targets, seed) for row in fold.development]
    assert sorted(held_out) == list(range(rows))


def test_metrics_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    gold = (random.random((200, 5)) < [0.5, 0.3, 0.1, 0.05, 0.0]).astype(np.int64)
    probabilities = np.clip(0.4 * gold + 0.7 * random.random((200, 5)), 0, 1)
    predicted = probabilities > 0.5
    found = measure_label_sets(probabilities, gold, list("abcde"))
    assert found.accuracy.value == sklearn_metrics.accuracy_score(gold, predicted)
    assert found.micro is not None
    score: Any = sklearn_metrics.precision_recall_fscore_support
    micro = score(gold, predicted, average="micro", zero_division=0)[:3]
    assert (found.micro.precision, found.micro.recall, found.micro.f1) == pytest.approx(micro)
    by_label = score(gold, predicted, zero_division=0)
    for index, values in enumerate(zip(*by_label, strict=True)):
        one = found.classes[index]
        assert (one.precision, one.recall, one.f1, one.support) == pytest.approx(values)
    present = [label for label in range(5) if gold[:, label].any() or predicted[:, label].any()]
    macro = score(gold, predicted, labels=present, average="macro", zero_division=0)[:3]
    assert found.macro.f1 == pytest.approx(macro[2])
    assert found.macro_f1.value == pytest.approx(macro[2])
    assert found.macro_f1.low < found.macro_f1.value < found.macro_f1.high
    flat = gold.ravel(), np.clip(probabilities.ravel(), 1e-15, 1 - 1e-15)
    assert found.log_loss == pytest.approx(sklearn_metrics.log_loss(*flat), rel=1e-6)
    assert found.brier == pytest.approx(2 * sklearn_metrics.brier_score_loss(*flat))
    with pytest.raises(UserError, match="there are none"):
        measure_label_sets(probabilities[:0], gold[:0], list("abcde"))
    with pytest.raises(UserError, match="got an array of shape"):
        measure_label_sets(probabilities[:, :4], gold, list("abcde"))


def test_thresholds_are_those_of_the_best_f1() -> None:
    random = np.random.default_rng(1)
    gold = (random.random((4000, 3)) < [0.5, 0.1, 0.02]).astype(np.int64)
    # The rarer a label, the smaller its probability, as where it was learned from few texts.
    probabilities = np.clip(gold * [0.4, 0.25, 0.1] + 0.3 * random.random((4000, 3)), 0, 1)
    found = fit_thresholds(probabilities.astype(np.float32), gold)
    candidates = np.arange(0.02, 0.99, 0.02)

    def f1(threshold: float, label: int) -> float:
        score: Any = sklearn_metrics.f1_score
        return score(gold[:, label], probabilities[:, label] > threshold, zero_division=0)

    for label in range(3):
        best = max(f1(threshold, label) for threshold in candidates)
        assert f1(float(found[label]), label) > best - 0.03
    assert found.max() < 0.5
    at_half, fitted = (
        measure_label_sets(probabilities, gold, NAMES, thresholds).macro.f1
        for thresholds in (0.5, found)
    )
    assert fitted > at_half + 0.3


def test_a_label_of_few_texts_has_the_threshold_of_all() -> None:
    gold = np.zeros((400, 3), np.int64)
    gold[:200, 0] = gold[100:300, 1] = gold[7, 2] = 1
    probabilities = np.where(gold == 1, 0.7, 0.4).astype(np.float32)
    probabilities[7, 2] = 0.02  # of one text nothing can be said
    found = fit_thresholds(probabilities, gold)
    assert found == pytest.approx([0.54, 0.54, 0.54], abs=0.021)
    # No text has a label: nothing to choose by, and no division by zero.
    assert fit_thresholds(probabilities, np.zeros_like(gold)) == pytest.approx([0.5] * 3, abs=0.5)


def test_decisions_are_by_the_thresholds(tmp_path: Path) -> None:
    gold = np.array([[1, 0], [0, 1]])
    probabilities = np.array([[0.3, 0.3], [0.1, 0.6]])
    thresholds = np.array([0.2, 0.7], np.float32)
    assert label_sets(probabilities, ["x", "y"], thresholds) == [("x",), ()]
    assert measure_label_sets(probabilities, gold, ["x", "y"], thresholds).accuracy.value == 0.5
    (mistake,) = wrong_label_sets(probabilities, gold, "pq", "xy", ";", thresholds=thresholds)
    assert (mistake.text, mistake.predicted) == ("q", "")
    assert mistake.probability == pytest.approx(0.4)
    for wrong in (torch.tensor([0.5]), torch.tensor([0.5, 1.5]), torch.tensor([0.5, np.nan])):
        with pytest.raises(UserError, match="expected 2 thresholds between 0 and 1"):
            saved_thresholds({"thresholds": wrong}, 2, "linear.safetensors")
    assert saved_thresholds({}, 2, "linear.safetensors") == 0.5


def test_mistakes_are_ordered_by_the_worst_decision() -> None:
    gold = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    probabilities = np.array([[0.9, 0.6], [0.1, 0.2], [0.8, 0.7], [0.4, 0.4]])
    found = wrong_label_sets(probabilities, gold, ["p", "q", "r", "s"], ["x", "y"], ";")
    assert [(one.text, one.gold, one.predicted) for one in found] == [
        ("q", "y", ""),
        ("p", "x", "x;y"),
    ]
    assert found[0].probability == pytest.approx(0.8)
    assert found[0].gold_probability == pytest.approx(0.2)


def test_the_loss_is_the_sum_of_binary_ones() -> None:
    scores, targets = torch.tensor([[2.0, -1.0], [0.5, 0.0]]), torch.tensor([[1, 0], [0, 1]])
    p = scores.double().sigmoid()
    expected = -(p[0, 0].log() + (1 - p[0, 1]).log() + (1 - p[1, 0]).log() + p[1, 1].log()) / 2
    assert float(loss_of(scores, targets)) == pytest.approx(float(expected))
    # Smoothing moves each target halfway towards 1/2 at 1.0.
    even = -(p.log() + (1 - p).log()).sum() / 4
    assert float(loss_of(scores, targets, smoothing=1.0)) == pytest.approx(float(even))
    assert class_balance(np.array([[1, 0], [0, 0], [0, 0], [1, 0]]), 2).tolist() == [1.0, 4.0]


def test_linear_parts_learn_several_labels() -> None:
    texts, targets = several(240)
    folds = cross_validation(targets, 0)
    ngrams, held_out = fit_ngrams(texts, targets, 3, folds, False)
    other_texts, other_targets = several(100, seed=1)
    assert ((ngrams.scores(other_texts) > 0).numpy() == other_targets).mean() > 0.97
    # Layers that know each label, in noise.
    random = np.random.default_rng(2)
    pooled = random.normal(scale=0.3, size=(240, 2, 4, 6)).astype(np.float16)
    pooled[:, 1, 0, :3] += targets
    elmo, found = fit_pooled(pooled, targets, 3, folds, False)
    assert ((elmo.scores(pooled) > 0).numpy() == targets).mean() > 0.93
    weights = fit_part_weights([held_out, found], torch.from_numpy(targets))
    summed = sum(weight * part for weight, part in zip(weights, (held_out, found), strict=True))
    assert ((summed > 0).numpy() == targets).mean() > 0.97


def test_a_label_that_a_fold_lacks() -> None:
    """One row has the label: where it is held out, nothing can be learned about it."""
    texts, targets = several(40)
    targets[:, 2] = 0
    targets[0, 2] = 1
    ngrams, held_out = fit_ngrams(texts, targets, 3, cross_validation(targets, 0), True)
    assert torch.isfinite(held_out).all()
    assert (ngrams.scores(texts)[1:, 2] < 0).all()


# The classifier, in Python and on the command line. Toy texts are of two topics, of both or none.

BOTH = ("animals", "weather")


def toy_sets(count: int, seed: int) -> tuple[list[str], list[tuple[str, ...]]]:
    random = np.random.default_rng(seed)
    texts: list[str] = []
    sets: list[tuple[str, ...]] = []
    for _ in range(count):
        labels = tuple(label for label in BOTH if random.random() < 0.5)
        words = random.choice(FILLERS, random.integers(1, 4)).tolist()
        words += [random.choice(TOPICS[label]) for label in labels]
        texts.append(" ".join(random.permutation(words)))
        sets.append(labels)
    return texts, sets


@pytest.fixture(scope="module")
def bilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bilm") / "bilm"
    toy_model().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("parts", ["ngrams+elmo", "network"])
def test_the_classifier_assigns_sets(bilm: Path, tmp_path: Path, parts: str) -> None:
    texts, sets = toy_sets(120, 0)
    config = ClassifierConfig(
        parts=parts,
        network=NetworkConfig(task_dim=4, task_min_count=1, hidden=8, dropout=0.1),
        learning=LearningConfig(epochs=8, batch_texts=8, learning_rate=0.02),
    )
    classifier = TextClassifier(bilm, config).fit(texts, [list(some) for some in sets])
    test, gold = toy_sets(60, 1)
    assert classifier.score(test, gold) > 0.9
    probabilities = classifier.predict_proba(test)
    assert probabilities.shape == (60, 2)
    assert np.abs(probabilities.sum(1) - 1).max() > 0.3
    for row, labels in zip(probabilities, classifier.predict(test), strict=True):
        above = row > classifier.thresholds
        assert set(labels) == {name for name, is_above in zip(BOTH, above, strict=True) if is_above}
        assert [row[BOTH.index(name)] for name in labels] == sorted(row[above])[::-1]
    metrics = classifier.evaluate(test, gold).metrics
    assert metrics.micro is not None
    assert metrics.micro.f1 > 0.9
    assert metrics.confusion == ()
    # Alone and after loading: the same.
    alone = np.concatenate([classifier.predict_proba([text]) for text in test])
    np.testing.assert_allclose(alone, probabilities, atol=2e-4)  # layers in half precision
    classifier.save_pretrained(tmp_path / "sets")
    loaded = TextClassifier.from_pretrained(tmp_path / "sets")
    assert loaded.labels_separator == ";"
    assert np.array_equal(loaded.thresholds, classifier.thresholds)
    assert np.shape(loaded.thresholds) == (2,)
    # The weights of n-grams are saved in half precision, those of the network as they are.
    rounding = 2e-3 if "ngrams" in parts else 0
    np.testing.assert_allclose(loaded.predict_proba(test), probabilities, atol=rounding)
    joined = loaded.evaluate(test, [";".join(labels) for labels in gold])
    assert joined.metrics.accuracy == classifier.evaluate(test, gold).metrics.accuracy


def test_labels_of_other_types_and_mistakes_of_users(bilm: Path) -> None:
    texts, sets = toy_sets(40, 0)
    numbers = [{BOTH.index(label) for label in labels} for labels in sets]
    classifier = TextClassifier(bilm, ClassifierConfig(parts="ngrams")).fit(texts, numbers)
    assert {value for labels in classifier.predict(texts) for value in labels} == {0, 1}
    with pytest.raises(UserError, match="39 lists and 1 others"):
        TextClassifier(bilm).fit(texts, [*sets[1:], "animals"])
    with pytest.raises(UserError, match="not there in training: 'art'"):
        classifier.evaluate(texts[:1], [("art",)])
    assert separator_for([("a;b", "c|d")]) == ","
    with pytest.raises(UserError, match="rename some"):
        separator_for([(";|,\t",)])


def test_commands(bilm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("train", 0), ("test", 1)):
        rows = zip(*toy_sets(60, seed), strict=True)
        lines = [f"{'; '.join(labels)},{text}" for text, labels in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["label,text", *lines]))
    out, test = str(tmp_path / "out"), str(tmp_path / "test.csv")
    train = ["classify", "train", str(tmp_path / "train.csv"), "--model", str(bilm), "--out", out]
    assert main([*train, "--labels-separator", ";", "--test", test, "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    assert "test: 60 rows, exact match" in printed
    assert "micro" in printed
    assert "exact match" in (tmp_path / "out" / "README.md").read_text()
    assert not list((tmp_path / "out").glob("confusion*"))
    assert main(["classify", "evaluate", test, "--model", out, "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert metrics["micro"]["f1"] > 0.9
    texts = ["the cat was on rain", "the a"]
    assert main(["classify", "predict", *texts, "--model", out, "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (set(first["labels"]), second["labels"]) == (set(BOTH), [])
    assert main(["classify", "predict", *texts, "--model", out]) == 0
    shown = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert (set(shown[0].split(";")), shown[1]) == (set(BOTH), "")
    # Without the separator, texts have exactly one label.
    assert main([*train[:-1], out + "2"]) == 2
    assert "rows have no label" in capsys.readouterr().err
    assert main([*train[:-1], out + "2", "--labels-separator", ""]) == 2
    assert "labels_separator" in capsys.readouterr().err
