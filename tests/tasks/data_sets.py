"""The data sets of `elmo probe` and `elmo study paper`, tiny, in the layout of docs/tasks.md."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.tasks.toy import toy_pairs, toy_tags

from elmo.tasks.data import conll_text

SENTENCES = [
    "the cat sat on the mat .",
    "a bird looked at the cat .",
    "my dog ran to the old house .",
    "the bird sat on a tree .",
    "the dog looked at a tree .",
]
TAGS = {"the": "DET", "a": "DET", "my": "DET", ".": "PUNCT", "on": "ADP", "at": "ADP", "to": "ADP"}
TAGS |= dict.fromkeys(("sat", "looked", "ran"), "VERB") | {"old": "ADJ"}
ANIMAL, WHIP = "cat%1:05:00::", "cat%1:06:00::"
RATED = [("cat", "dog", 9.0), ("bird", "tree", 2.0), ("cat", "mat", 4.0), ("dog", "house", 1.0)]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def conllu(sentences: list[str]) -> str:
    rows = [
        "".join(
            f"{number}\t{word}\t_\t{TAGS.get(word, 'NOUN')}" + "\t_" * 6 + "\n"
            for number, word in enumerate(sentence.split(), start=1)
        )
        for sentence in sentences
    ]
    return "\n".join(rows) + "\n"


def write_probe_data(folder: Path) -> None:
    """A few lines in each file, WordNet's senses included."""
    for part, some in (("train", SENTENCES * 4), ("test", SENTENCES[:3])):
        write(folder / f"ud_english_ewt/en_ewt-ud-{part}.conllu.gz", conllu(some))
    lines = ["# document\tsentence\ttoken\tlemma\tpos\tsense_key(s)"]
    for row, sentence in enumerate(SENTENCES * 2):
        key = ANIMAL if row % len(SENTENCES) == 0 else WHIP
        for word in sentence.split():
            lines.append(f"d\t{row}\t{word}\t{word}\tX\t{key if word == 'cat' else '_'}")
        lines.append("")
    write(folder / "semcor/semcor3.0.tsv.gz", "\n".join(lines) + "\n")
    for name in ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015"):
        # "cat" in both of its sentences, each as in the training text; "dog" has no sense there.
        marked = [
            "".join(
                f'<instance id="{row}{word}" lemma="{word}" pos="NOUN">{word}</instance>'
                if word in ("cat", "dog")
                else f"<wf>{word}</wf>"
                for word in sentence.split()
            )
            for row, sentence in enumerate(SENTENCES[:3])
        ]
        text = "".join(f'<sentence id="s{n}">{some}</sentence>' for n, some in enumerate(marked))
        write(folder / f"wsd_eval/{name}.data.xml.gz", f"<corpus><text>{text}</text></corpus>")
        gold = f"0cat {ANIMAL}\n1cat {WHIP}\n2dog dog%1:05:00::\n"
        write(folder / f"wsd_eval/{name}.gold.key.txt.gz", gold)
    header = "index\tword\tsentence1\tsentence2\tstart1\tstart2\tend1\tend2\tlabel\n"
    pair = f"0\tcat\t{SENTENCES[0]}\t{SENTENCES[0]}\t4\t4\t7\t7\t1\n"
    for part in ("train", "validation"):
        write(folder / f"wic/{part}.tsv", header + pair * 4)
    marked = [f"{a}\tn\t{b}\tn" for a, b, _ in RATED]
    write(
        folder / "scws/ratings.txt.gz",
        "".join(
            f"{n}\t{marked[n]}\tthe <b> {a} </b> sat on a tree .\tmy <b> {b} </b> .\t{rating}\n"
            for n, (a, b, rating) in enumerate(RATED)
        ),
    )
    for name in ("WS-353-ALL", "SIMLEX-999", "MEN-TR-3k", "RG-65"):
        rows = "".join(f"{a}\t{b}\t{rating}\n" for a, b, rating in RATED)
        write(folder / f"word_similarity/EN-{name}.txt", rows)
    write(folder / "wordnet/index.sense", f"{WHIP} 2 1 9\n{ANIMAL} 1 2 3\ndog%1:05:00:: 3 1 4\n")


def write_paper_data(folder: Path) -> None:
    """What `elmo study paper` reads besides the probes' data and AG News."""
    for seed, part in enumerate(("train", "dev", "test")):
        sentences = SENTENCES * (1 if part == "test" else 4)
        write(folder / f"ud_english_ewt/en_ewt-ud-{part}.conllu.gz", conllu(sentences))
        names = toy_tags(30, seed, spans=True)
        file = {"train": "wnut17train.conll", "test": "emerging.test.annotated"}
        text = "".join(map(conll_text, names.words, names.tags))
        write(folder / "wnut17" / file.get(part, "emerging.dev.conll"), text)
        pairs = toy_pairs(30, seed)
        rows = zip(pairs.first, pairs.second, pairs.targets, strict=True)
        table = "premise\thypothesis\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
        name = {"train": "train_subset", "dev": "validation"}.get(part, part)
        write(folder / f"snli/{name}.tsv.gz", table)
        scored = toy_pairs(30, seed, scores=True)
        rows = enumerate(zip(scored.targets, scored.first, scored.second, strict=True))
        lines = [f"main\tx\t2012\t{n}\t{a}\t{b}\t{c}\tlink\n" for n, (a, b, c) in rows]
        write(folder / f"stsb/sts-{part}.csv.gz", "".join(lines))
        ratings = [f"{n % 5} {text}\n" for n, text in enumerate(pairs.first)]
        write(folder / f"sst/stsa.fine.{part}.gz", "".join(ratings))
