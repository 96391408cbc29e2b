"""elmo study paper: the tables and figures of the ELMo paper with any biLM, and a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elmo.cli.display import ProgressDisplay, print_json, print_table, say
from elmo.cli.main import Arguments, Command, add_device, add_model
from elmo.cli.probe import DATA, data_folder
from elmo.tasks.config import PAPER_PRESETS, PaperConfig

if TYPE_CHECKING:
    from elmo.config import Json

ARMS = {"none": ("without ELMo", "static"), "input": ("with ELMo", "elmo")}


def study_paper_command() -> Command:
    page = f"""
        Make the tables 1 to 6 and the figures 1 and 2 of the ELMo paper anew with a biLM, on
        public data, and write a report. The same command resumes.

        elmo study paper --data data --model runs/general --out runs/paper
        elmo study paper --data data --preset quick --out runs/quick

        --out FOLDER=paper  Folder for the report and all finished cells.
        {DATA}
        --word-vectors FILE  Task embeddings start from this file, in both arms.
        --wordnet FOLDER  Folder with WordNet's index.sense (default: Debian's).
        --preset {"|".join(PAPER_PRESETS)}=standard  Settings to start from.
        --fresh  Start over, forgetting the finished cells.
        --report-only  Write the report again from results.json.
    """
    command = Command("study paper", run_paper, page)
    add_model(command)
    add_device(command)
    command.settings(
        "config",
        PaperConfig(),
        "tasks seeds probes fractions train_rows epochs",
        choose=lambda args: PAPER_PRESETS[args.preset],
    )
    return command


def run_paper(args: Arguments) -> int:
    from elmo.classify.features import load_word_vectors
    from elmo.files import read_json
    from elmo.language_model import open_model
    from elmo.runtime import set_device
    from elmo.tasks.paper import RESULTS
    from elmo.tasks.paper import run_paper as run

    set_device(args.device, args.threads)
    if args.report_only:
        results: Json = read_json(args.out / RESULTS)
    else:
        with ProgressDisplay("paper", quiet=args.quiet) as display:
            results = run(
                open_model(args.model, args.device),
                data_folder(args),
                args.out,
                args.config,
                vectors=load_word_vectors(args.word_vectors),
                wordnet=args.wordnet,
                fresh=args.fresh,
                command=args.command_line,
                on_cell=lambda name, state, done, total: display.show(
                    f"{done} of {total} cells; {name}: {state}", done, total, now=state != "cached"
                ),
            )
    write_paper_report(results, args.out)
    if args.json:
        print_json(results)
    else:
        verdicts = {True: "yes", False: "no", None: "not significant"}
        rows = [[one["claim"], verdicts[one["agrees"]], one["numbers"]]
                for one in results["findings"]]  # fmt: skip
        print_table(rows or [["no finding: no table was asked for"]])
        say(f"{args.out / 'report.html'}, report.pdf and {RESULTS}")
    return 0


def write_paper_report(results: Json, folder: Path) -> None:
    """Write report.html and report.pdf, laid out as the reports of `elmo study` are."""
    from elmo.files import atomic_write, write_text
    from elmo.study import plots
    from elmo.study.report import printable, render_html, render_pdf
    from elmo.tasks.report import heat_map, make_report

    report = printable(make_report(results))
    for section in report["sections"]:
        for block in section["blocks"]:
            if block.get("plot") == "samples":
                block["svg"] = plots.samples(block["rows"], ARMS, "test score")
            elif block.get("plot") == "weights":
                block["svg"] = heat_map(block["rows"], plots.LIGHT)
    write_text(folder / "report.html", render_html(report))
    with atomic_write(folder / "report.pdf") as temporary:
        temporary.write_bytes(render_pdf(report))
