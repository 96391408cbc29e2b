"""From files and a biLM's folder to a classifier's folder, measured on train and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from elmo.checkpoint import CARD, Precision
from elmo.classify.card import classifier_card
from elmo.classify.checkpoints import Origin, kept_beside
from elmo.classify.config import ClassifierConfig
from elmo.classify.evaluate import Evaluation, can_draw, evaluate, judge, write_evaluation
from elmo.classify.folder import save_classifier, weights_file
from elmo.classify.labelled import LabelledTexts, read_labelled
from elmo.classify.own_words import MOST_GIVEN
from elmo.classify.reports import kept_epoch
from elmo.classify.train import Surroundings, Trained, train
from elmo.config import check
from elmo.errors import UserError
from elmo.files import folder_written_whole, sha256, write_json_lines, write_text
from elmo.interop.models import open_model
from elmo.static.vectors import StaticVectors
from elmo.text.readers.options import ReadOptions

TRAIN, DEVELOPMENT, TEST = "train", "development", "test"


@dataclass(frozen=True)
class ClassifierRun:
    """A classifier that was written to a folder."""

    folder: Path
    trained: Trained
    evaluations: dict[str, Evaluation]
    """On the rows it learned from, those its epoch was chosen by and, if there are, test rows."""


def train_classifier(
    sources: Sequence[str] | str,
    model: Path | str,
    out: Path | str,
    config: ClassifierConfig | None = None,
    *,
    test: Sequence[str] | str = (),
    read: ReadOptions | None = None,
    label_column: str | None = None,
    reference: bool = False,
    precision: Precision = "fp32",
    device: str = "cpu",
    command: str = "",
    surroundings: Surroundings | None = None,
    word_vectors: Path | str | None = None,
    checkpoint_minutes: float = 5.0,
) -> ClassifierRun:
    """Train on labelled files and write a folder; `reference` names the biLM, not copies it.

    Own word vectors begin as those of the file `word_vectors`, if there is one. A training that
    was stopped goes on from its last checkpoint when the same call is made again.
    """
    config, out = config or ClassifierConfig(), Path(out)
    check(config)
    _check_folder(out, config, reference)
    if checkpoint_minutes < 0:
        raise UserError(f"checkpoint_minutes: cannot be negative, got {checkpoint_minutes}")
    loaded = open_model(model, device)
    data = read_labelled(sources, read, label_column)
    held = read_labelled(test, read, label_column) if test else None
    given = None if word_vectors is None else StaticVectors.load(word_vectors, MOST_GIVEN)
    origin = Origin(
        config=config,
        texts=data.digest,
        bilm=sha256(weights_file(Path(model))),
        word_vectors=None if word_vectors is None else sha256(Path(word_vectors)),
    )
    with kept_beside(out, origin, checkpoint_minutes) as checkpoints:
        around = replace(surroundings or Surroundings(), checkpoints=checkpoints)
        trained = train(loaded, data, config, around, given)
        evaluations = _evaluations(trained, data, held)
        names = [sources] if isinstance(sources, str) else sources
        with folder_written_whole(out) as beside:
            save_classifier(
                trained.classifier,
                beside,
                bilm=Path(model) if reference else None,
                precision=precision,
            )
            _write_history(trained, beside)
            for part, evaluation in evaluations.items():
                write_evaluation(evaluation, part, beside)
            card = classifier_card(trained, evaluations, ", ".join(names), command)
            write_text(beside / CARD, card)
    return ClassifierRun(out, trained, evaluations)


def _check_folder(out: Path, config: ClassifierConfig, reference: bool) -> None:
    if out.exists():
        raise UserError(f"{out}: already exists; choose another folder or remove it")
    if reference and config.learning.fine_tuning.fine_tune_epochs:
        raise UserError(
            "a fine-tuned biLM is another one than that it came from, so it cannot be named by "
            "reference; leave out --reference"
        )


def _evaluations(
    trained: Trained, data: LabelledTexts, test: LabelledTexts | None
) -> dict[str, Evaluation]:
    found = {
        name: judge(
            data.some(rows.tolist()),
            trained.classes[rows],
            trained.probabilities[rows],
            trained.classifier.labels.names,
        )
        for name, rows in ((TRAIN, trained.split.train), (DEVELOPMENT, trained.split.development))
    }
    if test is not None:
        found[TEST] = evaluate(trained.classifier, test)
    return found


def _write_history(trained: Trained, folder: Path) -> None:
    write_json_lines(folder / "log.jsonl", map(asdict, trained.history))
    kept = kept_epoch(trained.history)
    if kept is not None and can_draw():
        from elmo.classify.figures import LearningCurves, draw_learning_curve

        curves = LearningCurves(
            [report.train_loss for report in trained.history],
            [report.development_loss for report in trained.history],
            [report.development_accuracy for report in trained.history],
        )
        epochs = [report.epoch for report in trained.history]
        draw_learning_curve(epochs, curves, kept.epoch, folder / "learning_curve.png")
