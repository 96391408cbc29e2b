"""Training a classifier: from labelled texts and a biLM to its parts, their weights and a folder.

`train` works in memory, `train_classifier` from files to a folder. The training loop of the network
is in `elmo.classify.loop`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, seeded
from elmo.classify import linear, loop
from elmo.classify.classifier import (
    DESCRIPTION,
    TITLE,
    TextClassifier,
    can_draw,
    check_run,
    describe_classifier,
    unfinished_job,
    write_evaluation,
)
from elmo.classify.config import ClassifierConfig
from elmo.classify.data import (
    LabelledTexts,
    Split,
    check_test_rows,
    development_split,
    printable,
    read_labelled,
)
from elmo.classify.features import (
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
    check_vector_size,
    cut_texts,
    init_from_word_vectors,
    load_word_vectors,
    tokenize_texts,
    with_pretrained_words,
)
from elmo.classify.label_sets import fit_thresholds
from elmo.classify.loop import Listener
from elmo.classify.metrics import (
    Evaluation,
    calibration_error,
    confidences,
    evaluation_of,
    standard_error,
)
from elmo.classify.network import ClassifierNetwork
from elmo.config import check
from elmo.embed.embedder import Pace
from elmo.errors import UserError
from elmo.files import atomic_folder, write_json_lines, write_text
from elmo.language_model import UnknownWords, open_model
from elmo.model_folder import CARD, Precision, model_card
from elmo.static.vectors import StaticVectors
from elmo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from elmo.embed.embedder import Listener as TextListener
    from elmo.language_model import LanguageModel
    from elmo.text.config import ReadOptions

FEW_HELD_OUT = 100
"""With fewer held-out texts their accuracy is uncertain by 0.1 and more."""
Rows = NDArray[np.int64]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trained:
    classifier: TextClassifier
    history: list[loop.EpochReport]
    """The epochs of the network; none without one."""
    split: Split
    """Rows that were learned from, and rows of `held_out`; without a network the former are all
    rows and the latter, too, of up to 20,000: of more, a tenth was held out."""
    probabilities: NDArray[np.float32]
    """By the classifier, of all texts, (texts, classes)."""
    held_out: NDArray[np.float32]
    """Probabilities of the development rows, by parts that had not learned from them."""
    classes: NDArray[np.int64]
    """The correct class of each text."""
    calibration: tuple[float, float]
    """Calibration error on the development rows with parts that weigh the same, and as fitted."""
    seconds: float
    stopped: str
    """Why the training ended."""
    trouble: str | None = None
    """Why it ended early, if the loss became NaN after a good epoch."""


def train(
    loaded: LanguageModel,
    data: LabelledTexts,
    config: ClassifierConfig,
    *,
    word_vectors: StaticVectors | None = None,
    features: FrozenFeatures | None = None,
    scratch: Path = Path(),
    on_report: Listener = lambda report: None,
    on_texts: TextListener = lambda progress: None,
    checkpoints: loop.Checkpoints | None = None,
) -> Trained:
    """Train a classifier on texts and their labels; fine-tuning changes the biLM in place.

    Args:
        word_vectors: task embeddings are initialised from these.
        features: the layers of each word for the network, if they were computed before.
        scratch: folder for layers of words that do not fit into memory.
        on_report: called after each step and each epoch.
        on_texts: called while the biLM reads all texts once.
    """
    started = time.monotonic()
    config, parts = _settled(config, loaded, word_vectors)
    if data.labels is None:
        raise UserError("expected labelled texts to learn from, but these have no labels")
    labels, learning, model = data.label_names, config.learning, loaded.model
    classes, several = data.encoded(labels), data.separator is not None
    words = tokenize_texts(loaded, data.texts)
    unknown = UnknownWords(loaded.vocabulary)
    for text in words:
        unknown.add(text)
    unknown.tell("so the elmo part will add little to the n-grams here")
    model.requires_grad_(False)
    balanced = learning.class_weights == "balanced"

    split = development_split(classes, learning.development_share, learning.seed, labels)
    folds = linear.cross_validation(classes, learning.seed, labels, words)
    if "network" not in parts:
        split = Split(np.arange(len(words)), linear.held_out_rows(folds))
    elif len(folds) == 1:
        folds = [split]
    # Scores of all texts by the trained parts, and of held-out texts by parts without them.
    fitted, scores, unseen = linear.fit_parts(
        parts, words, loaded, classes, len(labels), folds, balanced=balanced, on_texts=on_texts
    )
    held_out = {part: some[split.development] for part, some in unseen.items()}
    network = None
    if "network" in parts:

        def layers(texts: TokenizedTexts) -> FrozenFeatures:
            if features is not None:
                return features.for_texts(texts)
            memory, pace = learning.feature_memory, Pace(on_texts, len(texts)).add
            return FrozenFeatures.compute(
                texts, model, memory=memory, folder=scratch, on_texts=pace
            )

        shape = (1 + model.config.layers, 2 * model.config.width)
        network = fit_network(
            words, classes, split, len(labels), config, shape, layers,
            model=model, word_vectors=word_vectors, on_report=on_report, checkpoints=checkpoints,
            device=model.device,
        )  # fmt: skip
        scores["network"] = network.scores(np.arange(len(words)))
        held_out["network"] = scores["network"][split.development]

    gold = torch.from_numpy(classes[split.development])
    weights, bias = linear.fit_sum({p: held_out[p] for p in parts}, gold, balanced=balanced)
    plain, calibrated = (
        linear.probabilities_of(linear.weighted_sum(held_out, *some), several=several).numpy()
        for some in ((dict.fromkeys(parts, 1.0), 0.0), (weights, bias))
    )
    before, after = (
        calibration_error(*confidences(some, gold.numpy(), flat=True))
        for some in (plain, calibrated)
    )
    summed = linear.weighted_sum(scores, weights, bias)
    probabilities = linear.probabilities_of(summed, several=several).numpy()
    stopped = "the linear parts are solved exactly" if network is None else network.training.stopped
    accuracy = float(confidences(probabilities, classes)[1][split.train].mean())
    most_frequent = 0.0 if several else float(np.bincount(classes).max() / len(classes))
    seen = float(confidences(calibrated, gold.numpy())[1].mean())
    _warn(accuracy, seen, most_frequent, len(gold), stopped)
    classifier = TextClassifier.from_parts(
        loaded, labels, config, weights, linear_parts=fitted, class_bias=bias,
        network=None if network is None else network.network,
        task_vocabulary=None if network is None else network.vocabulary,
        labels_separator=data.separator,
        thresholds=fit_thresholds(calibrated, gold.numpy()) if several else 0.5,
    )  # fmt: skip
    return Trained(
        classifier, [] if network is None else network.training.history, split, probabilities,
        held_out=calibrated, classes=classes, calibration=(before, after), stopped=stopped,
        seconds=time.monotonic() - started if checkpoints is None else checkpoints.seconds,
        trouble=None if network is None else network.training.trouble,
    )  # fmt: skip


def _settled(
    config: ClassifierConfig, loaded: LanguageModel, word_vectors: StaticVectors | None
) -> tuple[ClassifierConfig, tuple[str, ...]]:
    """The settings as they are saved, and the parts that they ask for."""
    check(config)
    if word_vectors is not None:
        check_vector_size(word_vectors, config.network.task_dim)
        config = replace(config, network=replace(config.network, task_lower_case=True))
    companions = loaded.word_vectors is not None
    parts = config.resolved_parts(word_vectors=word_vectors is not None, companions=companions)
    if "words" in parts and not companions:
        raise UserError("parts: words needs static word vectors, but none come with this biLM")
    return replace(config, parts="+".join(parts)), parts


def _warn(accuracy: float, seen: float, most_frequent: float, held_out: int, stopped: str) -> None:
    """Log what makes a training doubtful; `seen` is the accuracy on the held-out texts."""
    # A model that memorised its texts has a high train accuracy, so the held-out one must beat the
    # majority, too. By a tenth of what the majority leaves: 0.05 of two classes, less of rare ones.
    least = most_frequent + 0.1 * (1 - most_frequent)
    if accuracy < least or seen - standard_error(seen, held_out) < most_frequent:
        log.warning(
            "train accuracy %.3f, held-out accuracy %.3f: hardly more than the most frequent label "
            "(%.3f); are the labels in the right column, and do the texts tell them apart?",
            accuracy, seen, most_frequent,
        )  # fmt: skip
    if held_out < FEW_HELD_OUT:
        log.warning(
            "only %d held-out texts to choose settings by: their accuracy is uncertain by %.2f",
            held_out, 2 * standard_error(0.5, held_out),
        )  # fmt: skip
    if loop.STILL_IMPROVING in stopped:
        log.warning("%s; more may be gained with a higher --epochs", stopped)


class FittedNetwork(NamedTuple):
    network: ClassifierNetwork
    vocabulary: Vocabulary
    """The words that have a task embedding."""
    scores: Callable[[Rows], Tensor]
    """The scores of some texts, (rows, classes)."""
    training: loop.Fitted


def fit_network(
    words: Sequence[list[str]],
    classes: Rows,
    split: Split,
    count: int,
    config: ClassifierConfig,
    shape: tuple[int, int],
    features: Callable[[TokenizedTexts], loop.Features],
    *,
    model: BiLM | None = None,
    word_vectors: StaticVectors | None = None,
    on_report: Listener = lambda report: None,
    checkpoints: loop.Checkpoints | None = None,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> FittedNetwork:
    """Train the network and, if the settings say so, the biLM.

    Args:
        words: of all texts; only those of `split` are learned from, or choose the epoch.
        count: how many classes there are.
        shape: how many layers each word has, and the size of each.
        features: reads the layers of the texts, unless the biLM is learning already.
        model: the biLM, if it learns too.
        dtype: of the network's large products; default: that of its weights.
    """
    learning = config.learning
    cut = cut_texts(words, config.network.max_words)
    # From training texts alone: development texts must not say which words are known.
    vocabulary = build_task_vocabulary(
        [cut[int(row)] for row in split.train], config.network.task_min_count
    )
    if word_vectors is not None:
        vocabulary = with_pretrained_words(vocabulary, word_vectors)
    texts = TokenizedTexts(cut, vocabulary, config.network.task_lower_case)
    with seeded(learning.seed):
        network = ClassifierNetwork(config.network, *shape, count, len(vocabulary))
    if word_vectors is not None and network.task_embedding is not None:
        init_from_word_vectors(network.task_embedding.weight, vocabulary, word_vectors)
    network = network.to(device)
    network.multiply_in(dtype)
    balance = None
    if learning.class_weights == "balanced":
        balance = linear.class_balance(classes[split.train], count).to(device)
    task = loop.Task(texts, classes, split, balance)
    layers = features(texts) if loop.needs_features(checkpoints) else None
    fitted = loop.fit(
        network, task, texts, layers, model, learning,
        on_report=on_report, checkpoints=checkpoints,
    )  # fmt: skip

    def scores(rows: Rows) -> Tensor:
        return loop.scores_of(network, fitted.phase, rows, texts.lengths).cpu()

    return FittedNetwork(network, vocabulary, scores, fitted)


# From files and a biLM's folder to a classifier's folder.


class ClassifierRun(NamedTuple):
    folder: Path
    trained: Trained
    evaluations: dict[str, Evaluation]
    """On train, development and, if there are any, test rows."""


def train_classifier(
    sources: Sequence[str] | str,
    model: Path | str,
    out: Path | str,
    config: ClassifierConfig | None = None,
    *,
    test: Sequence[str] | str = (),
    read: ReadOptions | None = None,
    label_column: str | None = None,
    labels_separator: str | None = None,
    word_vectors: Path | str | None = None,
    reference: bool = False,
    precision: Precision = "fp32",
    fresh: bool = False,
    device: str = "cpu",
    checkpoint_minutes: float = 1.0,
    on_report: Listener = lambda report: None,
    on_texts: TextListener = lambda progress: None,
    command: str = "",
) -> ClassifierRun:
    """Train a classifier on labelled files; the same call resumes an interrupted training.

    Until the folder is complete, checkpoints are kept next to it in `<out>.unfinished`. A resumed
    training ends with the same weights, bit for bit, as one that was never interrupted, if the
    processor is of the same kind and there are as many threads.

    Args:
        out: the classifier's folder, which must not exist.
        test: labelled files to evaluate on at the end.
        labels_separator: what separates the labels of a text; default: each text has one.
        word_vectors: a file of vectors to initialise task embeddings from.
        reference: name the biLM's folder instead of copying the biLM.
        fresh: start over: delete a classifier and checkpoints that are there.
        on_report, on_texts: as those of `train`.
        command: for the card.

    Raises:
        UserError: the folder exists, or its checkpoints are of another job.
    """
    config, out = config or ClassifierConfig(), Path(out)
    check_run(out, config, DESCRIPTION, fresh, reference, checkpoint_minutes)
    if out.exists():
        describe_classifier(out)  # refuses a folder that is not one of ours
    loaded = open_model(model, device)
    bilm = loaded.path or Path(model)
    data = read_labelled(sources, read, label_column, labels_separator)
    test_data = read_labelled(test, read, label_column, labels_separator) if test else None
    if test_data is not None:
        check_test_rows(data, test_data)
    vectors = load_word_vectors(word_vectors)
    with unfinished_job(out, fresh) as folder:
        # Only the network writes checkpoints. If the folder holds those of another job, open them
        # anyway, so that the mismatch is refused rather than deleted.
        checkpoints = None
        parts = config.resolved_parts(word_vectors=vectors is not None)
        if "network" in parts or any(folder.glob("step-*")):
            inputs = {"texts": data.digest, **loop.input_digests(bilm, word_vectors)}
            checkpoints = loop.Checkpoints(folder, loop.job_of(config, inputs), checkpoint_minutes)
        trained = train(
            loaded, data, config, word_vectors=vectors, scratch=out.parent,
            on_report=on_report, on_texts=on_texts, checkpoints=checkpoints,
        )  # fmt: skip
        evaluations = _evaluations(trained, data, test_data)
        names = [sources] if isinstance(sources, str) else sources
        with atomic_folder(out) as temporary:
            trained.classifier.save_pretrained(
                temporary, bilm=bilm if reference else None, precision=precision
            )
            write_json_lines(temporary / "log.jsonl", map(asdict, trained.history))
            if trained.history and can_draw():
                from elmo.classify.plots import draw_learning_curve

                kept = loop.kept_report(trained.history, config.learning)
                assert kept is not None
                draw_learning_curve(trained.history, kept, temporary / "learning_curve.png")
            for part, evaluation in evaluations.items():
                write_evaluation(evaluation, part, temporary)
            card = classifier_card(trained, evaluations, ", ".join(names), command)
            write_text(temporary / CARD, card, "backslashreplace")
    return ClassifierRun(out, trained, evaluations)


def _evaluations(
    trained: Trained, data: LabelledTexts, test: LabelledTexts | None
) -> dict[str, Evaluation]:
    evaluations: dict[str, Evaluation] = {}
    names, split = trained.classifier.labels, trained.split
    for part, rows, probabilities in (
        ("train", split.train, trained.probabilities[split.train]),
        ("development", split.development, trained.held_out),
    ):
        some, gold = data.select(rows.tolist()), trained.classes[rows]
        evaluation = evaluation_of(
            probabilities, gold, some.texts, names, data.separator,
            thresholds=trained.classifier.thresholds, locations=some.locations,
        )  # fmt: skip
        mistakes = [replace(one, row=int(rows[one.row])) for one in evaluation.mistakes]
        evaluations[part] = replace(evaluation, mistakes=tuple(mistakes))
    if test is not None:
        evaluations["test"] = trained.classifier.evaluate(
            test.texts, test.labels or (), locations=test.locations
        )
    return evaluations


def classifier_card(
    trained: Trained, evaluations: Mapping[str, Evaluation], texts: str, command: str
) -> str:
    """The card as Markdown: what the classifier was made from, and how good it is."""
    classifier, config = trained.classifier, trained.classifier.config_
    tuned = config.learning.fine_tuning.fine_tune_epochs
    weights = ", ".join(f"{part} {weight:.3f}" for part, weight in classifier.part_weights.items())
    facts = {
        "labels": ", ".join(map(printable, classifier.labels)),
        "weights of the parts": weights,
        "biLM": f"fine-tuned for {tuned} epochs" if tuned else "frozen",
        "texts": texts,
        "rows": f"{len(trained.split.train):,} to learn from, {len(trained.split.development):,} "
        "held out to choose settings by",
        "calibration error": f"{trained.calibration[0]:.4f} before, {trained.calibration[1]:.4f} "
        "after the parts were weighted, on held-out rows",
        "stopped": trained.stopped,
        "seed": config.learning.seed,
        "trained in": f"{trained.seconds:,.0f} s",
    }
    if (net := classifier.network) is not None:
        shown = ""
        if net.mix.weights is not None:
            values = ", ".join(f"{weight:.3f}" for weight in net.mix.weights)
            shown = f", layers 0 to {len(net.mix.weights) - 1} weigh {values}"
            shown += f", gamma {net.mix.gamma:.3f}"
        parameters = sum(parameter.numel() for parameter in net.parameters())
        facts |= {
            "mix of layers": f"{config.network.mix.mix}{shown}",
            "task embeddings": config.network.task_dim or "none",
            "encoder": config.network.encoder,
            "pooling": config.network.pooling,
            "parameters of the network": f"{parameters:,}",
        }
    rows = "\n".join(
        f"| {part} | {one.count:,} | {one.accuracy.value:.4f} | {one.accuracy.low:.4f} to "
        f"{one.accuracy.high:.4f} | {one.macro.precision:.4f} | {one.macro.recall:.4f} | "
        f"{one.macro.f1:.4f} | {one.calibration_error:.4f} |"
        for part, one in ((part, one.metrics) for part, one in evaluations.items())
    )
    accuracy = "accuracy" if classifier.labels_separator is None else "exact match"
    quality = f"""## Quality

| part | rows | {accuracy} | 95% interval | precision | recall | F1 | calibration error |
|---|---|---|---|---|---|---|---|
{rows}

Precision, recall and F1 are means over the classes.
"""
    return model_card("text-classification", TITLE, facts, quality, command)
