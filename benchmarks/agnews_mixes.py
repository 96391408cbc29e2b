"""Train classifiers on AG News for several mixes and seeds; the biLM reads the texts only once.

    python benchmarks/agnews_mixes.py runs/news --out runs/mixes

Each classifier is the one that `elmo classify train ag_news --model … --mix … --seed …` makes with
one thread. Two work side by side, one thread each. Classifiers that are there already are kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.features import FrozenFeatures
from elmo.classify.labelled import read_labelled
from elmo.classify.own_words import own_vocabulary
from elmo.classify.reports import EpochReport
from elmo.classify.text_rows import TextRows, cut_into_words
from elmo.classify.train import Surroundings
from elmo.classify.train_run import train_classifier
from elmo.contextual.mix_config import MixConfig
from elmo.files import read_json
from elmo.interop.models import open_model
from elmo.memory import keep_freed_memory

FEATURES: FrozenFeatures | None = None


def main() -> None:
    given = _arguments()
    keep_freed_memory()
    global FEATURES
    jobs = [(mix, seed) for seed in given.seeds for mix in given.mixes]
    todo = [job for job in jobs if not _folder(given.out, *job).exists()]
    if todo:
        FEATURES = _features(given.model)
        torch.set_num_threads(1)
        # Forked, so that both see the layers without holding them twice.
        with multiprocessing.get_context("fork").Pool(given.processes, _begin) as pool:
            pool.starmap(_train, [(given.model, given.out, *job) for job in todo], chunksize=1)
    _report(given.out, given.mixes, given.seeds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a biLM trained on the descriptions of AG News")
    parser.add_argument("--out", type=Path, required=True, help="folder for the classifiers")
    parser.add_argument("--mixes", nargs="+", default=["trainable", "frozen", "function"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def _features(model: Path) -> FrozenFeatures:
    loaded = open_model(model)
    words = cut_into_words(loaded, read_labelled("ag_news").texts, NetworkConfig().max_words)
    texts = TextRows(words, own_vocabulary(words, 1))
    return FrozenFeatures.compute(texts, loaded.model, memory=100.0, folder=Path())


def _begin() -> None:
    torch.set_num_threads(1)


def _train(model: Path, out: Path, mix: Any, seed: int) -> None:
    config = ClassifierConfig(
        network=NetworkConfig(mix=MixConfig(mix=mix, mix_seed=seed)),
        learning=LearningConfig(seed=seed),
    )
    flags = f"--mix {mix} --mix-seed {seed} --seed {seed} --threads 1"
    made = train_classifier(
        "ag_news", model, _folder(out, mix, seed), config,
        test="ag_news:test", reference=True,
        command=f"elmo classify train ag_news --model {model} --test ag_news:test {flags}",
        surroundings=Surroundings(features=FEATURES, on_report=_say(mix, seed)),
    )  # fmt: skip
    accuracy = made.evaluations["test"].metrics.accuracy.value
    sys.stderr.write(f"{mix} {seed}: test accuracy {accuracy:.4f}\n")


def _say(mix: str, seed: int) -> Any:
    def say(report: object) -> None:
        if isinstance(report, EpochReport):
            sys.stderr.write(f"{os.getpid()} {mix} {seed}: {report}\n")

    return say


def _folder(out: Path, mix: str, seed: int) -> Path:
    return out / f"{mix}-{seed}"


def _report(out: Path, mixes: list[str], seeds: list[int]) -> None:
    print("| mix | train | test, mean ± deviation | macro F1 | seeds |")
    print("|---|---|---|---|---|")
    for mix in mixes:
        parts = {
            part: [read_json(_folder(out, mix, seed) / f"metrics_{part}.json") for seed in seeds]
            for part in ("train", "test")
        }
        train, test = ([one["accuracy"]["value"] for one in parts[part]] for part in parts)
        deviation = statistics.stdev(test) if len(test) > 1 else 0.0
        f1 = statistics.mean(one["macro"]["f1"] for one in parts["test"])
        each = ", ".join(f"{value:.4f}" for value in test)
        print(
            f"| {mix} | {statistics.mean(train):.4f} | {statistics.mean(test):.4f} ± "
            f"{deviation:.4f} | {f1:.4f} | {each} |"
        )


if __name__ == "__main__":
    main()
