"""Runs: what they write, how they refuse, and that an interrupted one ends like any other."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.conftest import stop_after, tiny_config, write_corpus

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BatchLoss, BiLM, seeded
from elmo.companion import CompanionVectors
from elmo.errors import ConfigError, UserError
from elmo.language_model import LanguageModel
from elmo.model_folder import load_tensors
from elmo.text.config import Batching
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training import loop
from elmo.training.config import PretrainConfig, TrainingConfig, VocabularyConfig
from elmo.training.loop import Report, StepReport
from elmo.training.pretrain import (
    adopt,
    append_log,
    pretrain,
    read_run,
    resume,
    set_word_vectors,
    shorten_log,
    starting_vocabulary,
)

# One gesture: the same call starts, resumes and, with more epochs, trains longer.


def test_a_file_in_the_way_is_named(corpus_file, around, tiny, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match="is a file"):
            pretrain([str(corpus_file)], out, tiny, **around)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(corpus_file, around, tiny, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(UserError, match="no permission"):
        pretrain([str(corpus_file)], tmp_path / "closed" / "run", tiny, **around)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_with_files_of_the_user_is_refused(corpus_file, around, tiny, tmp_path, fresh):
    (tmp_path / "mine").mkdir()
    for name in ("README.md", "config.json"):
        (tmp_path / "mine" / name).write_text("{}")
        with pytest.raises(UserError, match=r"elmo did not write|not the settings"):
            pretrain([str(corpus_file)], tmp_path / "mine", tiny, fresh=fresh, **around)
        assert {path.read_text() for path in (tmp_path / "mine").iterdir()} == {"{}"}


def test_the_same_call_on_a_finished_run_changes_nothing(
    corpus_file, around, tiny, tmp_path, caplog
):
    caplog.set_level("INFO")
    first = pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)
    before = final_tensors(tmp_path / "run")
    again = pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)
    assert again.position == first.position
    assert final_tensors(tmp_path / "run") == before
    assert "finished at step" in caplog.text


def test_another_job_is_refused_and_all_that_differs_is_named(corpus_file, around, tiny, tmp_path):
    pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)
    before = final_tensors(tmp_path / "run")
    other = replace(tiny, training=replace(tiny.training, seed=1, epochs=1, clip=0.5))
    with pytest.raises(UserError, match="--fresh") as error:
        pretrain([str(corpus_file)], tmp_path / "run", other, **around)
    for named in ("seed: 0 before, 1 now", "epochs: 2 before, 1 now", "clip: 1.0 before, 0.5 now"):
        assert named in str(error.value)
    text = write_corpus(tmp_path / "other.txt", seed=1)
    with pytest.raises(UserError, match=r"text: \w+… before, \w+… now"):
        pretrain([str(text)], tmp_path / "run", tiny, **around)
    assert final_tensors(tmp_path / "run") == before


def test_text_is_known_by_its_content_and_checkpoints_may_come_more_often(
    corpus_file, around, tiny, tmp_path
):
    pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)
    moved = corpus_file.rename(tmp_path / "moved.txt")
    often = replace(tiny, training=replace(tiny.training, checkpoint_minutes=0.0))
    assert pretrain([str(moved)], tmp_path / "run", often, **around).finished
    assert read_run(tmp_path / "run")[1] == often


def test_fresh_starts_over_and_leaves_other_files(corpus_file, around, tiny, tmp_path):
    run = tmp_path / "run"
    pretrain([str(corpus_file)], run, tiny, **around)
    (run / "notes.txt").write_text("mine")
    other = replace(tiny, training=replace(tiny.training, seed=1))
    assert pretrain([str(corpus_file)], run, other, fresh=True, **around).finished
    pretrain([str(corpus_file)], tmp_path / "other", other, **around)
    assert final_tensors(run) == final_tensors(tmp_path / "other")
    assert (run / "notes.txt").read_text() == "mine"


def test_a_run_that_never_trained_does_not_block_a_corrected_one(
    corpus_file, around, tiny, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(loop, "train", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pretrain([str(corpus_file)], tmp_path / "run", tiny_config(seed=9), **around)
    assert read_run(tmp_path / "run")[1].training.seed == 9
    assert pretrain([str(corpus_file)], tmp_path / "run", tiny, **around).finished
    assert read_run(tmp_path / "run")[1] == tiny


@pytest.mark.parametrize("batching", ["documents", "stream"])
def test_more_epochs_train_longer_exactly(corpus_file, around, tmp_path, batching):
    """With a constant rate the past does not depend on the number of epochs."""
    config = tiny_config(epochs=1, schedule="constant", warmup=0.0)
    config = replace(config, batching=Batching(batching=batching, batch_tokens=96, window=16))
    longer = replace(config, training=replace(config.training, epochs=3))
    assert pretrain([str(corpus_file)], tmp_path / "parts", config, **around).finished
    result = pretrain([str(corpus_file)], tmp_path / "parts", longer, **around)
    assert (result.finished, result.position.epoch) == (True, 3)
    pretrain([str(corpus_file)], tmp_path / "whole", longer, **around)
    assert final_tensors(tmp_path / "parts") == final_tensors(tmp_path / "whole")


def test_settings_are_written_last(corpus_file, around, tiny, tmp_path, monkeypatch):
    """Without its settings a folder is no run yet, and the same command starts it."""
    folder = tmp_path / "run"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("elmo.training.pretrain.save_config", killed)
        with pytest.raises(KeyboardInterrupt):
            pretrain([str(corpus_file)], folder, tiny, **around)
    assert (folder / "vocabulary.txt").exists()
    assert pretrain([str(corpus_file)], folder, tiny, **around).finished


def final_tensors(run: Path) -> list[bytes]:
    """Every file a run ends with, byte for byte: the best model and the last checkpoint."""
    (last,) = sorted((run / "checkpoints").glob("step-*"))[-1:]
    files = [run / "model.safetensors", last / "model.safetensors", last / "training.safetensors"]
    return [path.read_bytes() for path in files]


def test_a_run_writes_a_model_that_loads_and_a_card(corpus_file, around, tiny, tmp_path):
    reports: list[Report] = []
    out = tmp_path / "run"
    result = pretrain([str(corpus_file)], out, tiny, **around, on_report=reports.append)
    assert result.finished
    loaded = LanguageModel.from_pretrained(out)
    assert loaded.model.config == tiny.model
    assert loaded.tokenizer == tiny.tokenizer
    assert result.position.evaluations == 4
    card = (out / "README.md").read_text()
    assert f"{result.corpus.tokens:,} tokens" in card
    assert f"{result.position.best_perplexity:.2f}" in card
    logged = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["kind"] for entry in logged].count("evaluation") == 4
    assert len(logged) == len(reports)


def test_each_direction_is_asked_for_every_word_once_an_epoch(corpus_file, around, tiny, tmp_path):
    result = pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)
    lines = corpus_file.read_text().splitlines()
    words = sum(len(line.split()) for line in lines)
    held_out = result.corpus.held_out
    held_out_words = held_out.positions - 2 * held_out.documents
    documents = len(lines) - held_out.documents
    assert result.position.targets == 2 * (words - held_out_words + documents)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(
    corpus_file, around, tiny, tmp_path
):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        config = replace(tiny, training=replace(tiny.training, seed=seed))
        pretrain([str(corpus_file)], tmp_path / name, config, **around)
    assert final_tensors(tmp_path / "a") == final_tensors(tmp_path / "b")
    assert final_tensors(tmp_path / "a") != final_tensors(tmp_path / "c")


@pytest.mark.parametrize("batching", ["documents", "stream"])
@pytest.mark.parametrize("loss", ["sampled", "adaptive"])
@pytest.mark.parametrize("steps", [1, 7, 20])
def test_a_stopped_and_resumed_run_ends_with_the_same_bytes(
    corpus_file, around, tmp_path, monkeypatch, batching, loss, steps
):
    config = PretrainConfig(
        vocabulary=tiny_config().vocabulary,
        model=BiLMConfig(
            word_dim=8,
            hidden=8,
            softmax=SoftmaxConfig(loss=loss, samples=6, cutoffs=(6, 9), tied=loss == "sampled"),
        ),
        batching=Batching(batching=batching, batch_tokens=96, window=16),
        training=TrainingConfig(epochs=2, precision="fp32"),
    )
    pretrain([str(corpus_file)], tmp_path / "whole", config, **around)
    with monkeypatch.context() as patch:
        patch.setattr("elmo.training.pretrain.stop_requested", stop_after(steps))
        half = pretrain([str(corpus_file)], tmp_path / "parts", config, **around)
        assert not half.finished
    assert pretrain([str(corpus_file)], tmp_path / "parts", config, **around).finished
    assert final_tensors(tmp_path / "whole") == final_tensors(tmp_path / "parts")


TRAINING_SCRIPT = """
import sys
from pathlib import Path
from typing import Any
import torch
from elmo.training.pretrain import pretrain
from tests.training.conftest import tiny_config
torch.set_num_threads(2)
corpus, run, cache = sys.argv[1:4]
config = tiny_config(epochs=4, checkpoint_minutes=0.0)
pretrain([corpus], run, config, cache=Path(cache))
"""


def start_training(corpus: Path, run: Path) -> subprocess.Popen[bytes]:
    """Train in another process, which goes on with the run if there is one."""
    arguments = [str(corpus), str(run), str(run.parent / "cache")]
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", TRAINING_SCRIPT, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])},
    )


def wait_for_checkpoints(process: subprocess.Popen[Any], folder: Path, number: int) -> None:
    """Wait until a process has written so many checkpoints more."""
    seen = {path.name for path in folder.glob("step-*")}
    written: set[str] = set()
    while process.poll() is None and len(written) < number:
        written |= {path.name for path in folder.glob("step-*")} - seen
        time.sleep(0.002)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory) -> Path:
    """A run that nothing has disturbed, beside its corpus."""
    folder = tmp_path_factory.mktemp("whole")
    corpus = write_corpus(folder / "corpus.txt")
    assert start_training(corpus, folder / "run").wait(timeout=300) == 0
    return folder / "run"


def test_kill_9_at_any_moment_changes_nothing(whole_run, corpus_file, tmp_path):
    """A real SIGKILL, again and again, while a checkpoint is written after every step."""
    for kill in range(3):
        process = start_training(corpus_file, tmp_path / "parts")
        wait_for_checkpoints(process, tmp_path / "parts" / "checkpoints", 2 + 3 * kill)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run was over before it could be killed"
    assert start_training(corpus_file, tmp_path / "parts").wait(timeout=300) == 0
    assert final_tensors(whole_run) == final_tensors(tmp_path / "parts")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_the_current_step_and_the_run_goes_on(
    whole_run, corpus_file, tmp_path, number
):
    process = start_training(corpus_file, tmp_path / "parts")
    wait_for_checkpoints(process, tmp_path / "parts" / "checkpoints", 3)
    process.send_signal(number)
    assert process.wait(timeout=60) == 0
    assert start_training(corpus_file, tmp_path / "parts").wait(timeout=300) == 0
    assert final_tensors(whole_run) == final_tensors(tmp_path / "parts")


def test_a_damaged_checkpoint_is_named_and_passed_over(
    corpus_file, around, tmp_path, monkeypatch, caplog
):
    config = tiny_config(checkpoint_minutes=0.0)
    pretrain([str(corpus_file)], tmp_path / "whole", config, **around)
    with monkeypatch.context() as patch:
        patch.setattr("elmo.training.pretrain.stop_requested", stop_after(20))
        pretrain([str(corpus_file)], tmp_path / "parts", config, **around)
    older, newest = sorted((tmp_path / "parts" / "checkpoints").glob("step-*"))
    weights = newest / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    resume(tmp_path / "parts", **around)
    assert str(weights) in caplog.text
    assert older.name not in caplog.text
    assert final_tensors(tmp_path / "whole") == final_tensors(tmp_path / "parts")


def test_patience_ends_a_run_that_gets_no_better(corpus_file, around, tmp_path):
    config = tiny_config(epochs=50, patience=2, learning_rate=1e-9)
    result = pretrain([str(corpus_file)], tmp_path / "run", config, **around)
    assert result.finished
    assert result.position.epoch < 50


def test_the_saved_model_is_the_best_one_not_the_last(corpus_file, around, tmp_path, monkeypatch):
    values = iter([5.0, 3.0, 4.0, 9.0])
    real = loop.evaluate

    def worse_at_the_end(*given):
        return replace(real(*given), perplexity=next(values))

    monkeypatch.setattr(loop, "evaluate", worse_at_the_end)
    result = pretrain([str(corpus_file)], tmp_path / "run", tiny_config(), **around)
    last = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    assert result.position.best_perplexity == 3.0
    assert result.position.best_step < result.position.step
    best, final = (load_tensors(p / "model.safetensors") for p in (tmp_path / "run", last))
    assert any(not torch.equal(best[name], final[name]) for name in best)


def test_a_changed_text_or_vocabulary_is_refused_on_resume(corpus_file, tiny, tmp_path):
    around = {"cache": tmp_path / "cache"}
    pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)
    vocabulary = tmp_path / "run" / "vocabulary.txt"
    original = vocabulary.read_text()
    vocabulary.write_text(original + "zebra\t1\n")
    with pytest.raises(UserError, match="not the vocabulary this run was started with"):
        resume(tmp_path / "run", **around)
    vocabulary.write_text(original)
    write_corpus(corpus_file, seed=1)
    with pytest.raises(UserError, match="has changed since"):
        resume(tmp_path / "run", cache=tmp_path / "other cache")


def test_a_cleared_cache_is_made_anew(corpus_file, tiny, tmp_path):
    pretrain([str(corpus_file)], tmp_path / "run", tiny, cache=tmp_path / "a")
    assert resume(tmp_path / "run", cache=tmp_path / "b").finished


def test_all_contradictions_are_reported_at_once(corpus_file, around, tmp_path):
    config = PretrainConfig(
        model=BiLMConfig(input="characters", hidden=0, dropout=1.5),
        training=TrainingConfig(epochs=0),
    )
    with pytest.raises(ConfigError) as error:
        pretrain([str(corpus_file)], tmp_path / "run", config, **around)
    for name in ("hidden", "dropout", "tied", "epochs"):
        assert name in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_number_stops_the_run(corpus_file, around, tmp_path):
    config = tiny_config(
        learning_rate=1e30, weight_decay=1e30, clip=0.0, schedule="constant", warmup=0.0
    )
    with pytest.raises(UserError, match="NaN or infinite at step"):
        pretrain([str(corpus_file)], tmp_path / "run", config, **around)


def test_without_held_out_text_a_loss_that_is_no_number_leaves_no_model(
    corpus_file, around, tmp_path, monkeypatch
):
    """Nothing is evaluated, and a run shorter than a second reports nothing."""
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_REPORTS", 1e9)
    config = tiny_config(
        learning_rate=1e30, weight_decay=1e30, clip=0.0, schedule="constant", warmup=0.0
    )
    config = replace(config, vocabulary=VocabularyConfig(min_count=1, held_out_share=0.0))
    with pytest.raises(UserError, match="NaN or infinite at step"):
        pretrain([str(corpus_file)], tmp_path / "run", config, **around)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not [*(tmp_path / "run").glob("checkpoints/step-*")]


def test_no_loss_and_none_of_its_gradients_is_alive_during_the_update(
    corpus_file, around, tiny, tmp_path, monkeypatch
):
    alive: list[int] = []
    clip = loop.clip_grad_norm_

    def counted(*args: Any) -> Any:
        alive.append(sum(type(one) is BatchLoss for one in gc.get_objects()))
        return clip(*args)

    monkeypatch.setattr(loop, "clip_grad_norm_", counted)
    gc.collect()
    pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)
    assert alive
    assert not any(alive)


def test_a_run_knows_its_dtype_and_tells_of_another_machine(
    corpus_file, around, tmp_path, monkeypatch, caplog
):
    stopped = stop_after(3)
    config = tiny_config(precision="auto")
    for has_units, dtype in ((True, "bfloat16"), (False, "bfloat16")):
        monkeypatch.setattr("elmo.runtime.has_bf16_units", lambda _, answer=has_units: answer)
        with monkeypatch.context() as patch:
            patch.setattr("elmo.training.pretrain.stop_requested", stopped)
            pretrain([str(corpus_file)], tmp_path / "run", config, **around)
        assert read_run(tmp_path / "run")[0].dtype == dtype
        message = "computed with dtype=bfloat16 and computes with dtype=float32"
        assert (message in caplog.text) is not has_units
    # A run of before does not say it: what it computes in now is stored.
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    del content["run"]["dtype"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(content))
    caplog.clear()
    assert resume(tmp_path / "run", cache=around["cache"]).finished
    assert read_run(tmp_path / "run")[0].dtype == "float32"
    assert "has computed with" not in caplog.text


def test_a_run_knows_its_threads_and_tells_of_others(
    corpus_file, around, tmp_path, monkeypatch, caplog
):
    threads = torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr("elmo.training.pretrain.stop_requested", stop_after(3))
        pretrain([str(corpus_file)], tmp_path / "run", tiny_config(), **around)
    path = tmp_path / "run" / "config.json"
    content = json.loads(path.read_text())
    assert (content["run"]["threads"], content["run"]["processes"]) == (threads, 1)
    content["run"] |= {"threads": threads + 7, "processes": 3}
    path.write_text(json.dumps(content))
    assert resume(tmp_path / "run", cache=around["cache"]).finished
    assert f"computed with threads={threads + 7} and computes with threads={threads}" in caplog.text
    assert "computed with processes=3 and computes with processes=1 here" in caplog.text
    assert json.loads(path.read_text())["run"] == content["run"]


def test_only_one_process_trains_in_a_folder(corpus_file, around, tiny, tmp_path):
    from elmo.files import locked_folder

    (tmp_path / "run").mkdir()
    with locked_folder(tmp_path / "run"), pytest.raises(UserError, match="another process"):
        pretrain([str(corpus_file)], tmp_path / "run", tiny, **around)


def test_settings_survive_their_way_through_the_folder(corpus_file, around, tiny, tmp_path):
    pretrain([str(corpus_file)], tmp_path / "run", tiny, command="elmo …", **around)
    run, config = read_run(tmp_path / "run")
    assert config == tiny
    assert run.sources == (str(corpus_file),)
    assert run.command == "elmo …"


def test_going_on_from_a_model_keeps_old_ids_and_adds_new_words(corpus_file, around, tmp_path):
    config = tiny_config()
    first = pretrain([str(corpus_file)], tmp_path / "old", config, **around)
    new_text = tmp_path / "new.txt"
    new_text.write_text("the cat sees the zebra .\na zebra likes the dog .\n" * 30)
    second = pretrain(
        [str(new_text)], tmp_path / "new", config, init_from=tmp_path / "old", **around
    )
    old_words, new_words = first.model.vocabulary.words, second.model.vocabulary.words
    assert new_words[: len(old_words)] == old_words
    assert set(new_words[len(old_words) :]) == {"zebra", "a"}
    start = LanguageModel.from_pretrained(tmp_path / "old").model
    untouched = tmp_path / "untouched"
    frozen = replace(config, training=replace(config.training, learning_rate=1e-12))
    pretrain([str(new_text)], untouched, frozen, init_from=tmp_path / "old", **around)
    again = LanguageModel.from_pretrained(untouched).model
    vectors = again.token_layer.word_vectors
    assert torch.allclose(vectors[: len(old_words)], start.token_layer.word_vectors, atol=1e-6)


def test_another_architecture_cannot_be_gone_on_from(corpus_file, around, tmp_path):
    pretrain([str(corpus_file)], tmp_path / "old", tiny_config(), **around)
    wider = replace(tiny_config(), model=BiLMConfig(word_dim=9, hidden=9))
    with pytest.raises(UserError, match="another architecture") as error:
        pretrain(
            [str(corpus_file)], tmp_path / "new", wider, init_from=tmp_path / "old",
            **around,
        )  # fmt: skip
    assert "(9, 36) here" in str(error.value)


def test_word_vectors_start_from_a_file_and_can_stay_frozen(corpus_file, around, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("2 8\ncat " + " ".join(["0.5"] * 8) + "\nunseen " + "1 " * 7 + "1\n")
    model = BiLMConfig(
        word_dim=8, hidden=8, freeze_words=True, softmax=SoftmaxConfig(samples=6, tied=False)
    )
    result = pretrain(
        [str(corpus_file)], tmp_path / "run", replace(tiny_config(), model=model),
        word_vectors=vectors, **around,
    )  # fmt: skip
    place = result.model.vocabulary.id("cat")
    weight = LanguageModel.from_pretrained(tmp_path / "run").model.token_layer.word_vectors
    assert weight[place].tolist() == [0.5] * 8
    assert not weight.requires_grad


def test_word_vectors_that_come_with_a_model_stay_with_it(corpus_file, around, tmp_path):
    first = pretrain([str(corpus_file)], tmp_path / "first", tiny_config(epochs=1), **around)
    CompanionVectors.of(["cat", "dog"], np.eye(2, dtype=np.float32)).save(first.folder)
    out = tmp_path / "second"
    for fresh in (False, True):
        pretrain([str(corpus_file)], out, tiny_config(epochs=1), init_from=first.folder,
                 fresh=fresh, **around)  # fmt: skip
        again = LanguageModel.from_pretrained(out).word_vectors
        assert again is not None
        assert again.words == ("cat", "dog")
    pretrain([str(corpus_file)], out, tiny_config(epochs=1), fresh=True, **around)
    assert LanguageModel.from_pretrained(out).word_vectors is None


# What a run starts from.


WORDS = BiLMConfig(word_dim=4, hidden=4)
ADAPTIVE = BiLMConfig(
    word_dim=4, hidden=4, softmax=SoftmaxConfig(loss="adaptive", cutoffs=(6, 14), tied=False)
)


def fresh_model(config: BiLMConfig, vocabulary: Vocabulary, seed: int) -> BiLM:
    with seeded(seed):
        return BiLM(config, vocabulary)


def test_the_seed_alone_decides_the_weights(vocabulary):
    torch.manual_seed(1)
    first = fresh_model(WORDS, vocabulary, 7)
    before = torch.random.get_rng_state()
    second = fresh_model(WORDS, vocabulary, 7)
    assert torch.equal(before, torch.random.get_rng_state()), "the caller's generator was touched"
    other = fresh_model(WORDS, vocabulary, 8)
    assert torch.equal(first.token_layer.words.weight, second.token_layer.words.weight)
    assert not torch.equal(first.token_layer.words.weight, other.token_layer.words.weight)


def test_a_new_model_knows_how_frequent_words_are(vocabulary):
    model = fresh_model(WORDS, vocabulary, 0)
    counts = torch.tensor(vocabulary.counts) + 1.0
    assert torch.allclose(model.output.bias.softmax(0), counts / counts.sum())


@pytest.mark.parametrize("config", [WORDS, ADAPTIVE])
def test_adopting_keeps_what_was_learned_and_makes_room_for_new_words(vocabulary, config):
    old = fresh_model(config, vocabulary, 0)
    grown = vocabulary.grown(["zebra", "yak"], [5, 4])
    new = fresh_model(config, grown, 1)
    adopt(new, old)
    states = torch.randn(3, 4)
    expected = old.output.log_probabilities(states)
    found = new.output.log_probabilities(states)[:, : len(vocabulary)]
    # The new words take a share; among the old ones nothing changes.
    if config is WORDS:
        renormalised = found - found.logsumexp(1, keepdim=True)
        assert torch.allclose(renormalised, expected, atol=1e-5)
    else:
        head = slice(0, 6)
        ratio = found[:, head] - expected[:, head]
        assert torch.allclose(ratio, ratio[:, :1].expand_as(ratio), atol=1e-5)
    assert torch.equal(
        new.token_layer.words.weight[: len(vocabulary)], old.token_layer.words.weight
    )


@pytest.mark.parametrize("loss", ["full", "none"])
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_words_to_predict_when_a_model_is_gone_on_from(vocabulary, kind, loss):
    softmax = SoftmaxConfig(loss=loss, tied=False)
    other = BiLM(BiLMConfig(input=kind, word_dim=4, hidden=4, softmax=softmax), vocabulary)
    counted = Vocabulary((*SPECIAL_WORDS, "yak", "cat"), (50, 50, 3, 7, 6))
    found = starting_vocabulary(other, counted)
    if (kind, loss) == ("characters", "none"):
        assert found == counted
        return
    assert found.words == (*vocabulary.words, "yak")
    counts = dict(zip(found.words, found.counts, strict=True))
    old = dict(zip(vocabulary.words, vocabulary.counts, strict=True))
    assert (counts["yak"], counts["dog"]) == (7, old["dog"])
    assert counts["cat"] == (6 if loss == "none" else old["cat"])


def test_word_vectors_longer_than_the_models_are_refused(vocabulary, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("1 5\ncat 1 2 3 4 5\n")
    with pytest.raises(UserError, match="--word-dim 5 or more"):
        set_word_vectors(fresh_model(WORDS, vocabulary, 0), path)


def test_shorter_word_vectors_are_the_first_numbers_of_longer_ones(vocabulary, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 2 3\nzebra 4 5 6\ndog 7 8 9\n")
    model, fresh = fresh_model(WORDS, vocabulary, 0), fresh_model(WORDS, vocabulary, 0)
    assert set_word_vectors(model, path) == 2 / len(vocabulary)
    cat, dog = vocabulary.id("cat"), vocabulary.id("dog")
    expected = fresh.token_layer.words.weight.detach().clone()
    expected[cat, :3] = torch.tensor([1.0, 2, 3])
    expected[dog, :3] = torch.tensor([7.0, 8, 9])
    assert torch.equal(model.token_layer.words.weight, expected)


def test_vectors_without_a_known_word_are_refused(vocabulary, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("1 4\nzebra 1 2 3 4\n")
    with pytest.raises(UserError, match="none of its words"):
        set_word_vectors(fresh_model(WORDS, vocabulary, 0), path)


def test_a_character_model_has_no_word_vectors_to_set(vocabulary, tmp_path):
    config = BiLMConfig(input="characters", hidden=4, softmax=SoftmaxConfig(tied=False))
    with pytest.raises(UserError, match="character model"):
        set_word_vectors(fresh_model(config, vocabulary, 0), tmp_path / "vectors.txt")


# What a run writes for those who watch it.


def step_report(step: int) -> StepReport:
    return StepReport(
        step=step, epoch=0, done=0.5, targets=10, loss_forward=1.0, loss_backward=2.0,
        learning_rate=0.1, tokens_per_second=5.0, seconds_left=1.0,
    )  # fmt: skip


def test_a_resumed_log_forgets_what_will_be_said_again_and_a_line_cut_short(tmp_path):
    path = tmp_path / "log.jsonl"
    for step in (1, 2, 3):
        append_log(path, step_report(step))
    with path.open("a") as stream:
        stream.write('{"kind": "st')
    shorten_log(path, 2)
    append_log(path, step_report(3))
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert steps == [1, 2, 3]
