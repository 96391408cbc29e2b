"""The card of a classifier: what it was made from, how good it is, how to make it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import torch

import elmo
from elmo.classify.evaluate import Evaluation
from elmo.classify.metrics import Metrics
from elmo.classify.train import Trained


def classifier_card(
    trained: Trained, evaluations: Mapping[str, Evaluation], texts: str, command: str
) -> str:
    """The card as Markdown."""
    classifier = trained.classifier
    network = classifier.config.network
    learning = classifier.config.learning
    tuned = learning.fine_tuning.fine_tune_epochs
    learned, chosen = len(trained.split.train), len(trained.split.development)
    parameters = sum(one.numel() for one in classifier.network.parameters())
    return f"""# A text classifier on top of a bidirectional language model (ELMo)

| | |
|---|---|
| labels | {", ".join(classifier.labels.names)} |
| mix of layers | {network.mix.mix}{_weights(trained)} |
| own word vectors | {network.own_words or "none"} |
| encoder | {network.encoder} |
| pooling | {network.pooling} |
| parameters of the network | {parameters:,} |
| biLM | {f"fine-tuned for {tuned} epochs" if tuned else "frozen"} |
| texts | {texts} |
| rows | {learned:,} to learn from, {chosen:,} to choose the epoch by |
| seed | {learning.seed} |
| trained in | {trained.seconds:,.0f} s |

## Quality

| part | rows | accuracy | 95% interval | precision | recall | F1 | calibration error |
|---|---|---|---|---|---|---|---|
{_rows(evaluations)}

Precision, recall and F1 are means over the classes.

## Made with

```
{command}
```

elmo {elmo.__version__}, torch {torch.__version__}, Python {platform.python_version()},
{platform.machine()}, {torch.get_num_threads()} threads.
"""


def _weights(trained: Trained) -> str:
    mix = trained.classifier.network.mix
    if mix.weights is None:
        return ""
    shares = ", ".join(f"{weight:.3f}" for weight in mix.weights)
    return f", layers 0 to {len(mix.weights) - 1} weigh {shares}, gamma {mix.gamma:.3f}"


def _rows(evaluations: Mapping[str, Evaluation]) -> str:
    return "\n".join(_row(name, one.metrics) for name, one in evaluations.items())


def _row(name: str, metrics: Metrics) -> str:
    accuracy, macro = metrics.accuracy, metrics.macro
    return (
        f"| {name} | {metrics.count:,} | {accuracy.value:.4f} | {accuracy.low:.4f} to "
        f"{accuracy.high:.4f} | {macro.precision:.4f} | {macro.recall:.4f} | {macro.f1:.4f} | "
        f"{metrics.calibration_error:.4f} |"
    )
