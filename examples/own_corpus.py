"""From a list of texts to a language model and a classifier on top of it, in a temporary folder."""

from pathlib import Path
from tempfile import TemporaryDirectory

from elmo import TextClassifier, pretrain

NOUNS, VERBS = ["cat", "dog", "bird", "fox"], ["sees", "hears", "likes"]
TEXTS = [f"the {a} {verb} the {b} ." for a in NOUNS for verb in VERBS for b in NOUNS] * 4
TINY = {  # for real text: "quick" or "default"
    "model": {"word_dim": 16, "hidden": 16, "softmax": {"samples": 8}},
    "batching": {"batch_tokens": 256, "window": 32},
    "training": {"epochs": 20},
}

with TemporaryDirectory() as name:
    folder = Path(name)
    model = pretrain(TEXTS, folder / "run", TINY, cache=folder / "cache")
    print(model)
    print(" ".join(model.fill("the cat ___ the dog .", k=1).words))
    labels = ["loud" if "hears" in text else "quiet" for text in TEXTS]
    classifier = TextClassifier(folder / "run").fit(TEXTS, labels)
    print(classifier.predict(["the fox hears the bird ."]))
