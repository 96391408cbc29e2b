"""Results of a study that was never run: as large and uneven as real ones, always the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np

from elmo.classify.metrics import ClassMetrics, Estimate, Metrics, macro_f1, mcnemar, wilson
from elmo.evaluate import Averages
from elmo.study.results import (
    About,
    AmbiguousWord,
    Candidate,
    Confusion,
    ContextNeighbour,
    Draw,
    Draws,
    Example,
    FailedRow,
    Group,
    InContext,
    LanguageModel,
    Named,
    Paired,
    PretrainingEpoch,
    RowResult,
    SamplePoint,
    SeedResult,
    SenseAccuracy,
    Spread,
    StaticNeighbour,
    StudyResults,
    Sweep,
    SweepPoint,
)

LABELS = ("World", "Sports", "Business", "Sci/Tech")
TEST, TRAIN, DEVELOPMENT = 7600, 94_576, 4729
SEEDS = (0, 1, 2)
REFERENCE = "skipgram-8"
TEXTS = (
    'Shares of <b>Google</b> & Yahoo fell $3.50 on Monday, analysts said, as "search" spending '
    "slowed and the company's outlook for the quarter disappointed Wall Street once more.",
    "SAN FRANCISCO - The chip maker said its new processor will run at 4 GHz, twice as fast as "
    "last year's, and that computer makers would have it before Christmas.",
    "The central bank left interest rates where they were, citing oil prices, hurricanes and a "
    "labour market that has yet to show whether summer's strength will last.",
)
ROWS: tuple[tuple[str, str, Group, float, float], ...] = (
    ("majority", "Majority class", "control", 0.25, 0.25),
    ("tfidf", "TF-IDF, linear SVM", "control", 0.9150, 0.9712),
    ("own", "Own word vectors alone", "control", 0.9041, 0.9618),
    ("svd-2", "SVD, window 2", "static", 0.8967, 0.9325),
    ("svd-5", "SVD, window 5", "static", 0.9012, 0.9341),
    ("svd-8", "SVD, window 8", "static", 0.9020, 0.9338),
    ("skipgram-2", "Skip-gram, window 2", "static", 0.9088, 0.9410),
    ("skipgram-5", "Skip-gram, window 5", "static", 0.9113, 0.9428),
    ("skipgram-8", "Skip-gram, window 8", "static", 0.9121, 0.9430),
    ("layer-0", "ELMo, layer 0 (the word alone)", "elmo", 0.9072, 0.9402),
    ("layer-1", "ELMo, layer 1", "elmo", 0.9236, 0.9560),
    ("layer-2", "ELMo, layer 2", "elmo", 0.9180, 0.9521),
    ("average", "ELMo, average", "elmo", 0.9229, 0.9556),
    ("frozen", "ELMo, frozen λs", "elmo", 0.9166, 0.9475),
    ("trainable", "ELMo, trainable λs", "elmo", 0.9262, 0.9584),
    ("function", "ELMo, learned function", "elmo", 0.9251, 0.9601),
    ("fine-tuned", "ELMo, fine-tuned", "elmo", 0.9388, 0.9779),
)


def study_results() -> StudyResults:
    """About what a standard study of AG News would find."""
    random = np.random.default_rng(0)
    rows = tuple(_row(random, *row) for row in ROWS)
    return StudyResults(
        about=about(),
        language_model=language_model(),
        rows=rows,
        failed=(
            FailedRow(
                name="svd-12",
                title="SVD, window 12",
                message="needs 31.2 GB of memory and 24 GB are there; use a smaller --window",
            ),
        ),
        draws=draws(random),
        samples=samples(random),
        sweeps=sweeps(),
        words=words(),
        senses=(
            sense("Skip-gram, window 8", 0.512),
            sense("ELMo, layer 0", 0.508),
            sense("ELMo, layer 1", 0.871),
            sense("ELMo, layer 2", 0.883),
        ),
    )


def without_analyses(results: StudyResults) -> StudyResults:
    """The comparison alone."""
    nothing = {"samples": (), "sweeps": (), "words": (), "senses": (), "failed": ()}
    return replace(results, language_model=None, draws=None, **nothing)


def sense(embedding: str, accuracy: float, occurrences: int = 840) -> SenseAccuracy:
    """An embedding where chance is right half the time."""
    return SenseAccuracy(
        embedding=embedding, accuracy=accuracy, chance=0.503, occurrences=occurrences
    )


def spread(values: Sequence[float], rows: int = TEST) -> Spread:
    """Figures over seeds."""
    mean = fmean(values)
    sure = wilson(round(mean * rows), rows)
    deviation = stdev(values) if len(values) > 1 else 0.0
    return Spread(mean=mean, deviation=deviation, low=sure.low, high=sure.high)


def with_test(row: RowResult, accuracy: float, p: float | None, *, more: bool) -> RowResult:
    """The row with another test accuracy and another paired test."""
    paired = None
    if p is not None:
        paired = Paired(against=REFERENCE, only_this=300 if more else 200, only_other=250, p=p)
    return replace(row, test_accuracy=spread([accuracy]), paired=paired)


def about() -> About:
    """Where it would have run."""
    return About(
        command="elmo study ag_news --out runs/study --preset standard",
        data="ag_news",
        train_rows=TRAIN,
        development_rows=DEVELOPMENT,
        test_rows=TEST,
        labels=LABELS,
        preset="standard",
        seeds=SEEDS,
        settings=_facts(seeds="0, 1, 2", windows="2, 5, 8", static_dim=300, epochs=3, share=0.05,
                        fine_tune_epochs=2, bilm=None, show_texts=True),
        fingerprints=_facts(training_rows="4f" * 32, test_rows="a0" * 32, bilm="7c" * 32),
        versions=_facts(elmo="0.1.0", torch="2.13.0", numpy="2.2.1", python="3.11.7"),
        machine="2 cores, AMD EPYC, 24 GB, Linux",
        finished="2026-01-31 12:00",
        seconds=18_734.2,
        shows_texts=True,
    )  # fmt: skip


def language_model() -> LanguageModel:
    """A biLM that was trained for four epochs."""
    perplexities = (144.78, 101.71, 88.68, 86.56)
    history = tuple(
        PretrainingEpoch(
            epoch=number, perplexity=value, forward_perplexity=value * 1.01,
            backward_perplexity=value * 0.99,
        )
        for number, value in enumerate(perplexities, 1)
    )  # fmt: skip
    return LanguageModel(
        source="trained by this study", vocabulary=37_122, parameters=11_641_602, layers=2,
        width=256, perplexity=86.56, accuracy=0.2973, seconds=3852.0, history=history,
    )  # fmt: skip


def draws(random: np.random.Generator) -> Draws:
    """Twelve draws; those that trust layer 1 do better."""
    found: list[Draw] = []
    for seed in range(12):
        weights = tuple(random.dirichlet((1.0, 1.0, 1.0)).tolist())
        test = 0.885 + 0.02 * weights[1] + 0.008 * weights[2] + float(random.normal(0, 0.0015))
        found.append(
            Draw(
                seed=seed,
                layer_weights=weights,
                development_accuracy=test - 0.003,
                test_accuracy=test,
            )
        )
    return Draws(train_rows=10_000, draws=tuple(found), trainable_test_accuracy=0.9034)


def samples(random: np.random.Generator) -> tuple[SamplePoint, ...]:
    """Four curves that meet where all labels are used."""
    ends = {"tfidf": (0.52, 0.915), REFERENCE: (0.70, 0.912), "trainable": (0.76, 0.9262)}
    ends["svd-8"] = (0.66, 0.902)
    return tuple(
        _sample(random, row, first, last, per_class)
        for row, (first, last) in ends.items()
        for per_class in (10, 50, 250, 1000, 5000, None)
    )


def sweeps() -> tuple[Sweep, ...]:
    """Three settings: one that matters, one that does not, one on a long axis."""
    values = {
        ("dim", "skipgram-5"): ((50, 0.8702), (100, 0.8811), (300, 0.8893)),
        ("mix-pull", "trainable"): ((0, 0.9021), (0.001, 0.9022), (1, 0.9018)),
        ("learning-rate", "trainable"): (
            (0.0003, 0.8904), (0.001, 0.9021), (0.003, 0.9002), (0.01, 0.8623),
        ),
    }  # fmt: skip
    return tuple(
        Sweep(
            setting=setting,
            row=row,
            train_rows=20_000,
            points=tuple(
                SweepPoint(
                    value=float(value), development_accuracy=test - 0.004, test_accuracy=test,
                    note="perplexity 101.7" if setting == "dim" else None,
                )
                for value, test in points
            ),
        )
        for (setting, row), points in values.items()
    )  # fmt: skip


def words() -> tuple[AmbiguousWord, ...]:
    """Two words, each in two texts."""
    lists = {
        "bank": (
            ("banks", "lender", "central", "credit", "financial"),
            ("Troops closed the road along the west bank", ("shore", "side", "edge", "coast")),
            ("The central bank left interest rates", ("lender", "fund", "treasury", "insurer")),
        ),
        "court": (
            ("judge", "supreme", "appeals", "courts", "ruling"),
            ("A federal court ruled on Monday", ("judge", "panel", "jury", "tribunal")),
            ("She won on the clay court in Paris", ("field", "grass", "pitch", "track")),
        ),
    }  # fmt: skip
    return tuple(
        AmbiguousWord(
            word=word,
            static_row=REFERENCE,
            static=tuple(
                StaticNeighbour(word=near, similarity=0.8 - 0.05 * place)
                for place, near in enumerate(static)
            ),
            contexts=tuple(_context(text, near) for text, near in contexts),
        )
        for word, (static, *contexts) in lists.items()
    )


def metrics_of(confusion: np.ndarray) -> Metrics:
    """Figures of a confusion matrix, by the textbook."""
    gold, predicted, right = confusion.sum(1), confusion.sum(0), confusion.diagonal()
    precision = right / np.maximum(1, predicted)
    recall = right / np.maximum(1, gold)
    f1 = 2 * right / np.maximum(1, gold + predicted)
    classes = tuple(
        ClassMetrics(label, float(p), float(r), float(f), int(n))
        for label, p, r, f, n in zip(LABELS, precision, recall, f1, gold, strict=True)
    )
    mean = Averages(float(precision.mean()), float(recall.mean()), float(f1.mean()))
    value = float(macro_f1(confusion[None])[0])
    return Metrics(
        count=int(confusion.sum()),
        accuracy=wilson(int(confusion.trace()), int(confusion.sum())),
        macro_f1=Estimate(value, value - 0.006, value + 0.006),
        macro=mean,
        weighted=mean,
        classes=classes,
        confusion=tuple(tuple(line) for line in confusion.tolist()),
        calibration_error=0.01,
        brier=0.1,
        log_loss=0.2,
    )


def _confusion(random: np.random.Generator, rows: int, accuracy: float, name: str) -> np.ndarray:
    size = rows // len(LABELS)
    if name == "majority":
        return np.array([[size, 0, 0, 0]] * 4)
    shares = np.array(
        [[0, 0.2, 0.42, 0.38], [0.55, 0, 0.2, 0.25], [0.3, 0.06, 0, 0.64], [0.3, 0.08, 0.62, 0]]
    )
    wrong = np.array([1.0, 0.35, 1.45, 1.2]) * (1 - accuracy) * size
    return np.array(
        [
            random.multinomial(size, [*_line(shares[label], wrong[label] / size, label)])
            for label in range(4)
        ]
    )


def _line(shares: np.ndarray, wrong: float, label: int) -> np.ndarray:
    line = shares * wrong
    line[label] = 1 - line.sum()
    return line


def _row(
    random: np.random.Generator, name: str, title: str, group: Group, test: float, train: float
) -> RowResult:
    wanted = (0,) if name in ("majority", "tfidf", "fine-tuned") else SEEDS
    seeds = tuple(_seed(random, seed, name, test, train) for seed in wanted)
    reached = [one.test.accuracy.value for one in seeds]
    chosen = _facts(learning_rate=0.001, dropout=0.3)
    other = _facts(learning_rate=0.003, dropout=0.3)
    embeds = group != "control"
    return RowResult(
        name=name,
        title=title,
        group=group,
        chosen=chosen if name != "majority" else (),
        candidates=()
        if name == "majority"
        else (
            Candidate(settings=chosen, development_accuracy=test - 0.01),
            Candidate(settings=other, development_accuracy=test - 0.014),
        ),
        seeds=seeds,
        train_accuracy=spread([one.train.accuracy.value for one in seeds], TRAIN),
        test_accuracy=spread(reached),
        test_macro_f1=spread([one.test.macro_f1.value for one in seeds]),
        development_accuracy=spread([one.development_accuracy for one in seeds], DEVELOPMENT),
        paired=None if name == REFERENCE else _paired(test),
        parameters=0 if name == "majority" else 1_204_228 if embeds else 402_116,
        embedding_parameters={"static": 11_136_600, "elmo": 11_641_602, "control": 0}[group],
        embedding_seconds={"static": 214.0, "elmo": 3852.0, "control": None}[group],
        texts_per_second=1240.5 if group == "elmo" else 18_204.0,
        confusions=_confusions(seeds[0].test),
    )


def _paired(test: float) -> Paired:
    """Rows that only one has right: as many more as the accuracies differ by."""
    more = round((test - 0.9121) * TEST)
    this, other = (250 + more, 250) if more > 0 else (250, 250 - more)
    right = np.zeros((2, this + other), dtype=bool)
    right[0, :this] = right[1, this:] = True
    return Paired(against=REFERENCE, only_this=this, only_other=other, p=mcnemar(*right).p)


def _seed(
    random: np.random.Generator, seed: int, name: str, test: float, train: float
) -> SeedResult:
    weights = {
        "trainable": (0.26, 0.42, 0.32),
        "fine-tuned": (0.22, 0.41, 0.37),
        "frozen": tuple(random.dirichlet((2.0, 2.0, 2.0)).tolist()),
        "average": (1 / 3, 1 / 3, 1 / 3),
    }.get(name)
    if weights and name not in ("frozen", "average"):
        moved = np.array(weights) + random.normal(0, 0.008, 3)
        weights = tuple((moved / moved.sum()).tolist())
    return SeedResult(
        seed=seed,
        development_accuracy=test - 0.006 + float(random.normal(0, 0.0004)),
        train=metrics_of(_confusion(random, TRAIN, train, name)),
        test=metrics_of(_confusion(random, TEST, test, name)),
        training_seconds=0.0 if name == "majority" else 7.3 if name == "tfidf" else 252.4 + seed,
        layer_weights=weights,
        gamma=None if weights is None else 0.61 + 0.002 * seed,
    )


def _confusions(metrics: Metrics) -> tuple[Confusion, ...]:
    found = [
        Confusion(
            label=LABELS[label],
            predicted=LABELS[predicted],
            count=count,
            examples=tuple(
                Example(row=1000 * label + 10 * predicted + place, text=text)
                for place, text in enumerate(TEXTS)
            ),
        )
        for label, line in enumerate(metrics.confusion)
        for predicted, count in enumerate(line)
        if predicted != label and count
    ]
    return tuple(sorted(found, key=lambda one: -one.count))


def _sample(
    random: np.random.Generator, row: str, first: float, last: float, per_class: int | None
) -> SamplePoint:
    rows = TRAIN - DEVELOPMENT if per_class is None else per_class * len(LABELS)
    share = (np.log(rows) - np.log(40)) / (np.log(TRAIN) - np.log(40))
    mean = first + (last - first) * (1 - (1 - share) ** 2.2)
    values = [float(mean + random.normal(0, 0.02 * (1 - share) ** 2)) for _ in SEEDS]
    return SamplePoint(row=row, per_class=per_class, train_rows=rows, test_accuracy=spread(values))


def _context(text: str, near: Sequence[str]) -> InContext:
    neighbours = tuple(
        ContextNeighbour(
            word=word,
            similarity=0.86 - 0.03 * place,
            text=f"officials said on the {word} that nothing had changed",
            row=4000 + place,
        )
        for place, word in enumerate(near)
    )
    return InContext(text=text, row=17, neighbours=neighbours)


def _facts(**facts: str | int | float | bool | None) -> tuple[Named, ...]:
    return tuple(Named(name=name, value=value) for name, value in facts.items())
