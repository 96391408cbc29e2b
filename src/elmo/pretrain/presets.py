"""Settings that work, by name."""

from __future__ import annotations

from dataclasses import replace

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.pretrain.config import PretrainConfig, TrainingConfig, VocabularyConfig
from elmo.text.batching_config import Batching

DEFAULT = PretrainConfig()
SLOWER = TrainingConfig(schedule="one_cycle", warmup=0.1)
"""For models that the rate and the schedule of the default one were not tried with."""

QUICK = PretrainConfig(
    model=BiLMConfig(word_dim=128, hidden=128, softmax=SoftmaxConfig(samples=1024)),
    batching=Batching(batch_tokens=2048),
    training=replace(SLOWER, epochs=2),
)

CHARACTERS = PretrainConfig(
    model=BiLMConfig(input="characters", hidden=512, projection=256, skip=True, cell_clip=3.0,
                     projection_clip=3.0, softmax=SoftmaxConfig(tied=False)),
    batching=Batching(batch_tokens=2048),
    training=SLOWER,
)  # fmt: skip

STREAM = PretrainConfig(
    batching=Batching(batching="stream", batch_tokens=2048, window=32),
    training=replace(SLOWER, epochs=10),
)

PAPER = PretrainConfig(
    vocabulary=VocabularyConfig(min_count=3, max_vocabulary=800_000),
    model=BiLMConfig(
        input="characters",
        characters=CharacterConfig(
            filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)), highways=2
        ),
        hidden=4096,
        projection=512,
        skip=True,
        cell_clip=3.0,
        projection_clip=3.0,
        softmax=SoftmaxConfig(samples=8192, sampler="log_uniform", tied=False),
    ),
    batching=Batching(batching="stream", batch_tokens=2560, window=20),
    training=TrainingConfig(epochs=10, optimizer="adagrad", schedule="constant", warmup=0.0),
)

PRESETS = {
    "default": DEFAULT,
    "quick": QUICK,
    "characters": CHARACTERS,
    "stream": STREAM,
    "paper": PAPER,
}
