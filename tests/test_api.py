"""The public names, as users of sentence-transformers, scikit-learn and PyTorch would type them."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from tests.training.conftest import tiny_config, write_corpus

import elmo
from elmo.text.sources import are_sources, text_sources

pandas = pytest.importorskip("pandas")
TEXTS = ["Oil prices fell .", "They won the cup ."] * 6
LABELS = ["business", "sports"] * 6


@pytest.fixture(scope="module")
def embedder() -> elmo.Embedder:
    return elmo.Embedder.from_pretrained("default")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, elmo.LanguageModel]:
    folder = tmp_path_factory.mktemp("api")
    lines = write_corpus(folder / "corpus.txt").read_text(encoding="utf-8").splitlines()
    cache = folder / "cache"
    return folder, elmo.pretrain(lines, folder / "run", tiny_config(), cache=cache)


def test_every_public_name_has_a_docstring_and_imports() -> None:
    for name in elmo.__all__:
        assert getattr(elmo, name).__doc__, name
    assert set(elmo.__all__) <= set(dir(elmo))
    with pytest.raises(AttributeError):
        _ = elmo.nothing  # pyright: ignore


def test_user_errors_are_value_errors() -> None:
    with pytest.raises(ValueError, match="no such"):
        elmo.load_vectors("nowhere.npz")
    assert issubclass(elmo.ConfigError, elmo.UserError)


def test_an_embedder_by_name(embedder) -> None:
    assert repr(embedder).startswith("Embedder('default', ")
    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(again.encode("Oil fell ."), embedder.encode("Oil fell ."))
    assert len(pickle.dumps(embedder)) < 10_000
    with pytest.raises(elmo.UserError, match="float32, bfloat16 or auto"):
        elmo.Embedder.from_pretrained(dtype="float16")  # pyright: ignore
    half = elmo.Embedder.from_pretrained(dtype=torch.bfloat16)
    assert half.model.compute_dtype == torch.bfloat16


def test_what_people_type_by_habit_is_answered(embedder, tmp_path) -> None:
    for cls in (elmo.Embedder, elmo.ElmoLayer):
        with pytest.raises(elmo.UserError, match=rf"{cls.__name__}\.from_pretrained\('default'\)"):
            cls("default")
    with pytest.raises(elmo.UserError, match="device 'gpu' cannot be used here"):
        elmo.Embedder.from_pretrained(device="gpu")
    with pytest.raises(elmo.UserError, match=r"such as df\['text'\], got a whole table"):
        embedder.encode(pandas.DataFrame({"text": ["Oil fell ."]}))
    with pytest.raises(elmo.UserError, match="for an iterator use encode_iter"):
        embedder.encode(text for text in ["Oil fell ."])
    with pytest.raises(elmo.UserError, match="got NoneType"):
        embedder.encode(None)
    with pytest.raises(elmo.UserError, match=r"of one size, .*\(1, 3\) and \(1, 512\)"):
        embedder.similarity([1, 2, 3], embedder.encode("Oil fell ."))
    with pytest.raises(elmo.ConfigError, match="unknown key 'epochs'; it is one of 'training'"):
        elmo.pretrain(["Oil fell ."], tmp_path / "run", {"epochs": 1})
    for missing in (None, float("nan"), pandas.NA, np.float32("nan")):
        with pytest.raises(elmo.UserError, match="labels: text 1 has none"):
            elmo.TextClassifier().fit(["Oil fell .", "It rained ."], ["oil", missing])


def test_a_mix_of_your_own(embedder) -> None:
    weights = (0.2, 0.5, 0.3)
    mix = elmo.MixConfig(mix="frozen", layer_weights=weights, gamma=2.0)
    mixed = elmo.Embedder.from_pretrained(mix=mix).encode("Oil prices fell .")
    layers = embedder.encode("Oil prices fell .", layer="all")
    np.testing.assert_allclose(mixed, 2 * np.tensordot(weights, layers, 1), atol=1e-5)


def test_nearest_ranks_by_the_cosine_of_token_vectors(embedder) -> None:
    corpus = ["The court ruled on Monday .", "They left the court .", "It rained ."]
    sentence = "She won on the clay court ."
    hits = embedder.nearest("court", sentence, corpus, k=2, same_word=True)
    query = embedder.encode(sentence, output="tokens", layer="top")[5]
    expected = {}
    for text, idx in (0, 1), (1, 3):
        vector = embedder.encode(corpus[text], output="tokens", layer="top")[idx]
        expected[text] = query @ vector / np.linalg.norm(query) / np.linalg.norm(vector)
    assert [hit.text_number for hit in hits] == sorted(expected, key=lambda t: -expected[t])
    np.testing.assert_allclose([h.similarity for h in hits], sorted(expected.values())[::-1], 1e-4)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("output", ["pooled", "tokens"])
def test_files_hold_what_encode_returns(embedder, tmp_path, suffix, output) -> None:
    texts = ["Oil, prices fell .", 'She said "no" .', "雨"]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    out = tmp_path / f"vectors{suffix}"
    written = embedder.encode_files(str(tmp_path / "texts.txt"), out, output=output)
    assert written.texts == 3
    loaded, words, vectors = elmo.load_vectors(out)
    assert len(repr(elmo.load_vectors(out))) < 80  # not the numbers
    expected = embedder.encode(texts, output=output)
    if suffix == ".npy":
        rows = np.concatenate(expected) if output == "tokens" else expected
        np.testing.assert_array_equal(vectors, rows)
        return
    assert loaded == texts
    for a, b in zip(vectors, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    if output == "tokens":
        assert words[0] == ["Oil", ",", "prices", "fell", "."]


def test_pretrain_on_a_list_returns_the_model_and_resumes(trained) -> None:
    folder, model = trained
    assert repr(model).startswith("LanguageModel(words, 2 x 8")
    assert model.score("the cat sees the dog .").perplexity < 40
    lines = (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()
    again = elmo.pretrain(iter(lines), folder / "run", tiny_config(), cache=folder / "cache")
    for one, other in zip(again.model.parameters(), model.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(elmo.UserError, match="quick, characters"):
        elmo.pretrain(lines, folder / "other", "nothing")
    with pytest.raises(elmo.ConfigError, match=r"config.model.*hiden"):
        elmo.pretrain(lines, folder / "other", {"model": {"hiden": 8}})
    settings = json.loads(json.dumps(asdict(tiny_config())))
    again = elmo.pretrain(lines, folder / "run", settings, cache=folder / "cache")  # the same run
    assert again.model.config == model.model.config
    head = (folder / "run" / "README.md").read_text(encoding="utf-8").split("---")[1]
    assert "library_name: elmo" in head
    assert "pipeline_tag: feature-extraction" in head


def test_pretrain_changes_settings_of_the_model_it_starts_from(trained, tmp_path) -> None:
    folder, model = trained
    lines = (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()
    changes = {"training": {"epochs": 1}}
    again = elmo.pretrain(
        lines, tmp_path / "run", changes, init_from=folder / "run", cache=folder / "cache"
    )
    assert again.model.config == model.model.config  # not the architecture of the preset
    assert again.config["training"]["epochs"] == 1


def test_evaluate_takes_texts_or_files(trained) -> None:
    folder, model = trained
    path = folder / "corpus.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    by_texts = model.evaluate(lines)
    assert model.evaluate(str(path)).perplexity == pytest.approx(by_texts.perplexity)
    assert model.evaluate([str(path)]).perplexity == pytest.approx(by_texts.perplexity)


def test_words_that_are_cut_already_are_not_cut_again(tmp_path) -> None:
    (name,) = text_sources([["a-b", "c,d"], ["e"]], tmp_path)
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    assert lines == ['{"text": "a-b c,d"}', '{"text": "e"}']
    with pytest.raises(elmo.UserError, match="text 0"):
        text_sources([1], tmp_path)
    with pytest.raises(elmo.UserError, match="no text was given"):
        text_sources([], tmp_path)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("ag_news", True),
        (["ag_news:test", "-", "hf:user/name"], True),
        (["corpus/*.txt", "s3://bucket/a"], True),
        ([Path("a")], True),
        ("a.jsonl.gz", True),
        (["Oil prices fell ."], False),
        (["我爱北京", "雨"], False),
        (["corpus.txt", "Oil prices fell ."], False),
        ([], False),
        (pandas.Series(["corpus.txt"]), False),
    ],
)
def test_texts_are_told_from_names_of_files(names, expected) -> None:
    assert are_sources(names) == expected


def test_static_vectors_from_a_list(trained, tmp_path) -> None:
    _, model = trained
    texts = ["the cat sees the dog .", "the dog hears the fox ."] * 10
    vectors = elmo.train_static(texts, dim=3, window=2, shift=1.0, cache=tmp_path)
    assert vectors.dim == 3
    means = elmo.train_static(texts, "contextual", model=model, layer=1, cache=tmp_path)
    embedder = elmo.Embedder(model)
    expected = np.mean([embedder.encode(texts[i], output="tokens", layer=1)[-1] for i in (0, 1)], 0)
    np.testing.assert_allclose(means.vector("."), expected, atol=1e-5)
    with pytest.raises(elmo.UserError, match="svd, skipgram or contextual"):
        elmo.train_static(texts, "glove")  # pyright: ignore
    with pytest.raises(elmo.ConfigError, match="dimension"):
        elmo.train_static(texts, dimension=3)


STUDY = {"rows": ["majority", "tfidf"], "seeds": [0], "sweeps": [], "samples": [], "draws": 0}


def test_a_study_of_lists_is_that_of_the_file(tmp_path) -> None:
    table = pandas.DataFrame({"text": [f"{text} {i}" for i, text in enumerate(TEXTS * 8)]})
    table["label"] = LABELS * 8
    table.to_csv(tmp_path / "table.csv", index=False)
    by_lists = elmo.run_study((table["text"], table["label"]), tmp_path / "lists", STUDY)
    by_file = elmo.run_study(str(tmp_path / "table.csv"), tmp_path / "file", STUDY)
    assert [row["name"] for row in by_lists["rows"]] == ["majority", "tfidf"]
    metrics = [
        [row["alone"]["seeds"][0]["test"] for row in results["rows"]]
        for results in (by_lists, by_file)
    ]
    assert [row["accuracy"]["value"] for row in metrics[0]] == [0.5, 1]
    assert metrics[0] == metrics[1]
    names = {path.name for path in (tmp_path / "lists").iterdir()}
    assert {"results.json", "report.html", "report.pdf"} <= names
    test = (["Oil fell .", "They won ."], ["sports", "business"])
    data = (table["text"].tolist(), LABELS * 8)
    given = elmo.run_study(data, tmp_path / "given", STUDY, test=test)
    assert given["about"]["test_rows"] == 2
    assert given["rows"][1]["alone"]["test_accuracy"]["mean"] == 0


def test_what_is_no_labelled_text_is_told(tmp_path) -> None:
    for data, message in (
        ((TEXTS, LABELS[:2]), "12 texts and 2 labels"),
        (["Oil prices fell ."] * 3, r"data: expected a pair \(texts, labels\)"),
        (([["Oil"]], ["business"]), "texts as strings"),
        ((TEXTS, [["a", "b"]] * 12), "one label per text"),
    ):
        with pytest.raises(elmo.UserError, match=message):
            elmo.run_study(data, tmp_path / "study", STUDY)
    with pytest.raises(elmo.UserError, match="quick, standard, full"):
        elmo.run_study(None, tmp_path / "study", "fast")
    with pytest.raises(elmo.ConfigError, match="row"):
        elmo.run_study(None, tmp_path / "study", {"row": []})
    with pytest.raises(elmo.UserError, match="test: expected names of files"):
        elmo.run_study(None, tmp_path / "study", STUDY, test=(TEXTS, LABELS))


def test_the_vectorizer_is_an_estimator(tmp_path) -> None:
    texts, labels = pandas.Series(TEXTS, index=range(5, 17)), pandas.Series(LABELS)
    pipeline = make_pipeline(elmo.ElmoVectorizer(), LogisticRegression())
    assert cross_val_score(pipeline, texts, labels, cv=2).tolist() == [1, 1]
    assert clone(elmo.ElmoVectorizer(layer=1)).get_params()["layer"] == 1
    search = GridSearchCV(pipeline, {"elmovectorizer__layer": ["mix", 0]}, cv=2)
    assert search.fit(texts, labels).best_score_ == 1
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert again.predict(texts[:2]).tolist() == LABELS[:2]
    assert len(pickle.dumps(search.best_estimator_)) < 50_000
    table = elmo.ElmoVectorizer().set_output(transform="pandas").fit_transform(texts)
    assert table.shape == (12, 100 + 3 * 2 * 512)  # static vectors; mean and std of each layer
    assert repr(elmo.ElmoVectorizer()) == "ElmoVectorizer()"


def test_the_classifier_is_an_estimator(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    table = pandas.DataFrame({"text": TEXTS, "label": LABELS})
    classifier = elmo.TextClassifier().fit(table["text"], table["label"])
    assert classifier.predict(table["text"])[:2].tolist() == LABELS[:2]
    content = pickle.dumps(classifier)
    assert len(content) < 3_000_000  # the biLM alone has 10 MB
    again = pickle.loads(content)
    np.testing.assert_allclose(again.predict_proba(TEXTS), classifier.predict_proba(TEXTS), 1e-5)
    search = GridSearchCV(clone(classifier), {"parts": ["ngrams", "elmo"]}, cv=2)
    assert search.fit(TEXTS, LABELS).best_estimator_.config.parts in ("ngrams", "elmo")
    with pytest.raises(elmo.UserError, match="or a field of ClassifierConfig"):
        elmo.TextClassifier().set_params(nothing=1)
    with pytest.raises(elmo.UserError, match="or a field of ClassifierConfig"):
        elmo.TextClassifier(nothing=1)
    few = clone(elmo.TextClassifier(parts="ngrams", seed=3))
    assert (few.config.parts, few.config.learning.seed) == ("ngrams", 3)
    assert elmo.TokenTagger(seed=4).config.learning.seed == 4
    with pytest.raises(elmo.UserError, match=r"df\['text'\]"):
        classifier.fit(table[["text"]], table["label"])
    classifier.save_pretrained(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: text-classification" in card


class Rows(torch.utils.data.Dataset[str]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> str:
        return TEXTS[index]


class Collate:
    def __init__(self, layer: elmo.ElmoLayer) -> None:
        self.layer = layer

    def __call__(self, texts: list[str]) -> torch.Tensor:
        with torch.no_grad():
            return self.layer(texts).vectors


def test_the_layer_in_workers_and_in_a_file(tmp_path) -> None:
    mix = elmo.MixConfig(layer_weights=(0.2, 0.3, 0.5))
    layer = elmo.ElmoLayer.from_pretrained(mix=mix)
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=2, num_workers=1, collate_fn=Collate(layer)
    )
    batches = list(loader)
    expected = layer(TEXTS[:2]).vectors
    torch.testing.assert_close(batches[0], expected.detach(), atol=1e-6, rtol=0)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = elmo.ElmoLayer.from_pretrained()
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    torch.testing.assert_close(other(TEXTS[:2]).vectors, layer(TEXTS[:2]).vectors)
    assert "weights (0.200, 0.300, 0.500), gamma 1.000" in repr(other.mix)
