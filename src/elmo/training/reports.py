"""What a run tells those who watch it: a terminal, a log file, TensorBoard."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
from elmo.training.checkpoint import Position
from elmo.training.config import PretrainConfig


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """How training goes, averaged over the steps since the last report."""

    step: int
    epoch: int
    done: float
    """Share of the training that lies behind."""
    targets: int
    loss_forward: float
    """Training loss in nats a word; of a sampled softmax it is an estimate."""
    loss_backward: float
    learning_rate: float
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """What the model achieves on the held-out text."""

    position: Position
    evaluation: Evaluation
    is_best: bool
    ends_freeze: bool = False
    """Whether only the softmax has been trained so far, and the rest is from here on."""

    @property
    def step(self) -> int:
        """The step after which it was made."""
        return self.position.step


Report = StepReport | EvaluationReport
Listener = Callable[[Report], None]


def all_of(listeners: Sequence[Listener]) -> Listener:
    """One listener that tells several."""

    def tell(report: Report) -> None:
        for listener in listeners:
            listener(report)

    return tell


class JsonLog:
    """Appends every report to log.jsonl."""

    def __init__(self, path: Path, resumed_at: int) -> None:
        self._path = path
        if path.exists():
            _forget_after(path, resumed_at)

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
    """Draws losses and held-out perplexity in TensorBoard (extra `track`)."""

    def __init__(self, folder: Path) -> None:
        require_extra("tensorboard", "track")
        board: Any = import_module("torch.utils.tensorboard")
        self._writer = board.SummaryWriter(str(folder))

    def __call__(self, report: Report) -> None:
        if isinstance(report, StepReport):
            self._add(report.step, "train/loss_forward", report.loss_forward)
            self._add(report.step, "train/loss_backward", report.loss_backward)
            self._add(report.step, "train/learning_rate", report.learning_rate)
            self._add(report.step, "train/tokens_per_second", report.tokens_per_second)
        else:
            evaluation = report.evaluation
            self._add(report.step, "held_out/perplexity_forward", evaluation.forward.perplexity)
            self._add(report.step, "held_out/perplexity_backward", evaluation.backward.perplexity)
            self._writer.flush()

    def _add(self, step: int, name: str, value: float) -> None:
        self._writer.add_scalar(name, value, step)


def _forget_after(path: Path, step: int) -> None:
    """Drop what a resumed run is going to say again, and a line cut short by a crash."""
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            break
        if entry["step"] > step:
            break
        kept.append(line + "\n")
    write_text(path, "".join(kept))


# The model card: what a model was made from, how well it predicts, how to make it again.


def model_card(
    model: BiLM,
    corpus: Corpus,
    config: PretrainConfig,
    sources: tuple[str, ...],
    command: str,
    position: Position,
    evaluation: Evaluation | None,
) -> str:
    """The card as Markdown."""
    settings = config.model
    return f"""# A bidirectional language model (ELMo)

| | |
|---|---|
| input | {settings.input} |
| layers | {settings.layers} a direction, {settings.hidden} cells, output {settings.width} |
| parameters | {parameter_count(model):,} |
| vocabulary | {len(model.vocabulary):,} words (seen at least {config.vocabulary.min_count} times) |
| tokenizer | {_tokenizer(config)} |
| text | {", ".join(sources)} |
| training text | {corpus.train.documents:,} documents, {corpus.tokens:,} tokens |
| held-out text | {corpus.held_out.documents:,} documents |
| corpus fingerprint | `{corpus.digest[:16]}` |
| trained for | {position.step:,} steps, {position.targets:,} predictions a direction |
| seed | {config.training.seed} |

{_quality(evaluation, position)}
## Made with

```
{command}
```

elmo {elmo.__version__}, torch {torch.__version__}, Python {platform.python_version()},
{platform.machine()}, {torch.get_num_threads()} threads.
"""


def _tokenizer(config: PretrainConfig) -> str:
    case = "lower-cased" if config.tokenizer.lowercase else "case kept"
    return f"{config.tokenizer.tokenizer}, {case}"


def _quality(evaluation: Evaluation | None, position: Position) -> str:
    if evaluation is None:
        return "No text was held out, so nothing is known of its quality.\n"
    rows = "\n".join(
        f"| {name} | {one.perplexity:.2f} | {one.accuracy:.4f} | {one.top5_accuracy:.4f} |"
        for name, one in (("forward", evaluation.forward), ("backward", evaluation.backward))
    )
    return f"""## Held-out text, full softmax (best model, step {position.best_step:,})

| direction | perplexity | accuracy | top-5 accuracy |
|---|---|---|---|
{rows}

Average perplexity {evaluation.perplexity:.2f}; unknown words {evaluation.unknown_rate:.2%}.
{_before(position)}"""


def _before(position: Position) -> str:
    """What there was when only the softmax of the model had been trained on this text."""
    if position.frozen_perplexity is None:
        return ""
    return (
        "Average perplexity before the biLM itself was trained on this text, its softmax alone "
        f"learned: {position.frozen_perplexity:.2f}.\n"
    )
