"""Functions that take lists of texts as well as the names of files: train, or compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elmo.classify.data import LabelledTexts
from elmo.classify.label_sets import joined_labels
from elmo.config import Json, from_json, merged, to_json
from elmo.errors import UserError
from elmo.integrations.tracking import log_to_tensorboard
from elmo.language_model import LanguageModel, model_path
from elmo.model_folder import Text
from elmo.static import train as static
from elmo.static.contextual import ContextualConfig
from elmo.static.vectors import StaticVectors
from elmo.study.config import PRESETS as STUDY_PRESETS
from elmo.study.config import StudyConfig
from elmo.text.config import ReadOptions
from elmo.text.sources import are_sources, text_sources
from elmo.text.tokenizer import Tokenizer, TokenizerConfig, allow_tokenizer
from elmo.training import pretrain as training
from elmo.training.config import PRESETS, PretrainConfig
from elmo.training.loop import Listener

if TYPE_CHECKING:
    from elmo.study.runner import CellProgress

Texts = str | Path | Iterable[Text] | Sequence[Path]
"""Texts (strings, or lists of words), or the names of files; see `are_sources`."""


def pretrain(
    texts_or_sources: Texts,
    out: Path | str,
    config: PretrainConfig | Mapping[str, Any] | str = "default",
    *,
    held_out: Texts | None = None,
    init_from: Path | str | None = None,
    word_vectors: Path | str | None = None,
    device: str = "cpu",
    fresh: bool = False,
    cache: Path | None = None,
    custom_tokenizer: Tokenizer | None = None,
    tensorboard: bool = False,
    on_report: Listener | None = None,
) -> LanguageModel:
    """Train a biLM and write it to a folder; the same call resumes an interrupted run.

    Args:
        texts_or_sources: a list of texts (strings, or lists of words), any other iterable of texts,
            or the names of sources as on the command line: files, patterns, folders, addresses,
            "ag_news", "hf:NAME". One string is the name of a source.
        out: a new or empty folder, or that of the run to resume.
        config: the name of a preset ("default", "quick", "characters", "stream", "paper") or
            settings, as a `PretrainConfig` or by section and name, as in a file for `--config`:
            {"model": {"hidden": 512}, "training": {"epochs": 5}}. What is not named has its
            default; with `init_from`, it is as in the settings of that model.
        held_out: texts or sources for validation; default: a fraction of the texts.
        init_from: a model whose weights the run starts from; its vocabulary grows.
        word_vectors: a file of vectors to initialise the word embedding from.
        device: "cpu", "cuda", "cuda:1", …
        fresh: start over, deleting the run that the folder holds.
        cache: folder for prepared text; default: $ELMO_CACHE or ~/.cache/elmo.
        custom_tokenizer: a function from a text to a list of words; the model needs it again when
            it is loaded. For one that can be named, such as spaCy's, set
            `TokenizerConfig(tokenizer="spacy:de")` instead.
        tensorboard: write TensorBoard logs to the folder (extra: track).
        on_report: called with every report of progress, see `elmo.integrations.tracking`.

    Returns:
        The best model of the run, as `LanguageModel.from_pretrained(out)` loads it.

    Raises:
        UserError: the folder holds something else, or a run with other settings or other text.
        KeyboardInterrupt: a signal stopped the run; its state is saved.

    >>> model = pretrain(["The cat sat .", "The dog sat ."] * 500, "runs/pets", "quick")
    >>> round(model.score("The cat sat .").perplexity)
    2
    """
    if isinstance(config, str) and config not in PRESETS:
        known = ", ".join(PRESETS)
        raise UserError(f"config: expected {known}, or settings; got {config!r:.60}")
    start = None if init_from is None else model_path(init_from)
    base = PRESETS["default"] if start is None else training.settings_of(start)
    if isinstance(config, str):
        settings = base if config == "default" else PRESETS[config]
    elif isinstance(config, PretrainConfig):
        settings = config
    else:
        settings = from_json(PretrainConfig, merged(to_json(base), config), "config")
    if not isinstance(config, str) and (
        isinstance(config, PretrainConfig) or "tokenizer" in config
    ):
        allow_tokenizer(settings.tokenizer.tokenizer)
    if custom_tokenizer is not None and settings.tokenizer.tokenizer != "custom":
        settings = replace(settings, tokenizer=replace(settings.tokenizer, tokenizer="custom"))
    if tensorboard:
        on_report = log_to_tensorboard(Path(out) / training.TENSORBOARD, on_report)
    result = training.pretrain(
        text_sources(texts_or_sources, cache),
        out,
        settings,
        held_out=() if held_out is None else text_sources(held_out, cache),
        init_from=start,
        word_vectors=word_vectors,
        fresh=fresh,
        device=device,
        cache=cache,
        custom_tokenizer=custom_tokenizer,
        on_report=on_report,
    )
    if not result.finished:
        raise KeyboardInterrupt(
            f"stopped after {result.position.step:,} steps; the same call resumes the run"
        )
    return LanguageModel.from_pretrained(out, device, custom_tokenizer)


def train_static(
    texts_or_sources: Texts,
    method: Literal["svd", "skipgram", "contextual"] = "svd",
    *,
    model: LanguageModel | Path | str = "default",
    read: ReadOptions | None = None,
    tokenizer: TokenizerConfig | None = None,
    cache: Path | None = None,
    **settings: Any,
) -> StaticVectors:
    """Train static word vectors: one vector per word, whatever stands around it.

    Args:
        texts_or_sources: as in `pretrain`.
        method: "svd", positive pointwise mutual information, factorised; "skipgram", as word2vec;
            "contextual", the mean of a word's vectors over its occurrences, by a biLM.
        model: for "contextual": a `LanguageModel`, or the one to load.
        read: how texts are found in files.
        tokenizer: how texts are cut into words; "contextual" uses the model's.
        cache: folder for prepared text; default: $ELMO_CACHE or ~/.cache/elmo.
        **settings: of `SvdConfig`, `SkipGramConfig` or `ContextualConfig`: dim, window, min_count,
            layer, …

    >>> vectors = train_static(texts, "skipgram", dim=100, window=8)
    >>> vectors.nearest("oil", 1)[0].word
    'crude'
    >>> vectors.save("vectors.txt")  # KeyedVectors.load_word2vec_format reads it
    """
    configs = {
        "svd": static.SvdConfig,
        "skipgram": static.SkipGramConfig,
        "contextual": ContextualConfig,
    }
    if method not in configs:
        raise UserError(f"method: expected svd, skipgram or contextual, got {method!r}")
    if tokenizer is not None:
        allow_tokenizer(tokenizer.tokenizer)
    return static.train_static(
        text_sources(texts_or_sources, cache),
        from_json(configs[method], settings, method),
        model=model if isinstance(model, LanguageModel) else model_path(model),
        read=read,
        tokenizer=tokenizer,
        held_out_share=0.0,
        cache=cache,
    ).vectors


def run_study(
    data: str | Sequence[str] | tuple[Iterable[str], Iterable[Any]] | None,
    out: Path | str,
    config: StudyConfig | Mapping[str, Any] | str | None = None,
    *,
    test: str | Sequence[str] | tuple[Iterable[str], Iterable[Any]] | None = None,
    model: Path | str | None = None,
    pretraining: PretrainConfig | None = None,
    title: str = "",
    fresh: bool = False,
    on_progress: Callable[[CellProgress], None] = lambda progress: None,
) -> Json:
    """Compare ELMo with static embeddings and TF-IDF on labelled texts; writes a report.

    Needs the extra `study`. The same call resumes: what is computed already is not repeated.

    Args:
        data: a pair (texts, labels), or names of labelled files as on the command line: "ag_news",
            "mail.csv"; None: short news that are generated.
        out: folder for results.json, report.html, report.pdf and all that was trained.
        config: the name of a preset ("quick", "standard", "full") or settings, as a `StudyConfig`
            or by name: {"seeds": [0], "windows": [2, 8]}; default: "standard", or "quick" for
            generated texts.
        test: the texts to test on; default: a part of `data`, class by class.
        model: a pre-trained biLM; default: one is trained on the training texts.
        pretraining: settings of that training; default: those of the preset.
        title: of the report; default: what was compared, and on which texts.
        fresh: start over, forgetting what is in `out`.
        on_progress: called whenever a part of the study starts, is under way or ends.

    Returns:
        The content of results.json; docs/study.md describes it.

    >>> results = run_study((df["text"], df["label"]), "runs/study", "quick")
    >>> results["rows"][0]["title"]
    'Majority class'
    """
    # Not with the module: whoever pre-trains need not wait for the study.
    from elmo.study import runner
    from elmo.study.data import parts_of, read_parts
    from elmo.study.report import write_report
    from elmo.study.results import write_results

    if config is None:
        config = "quick" if data is None else "standard"
    if isinstance(config, str) and config not in STUDY_PRESETS:
        raise UserError(f"config: expected {', '.join(STUDY_PRESETS)}, or settings; got {config!r}")
    preset = config if isinstance(config, str) else "standard"
    if isinstance(config, Mapping):
        config = from_json(StudyConfig, config, "config")
    settings = STUDY_PRESETS[config] if isinstance(config, str) else config
    if data is None or are_sources(data):
        if test is not None and not are_sources(test):
            raise UserError("test: expected names of files, as for data, or a pair for both")
        parts = read_parts(_names(data), _names(test), settings)
    else:
        held_out = None if test is None else _labelled(test, "test")
        parts = parts_of("texts", _labelled(data, "data"), held_out, settings)
    folder = Path(out)
    results = runner.run_study(
        parts, folder, settings, model=model, pretraining=pretraining, preset=preset, title=title,
        fresh=fresh, on_progress=on_progress,
    )  # fmt: skip
    write_results(results, folder)
    write_report(results, folder)
    return results


def _names(sources: str | Path | Sequence[str | Path] | None) -> list[str]:
    if sources is None or isinstance(sources, str | Path):
        return [] if sources is None else [str(sources)]
    return [str(name) for name in sources]


def _labelled(pair: Any, name: str) -> LabelledTexts:
    """A pair of texts and labels as a table that was read."""
    try:
        texts, labels = (list(part) for part in pair)
    except (TypeError, ValueError):
        raise UserError(f"{name}: expected a pair (texts, labels), or names of files") from None
    names, _, several = joined_labels(labels, len(texts))
    if several is not None or not all(isinstance(text, str) for text in texts):
        raise UserError(f"{name}: expected texts as strings, and one label per text")
    return LabelledTexts(texts, names, [f"{name}, row {row}" for row in range(len(texts))])
