"""The folder of a run: refused where it is taken, known again by a restart."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from tests.pretrain.conftest import tiny_config

from elmo.errors import UserError
from elmo.pretrain.run import pretrain
from elmo.pretrain.run_config import RunConfig, is_same_run, read_run
from elmo.pretrain.run_folder import make_run_folder, refuse_taken


def test_a_folder_is_made_with_those_above_it(tmp_path):
    folder = tmp_path / "a" / "b"
    refuse_taken(folder)
    make_run_folder(folder)
    make_run_folder(folder)
    assert folder.is_dir()


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match="is a file"):
            refuse_taken(place)
        with pytest.raises(UserError, match="a part of this path is a file"):
            make_run_folder(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="no permission"):
        refuse_taken(tmp_path / "run")


def test_a_restart_knows_its_run_by_text_and_settings(
    corpus_file, around, tiny, tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    sources = (str(corpus_file),)
    assert not is_same_run(folder, RunConfig(sources=sources), tiny)
    first = pretrain(sources, folder, tiny, surroundings=around)
    run, config = read_run(folder)
    assert config == tiny
    assert is_same_run(folder, RunConfig(sources=sources, command="another"), tiny)
    assert not is_same_run(folder, RunConfig(sources=("other.txt",)), tiny)
    assert not is_same_run(folder, run, tiny_config(seed=1))
    with pytest.raises(UserError, match="holds a run already"):
        pretrain(sources, folder, tiny, surroundings=around)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert pretrain(sources, folder, tiny, surroundings=around).position == first.position
    with pytest.raises(UserError, match="holds a run already"):
        pretrain(sources, folder, tiny_config(seed=1), surroundings=around)


def test_settings_are_written_last(corpus_file, around, tiny, tmp_path, monkeypatch):
    """Without its settings a folder is no run yet, and the same command can start anew."""
    folder = tmp_path / "run"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("elmo.pretrain.run_folder.save_config", killed)
        with pytest.raises(KeyboardInterrupt):
            pretrain([str(corpus_file)], folder, tiny, surroundings=around)
    assert (folder / "vocabulary.txt").exists()
    assert not is_same_run(folder, RunConfig(sources=(str(corpus_file),)), tiny)
    assert pretrain([str(corpus_file)], folder, replace(tiny), surroundings=around).finished
