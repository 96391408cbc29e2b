"""The biLM of a study: one that was given, or one trained on the study's training texts."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from elmo.checkpoint import CONFIG, WEIGHTS, LoadedModel, parameter_count
from elmo.classify.labelled import LabelledTexts
from elmo.config import Json
from elmo.errors import UserError
from elmo.files import read_json, sha256, write_json, write_json_lines
from elmo.interop.models import is_official, official_files, open_model
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.reports import StepReport
from elmo.pretrain.run import Surroundings, pretrain, resume
from elmo.pretrain.run_config import read_run
from elmo.study.progress import OnShare
from elmo.study.results import LanguageModel, PretrainingEpoch

TEXT, FINISHED = "training_text.jsonl", "finished.json"


@dataclass(frozen=True)
class StudyBiLM:
    """A biLM, where it lies, and what is known of its making."""

    loaded: LoadedModel
    folder: Path
    source: str
    seconds: float | None
    """That its training took; none where it was given."""

    @property
    def weights_sha256(self) -> str:
        """A fingerprint of the weights."""
        if is_official(self.folder):
            return sha256(official_files(self.folder).weights)
        return sha256(self.folder / WEIGHTS)

    @property
    def held_out_share(self) -> float:
        """Of the texts, the share that it has not learned from."""
        settings = self.loaded.config.get("vocabulary", {})
        return float(settings.get("held_out_share", 0.0))


def given_bilm(folder: Path) -> StudyBiLM:
    """A biLM that was trained before."""
    return StudyBiLM(open_model(folder), folder, f"given: {folder}", None)


def is_trained(folder: Path) -> bool:
    """Whether an earlier session has trained the biLM of this folder to its end."""
    return (folder / FINISHED).is_file()


def trained_bilm(
    texts: LabelledTexts, folder: Path, config: PretrainConfig, on_share: OnShare
) -> StudyBiLM:
    """Train on the texts, labels unseen, or go on with a training that was stopped."""
    started = time.monotonic()
    around = Surroundings(
        cache=folder.parent / "cache",
        listener=lambda report: on_share(report.done) if isinstance(report, StepReport) else None,
    )
    done = folder / FINISHED
    if not is_trained(folder):
        before = _seconds_before(folder)
        result = _trained(texts, folder, config, around)
        if not result:
            raise KeyboardInterrupt
        write_json(done, {"seconds": before + time.monotonic() - started})
    elif read_run(folder)[1] != config:
        raise UserError(
            f"{folder} holds a biLM with other settings; use another --out for this study, "
            f"or go on with that biLM: --model {folder}"
        )
    return StudyBiLM(
        open_model(folder), folder, "trained by this study", read_json(done)["seconds"]
    )


def described(bilm: StudyBiLM) -> LanguageModel:
    """What the report says of the biLM."""
    config = bilm.loaded.model.config
    evaluations = _evaluations(bilm.folder)
    best = min(evaluations, key=lambda one: one["perplexity"], default=None)
    return LanguageModel(
        source=bilm.source,
        vocabulary=len(bilm.loaded.model.vocabulary),
        parameters=parameter_count(bilm.loaded.model),
        layers=config.layers,
        width=config.width,
        perplexity=None if best is None else best["perplexity"],
        accuracy=None if best is None else _accuracy(best),
        seconds=bilm.seconds,
        history=tuple(_epoch(one, _evaluations_per_epoch(bilm)) for one in evaluations),
    )


def _trained(
    texts: LabelledTexts, folder: Path, config: PretrainConfig, around: Surroundings
) -> bool:
    if (folder / CONFIG).exists():
        if read_run(folder)[1] != config:
            raise UserError(
                f"{folder} holds a training with other settings; use another --out for this study"
            )
        return resume(folder, around).finished
    source = folder.parent / TEXT
    write_json_lines(source, ({"text": text} for text in texts.texts))
    return pretrain(str(source), folder, config, surroundings=around).finished


def _seconds_before(folder: Path) -> float:
    """What earlier sessions of the training took, by its log."""
    times = [entry["time"] for entry in _log(folder) if "time" in entry]
    return times[-1] - times[0] if times else 0.0


def _evaluations(folder: Path) -> list[Json]:
    return [entry["evaluation"] | {"position": entry["position"]}
            for entry in _log(folder) if entry.get("kind") == "evaluation"]  # fmt: skip


def _log(folder: Path) -> list[Json]:
    path = folder / "log.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _evaluations_per_epoch(bilm: StudyBiLM) -> int:
    return int(bilm.loaded.config.get("training", {}).get("evaluations_per_epoch", 1))


def _epoch(evaluation: Json, per_epoch: int) -> PretrainingEpoch:
    return PretrainingEpoch(
        epoch=evaluation["position"]["evaluations"] / per_epoch,
        perplexity=evaluation["perplexity"],
        forward_perplexity=evaluation["forward"]["perplexity"],
        backward_perplexity=evaluation["backward"]["perplexity"],
    )


def _accuracy(evaluation: Json) -> float:
    return (evaluation["forward"]["accuracy"] + evaluation["backward"]["accuracy"]) / 2
