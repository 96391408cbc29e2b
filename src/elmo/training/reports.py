"""Where reports of a run go: log.jsonl, TensorBoard, and the model card."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

import elmo
from elmo.bilm.model import BiLM
from elmo.errors import require_extra
from elmo.evaluate import Evaluation
from elmo.files import explained, write_text
from elmo.model_folder import parameter_count
from elmo.text.corpus import Corpus
from elmo.training.config import PretrainConfig
from elmo.training.loop import EvaluationReport, Listener, Position, Report, StepReport

__all__ = ["EvaluationReport", "JsonLog", "Listener", "Report", "StepReport", "TensorBoardLog"]


class JsonLog:
    """Appends every report to log.jsonl.

    A resumed run repeats what followed its checkpoint, so later lines, and a line cut short by a
    crash, are removed first.
    """

    def __init__(self, path: Path, resumed_at: int) -> None:
        self._path = path
        lines: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                if json.loads(line)["step"] > resumed_at:
                    break
            except json.JSONDecodeError:
                break
            lines.append(line + "\n")
        if path.exists():
            write_text(path, "".join(lines))

    def __call__(self, report: Report) -> None:
        kind = "step" if isinstance(report, StepReport) else "evaluation"
        entry = {"kind": kind, "time": round(time.time(), 3), "step": report.step}
        entry |= asdict(report)
        try:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise explained(error, self._path) from error


class TensorBoardLog:
    """Writes losses and held-out perplexity for TensorBoard (extra `track`)."""

    def __init__(self, folder: Path) -> None:
        require_extra("tensorboard", "track")
        board: Any = import_module("torch.utils.tensorboard")
        self._writer = board.SummaryWriter(str(folder))

    def __call__(self, report: Report) -> None:
        if isinstance(report, StepReport):
            names = ("loss_forward", "loss_backward", "learning_rate", "tokens_per_second")
            values = {f"train/{name}": getattr(report, name) for name in names}
        else:
            values = {
                "held_out/perplexity_forward": report.evaluation.forward.perplexity,
                "held_out/perplexity_backward": report.evaluation.backward.perplexity,
            }
        for name, value in values.items():
            self._writer.add_scalar(name, value, report.step)
        if isinstance(report, EvaluationReport):
            self._writer.flush()


def model_card(
    model: BiLM,
    corpus: Corpus,
    config: PretrainConfig,
    sources: Sequence[str],
    command: str,
    position: Position,
    evaluation: Evaluation | None,
) -> str:
    """The model card as Markdown: what the model was made from, how well it predicts."""
    settings = config.model
    case = "lower-cased" if config.tokenizer.lowercase else "case kept"
    quality = "No text was held out, so nothing is known of its quality.\n"
    if evaluation is not None:
        rows = "\n".join(
            f"| {name} | {one.perplexity:.2f} | {one.accuracy:.4f} | {one.top5_accuracy:.4f} |"
            for name, one in (("forward", evaluation.forward), ("backward", evaluation.backward))
        )
        quality = f"""## Held-out text, full softmax (best model, step {position.best_step:,})

| direction | perplexity | accuracy | top-5 accuracy |
|---|---|---|---|
{rows}

Average perplexity {evaluation.perplexity:.2f}; unknown words {evaluation.unknown_rate:.2%}.
"""
        if position.frozen_perplexity is not None:
            quality += (
                "Average perplexity before the biLM itself was trained on this text, its softmax "
                f"alone learned: {position.frozen_perplexity:.2f}.\n"
            )
    return f"""# A bidirectional language model (ELMo)

| | |
|---|---|
| input | {settings.input} |
| layers | {settings.layers} per direction, {settings.hidden} cells, output {settings.width} |
| parameters | {parameter_count(model):,} |
| vocabulary | {len(model.vocabulary):,} words (seen at least {config.vocabulary.min_count} times) |
| tokenizer | {config.tokenizer.tokenizer}, {case} |
| text | {", ".join(sources)} |
| training text | {corpus.train.documents:,} documents, {corpus.tokens:,} tokens |
| held-out text | {corpus.held_out.documents:,} documents |
| corpus fingerprint | `{corpus.digest[:16]}` |
| trained for | {position.step:,} steps, {position.targets:,} predictions per direction |
| seed | {config.training.seed} |

{quality}
## Made with

```
{command}
```

elmo {elmo.__version__}, torch {torch.__version__}, Python {platform.python_version()},
{platform.machine()}, {torch.get_num_threads()} threads.
"""
