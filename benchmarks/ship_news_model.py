"""Make the news model that comes with the package from a classifier of AG News, in bf16.

    python benchmarks/ship_news_model.py runs/topics --out src/elmo/news_model

It is measured on the test rows as it will be used. Texts of the data set are not ours to publish:
none is in the folder.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from elmo.classify.classifier import load_classifier
from elmo.classify.data import read_labelled
from elmo.config import to_json
from elmo.files import folder_written_whole, read_text, write_json, write_text
from elmo.model_folder import CARD

CARD_TEXT = """# News model of elmo

Tells four kinds of English news, as of 2004, apart: {labels}. The biLM beneath it, in `bilm/`, is
what `elmo embed` and `elmo neighbours` use where no model is named.

Test rows of AG News (descriptions, {count:,}), measured with these very files: accuracy
**{accuracy:.4f}** (95% interval {low:.4f} to {high:.4f}), macro F1 {f1:.4f}, calibration error
{calibration:.4f}.

Made with `python benchmarks/ship_news_model.py {source} --out {out}` from the classifier described
below, its weights rounded to bf16. Both models were trained on the descriptions of 94,576 of the
120,000 training rows of AG News, a data set gathered for research and other non-commercial use; no
text of it is here.

The biLM has {layers} layers of {hidden} cells a direction, knows {words:,} words, and was trained
with `{command}`.

---

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("classifier", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    classifier = load_classifier(given.classifier)
    bilm = classifier.language_model
    with folder_written_whole(given.out) as beside:
        classifier.save_pretrained(beside, precision="bf16")
        test = read_labelled("ag_news:test")
        metrics = load_classifier(beside).evaluate(test.texts, test.labels or ()).metrics
        write_json(beside / "metrics_test.json", to_json(replace(metrics, rows_per_second=None)))
        card = CARD_TEXT.format(
            labels=", ".join(classifier.labels),
            count=metrics.count,
            accuracy=metrics.accuracy.value,
            low=metrics.accuracy.low,
            high=metrics.accuracy.high,
            f1=metrics.macro_f1.value,
            calibration=metrics.calibration_error,
            source=given.classifier,
            out=given.out,
            layers=bilm.model.config.layers,
            hidden=bilm.model.config.hidden,
            words=len(bilm.model.vocabulary),
            command=bilm.config["run"]["command"],
        )
        write_text(beside / CARD, card + read_text(given.classifier / CARD, 1 << 20))
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    print(f"{given.out}: {size / 1e6:.2f} MB, test accuracy {metrics.accuracy.value:.4f}")


if __name__ == "__main__":
    main()
