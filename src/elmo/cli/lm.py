"""elmo score, predict, generate: the language model itself."""

from __future__ import annotations

import math
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING

from elmo.bilm.config import BLANK, GenerationConfig
from elmo.cli.display import print_json, print_table, safe, say
from elmo.cli.main import Arguments, Command, add_texts, open_model, read_texts, require_texts
from elmo.text.tokenizer import join_words

if TYPE_CHECKING:
    from elmo.language_model import Prediction, TextScore


def score_command() -> Command:
    page = """
        Print the log-probability of each word of a text, in both directions; in bits, its negative
        is the surprisal of reading studies.

        elmo score "Oil prices fell on Monday ."
        elmo score --files sentences.txt --model runs/news --json
        elmo score --files items.txt --format tsv --unit bits

        --format table|tsv|json=table  table: to read; tsv: a line per word, for R or pandas; json:
            as --json.
        --unit nats|bits=nats  Of log-probabilities; JSON is in nats.
    """
    command = Command("score", run_score, page)
    add_texts(command)
    return command


def run_score(args: Arguments) -> int:
    from elmo.language_model import UnknownWords

    texts = require_texts(read_texts(args))
    scale = 1 / math.log(2) if args.unit == "bits" else 1.0
    loaded = open_model(args)
    unknown = UnknownWords(loaded.vocabulary)
    if args.format == "tsv":
        print("text", "position", "word", "known", "forward", "backward", sep="\t")
    for number, scored in enumerate(loaded.score(texts)):
        rate = unknown.add([word.word for word in scored.words])
        if args.json or args.format == "json":
            print_json({**asdict(scored), "unknown_rate": rate})
        elif args.format == "tsv":
            for idx, word in enumerate(scored.words):
                values = (f"{scale * value:.6f}" for value in (word.forward, word.backward))
                print(number, idx, safe(word.word), int(word.known), *values, sep="\t")
        else:
            _print_score(scored, scale)
    unknown.tell()
    return 0


def _print_score(scored: TextScore, scale: float) -> None:
    forward, backward = scored.forward, scored.backward
    rows = [["(begin)", "", f"{scale * backward.boundary:.3f}"]]
    for word in scored.words:
        name = word.word if word.known else f"{word.word} (unknown)"
        rows.append([name, f"{scale * word.forward:.3f}", f"{scale * word.backward:.3f}"])
    rows += [
        ["(end)", f"{scale * forward.boundary:.3f}", ""],
        [""],
        ["log-probability", f"{scale * forward.total:.3f}", f"{scale * backward.total:.3f}"],
        ["perplexity", f"{forward.perplexity:,.2f}", f"{backward.perplexity:,.2f}"],
    ]
    print_table(rows, ["word", "forward", "backward"])
    print(f"perplexity of both directions: {scored.perplexity:,.2f}\n")


def predict_command() -> Command:
    page = """
        Find words for a blank, written ___, from the words before it, after it, and both.

        elmo predict "Oil ___ fell on Monday ."
        elmo predict runs/news "She [MASK] home ." --blank "[MASK]" --top 3 --json

        --top N=10  How many words to show.
        --blank BLANK=___  What marks a blank; of several, each takes the others for unknown.
    """
    command = Command("predict", run_predict, page)
    add_texts(command)
    return command


def run_predict(args: Arguments) -> int:
    texts = require_texts(read_texts(args))
    for prediction in open_model(args).fill(texts, args.top, blank=args.blank):
        if args.json:
            print_json(asdict(prediction))
        else:
            _print_prediction(prediction)
    return 0


def _print_prediction(prediction: Prediction) -> None:
    for blank in prediction.blanks:
        # The text with the best word in this blank; the others are open, as they were to it.
        words = list(prediction.words)
        for other in prediction.blanks:
            words[other.place] = f"[{words[other.place]}]" if other is blank else BLANK
        say(" ".join(words))
        ranked = zip_longest(blank.forward, blank.backward, blank.combined)
        rows = [
            [str(rank), *(f"  {word.word} {word.probability:.4f}" for word in candidates)]
            for rank, candidates in enumerate(ranked, start=1)
        ]
        print_table(rows, ["", "forward", "backward", "both"])
        print()


def generate_command() -> Command:
    page = """
        Continue a prompt, or write what comes before it; without a prompt, write a whole text.

        elmo generate "Oil prices" --temperature 0.8 --top-p 0.9
        elmo generate runs/news "on Monday ." --direction backward --seed 7
    """
    command = Command("generate", run_generate, page)
    add_texts(command, "PROMPT")
    shown = "direction length temperature top_k top_p seed"
    command.settings("generation", GenerationConfig(), shown)
    return command


def run_generate(args: Arguments) -> int:
    prompts = read_texts(args) or [""]
    loaded = open_model(args)
    for prompt in prompts:
        generated = loaded.generate(prompt, args.generation)
        if args.json:
            text = join_words(generated.words)
            print_json({"text": text, "words": generated.words, **asdict(generated)})
        else:
            say(join_words(generated.words))
    return 0
