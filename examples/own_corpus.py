"""From a list of texts to a language model and a classifier on top of it, in a temporary folder."""

from pathlib import Path
from tempfile import TemporaryDirectory

from elmo import PretrainConfig, TextClassifier, pretrain
from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.text.config import Batching
from elmo.training.config import TrainingConfig

NOUNS, VERBS = ["cat", "dog", "bird", "fox"], ["sees", "hears", "likes"]
TEXTS = [f"the {a} {verb} the {b} ." for a in NOUNS for verb in VERBS for b in NOUNS] * 4
TINY = PretrainConfig(  # for real text: "quick" or "default"
    model=BiLMConfig(word_dim=16, hidden=16, softmax=SoftmaxConfig(samples=8)),
    batching=Batching(batch_tokens=256, window=32),
    training=TrainingConfig(epochs=20),
)

with TemporaryDirectory() as name:
    folder = Path(name)
    model = pretrain(TEXTS, folder / "run", TINY, cache=folder / "cache")
    print(model)
    print(" ".join(model.fill("the cat ___ the dog .", k=1).words))
    labels = ["loud" if "hears" in text else "quiet" for text in TEXTS]
    classifier = TextClassifier(folder / "run").fit(TEXTS, labels)
    print(classifier.predict(["the fox hears the bird ."]))
