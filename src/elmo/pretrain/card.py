"""The model card: what a model was made from, how well it predicts, how to make it again."""

from __future__ import annotations

import platform

import torch

import elmo
from elmo.bilm.model import BiLM
from elmo.checkpoint import parameter_count
from elmo.language.evaluate import Evaluation
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.position import Position
from elmo.text.corpus import Corpus


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
