"""The tokenizer loses nothing, cuts as the Penn Treebank does, and never takes quadratic time."""

from __future__ import annotations

import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.cli.main import main
from elmo.config import check
from elmo.errors import UserError
from elmo.text.tokenizer import TokenizerConfig, allow_tokenizer, build_tokenizer, tokenize_words

WORDS = [
    "don't",
    "U.S.",
    "3.50",
    "Inc.",
    "n't",
    "a@b.co",
    "http://x.y/z",
    "हि",
    "我",
    "カ",
    "é",
    "N",
]
SIGNS = ["’s", "...", "--", "\u0301", ".", "'", "-", "👍", "\u200d", "&", "_", " ", "\n", "\x1c"]
PIECES = st.sampled_from([*WORDS, *SIGNS])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't, can't, WON'T.", "I do n't , ca n't , WO N'T ."),
        ("it’s we’ve isn’t", "it ’s we ’ve is n’t"),
        ("I'd've said the week's drivers' title", "I 'd 've said the week 's drivers ' title"),
        ("$3.50, 1,200 or 50%", "$ 3.50 , 1,200 or 50 %"),
        ("at 10:30 on 9/11, .500 in '05", "at 10:30 on 9/11 , .500 in '05"),
        ("the U.S.-led N.B.A. in the U.S.", "the U.S.-led N.B.A. in the U.S."),
        ("Mr. J. Smith of Corp.'s end.", "Mr. J. Smith of Corp. 's end ."),
        ("No. 2 said: No.", "No. 2 said : No ."),
        ("state-of-the-art snake_case 8-2", "state-of-the-art snake_case 8-2"),
        ("(see http://a.b/c?d=1, www.x.org).", "( see http://a.b/c?d=1 , www.x.org ) ."),
        ("me.too@mail.example.org, SPACE.com.", "me.too@mail.example.org , SPACE.com ."),
        ("wait... no -- yes!!", "wait ... no -- yes ! !"),
        ("\"Hi,\" AT&T's O'Reilly said", "\" Hi , \" AT&T 's O'Reilly said"),
        ("''so'' he 'said'", "'' so '' he ' said '"),
        ("हिन्दी में है।", "हिन्दी में है ।"),
        ("Crème bru\u0302le\u0301e", "Crème bru\u0302le\u0301e"),
        ("我爱北京。テストです 한국어", "我 爱 北 京 。 テスト です 한국어"),
        ("👩\u200d👧 👍🏽 🇩🇪🇫🇷", "👩\u200d👧 👍🏽 🇩🇪 🇫🇷"),
        ("", ""),
    ],
)
def test_cuts_as_expected(text: str, expected: str) -> None:
    assert tokenize_words(text) == expected.split()


@given(st.text() | st.lists(PIECES).map("".join))
def test_loses_no_character_but_white_space(text: str) -> None:
    tokens = tokenize_words(text)
    assert "".join(tokens) == "".join(text.split())
    assert all(token.split() == [token] for token in tokens)


@given(st.lists(PIECES).map("".join))
def test_lower_case_does_not_move_cuts(text: str) -> None:
    lowercase = build_tokenizer(TokenizerConfig(lowercase=True))
    assert lowercase(text) == [token.lower() for token in tokenize_words(text)]


@given(st.text())
def test_whitespace_kind_only_splits(text: str) -> None:
    assert build_tokenizer(TokenizerConfig(tokenizer="whitespace"))(text) == text.split()


@pytest.mark.parametrize(
    "piece", ["a", "a.", "a-", "'", "a@", "1.1", "n't", "http://", ".", "a.b-", "a.b@", "Mr."]
)
def test_long_input_takes_linear_time(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    start = time.process_time()
    assert "".join(tokenize_words(text)) == text
    assert time.process_time() - start < 2


def test_custom_function_is_used() -> None:
    tokenize = build_tokenizer(
        TokenizerConfig(tokenizer="custom", lowercase=True), lambda text: [text]
    )
    assert tokenize("Ab") == ["ab"]


@pytest.mark.parametrize("result", [None, "ab", ("a",), ["a", ""], ["a b"], ["\u00a0"], [1]])
def test_custom_function_must_return_words(result: object) -> None:
    tokenize = build_tokenizer(TokenizerConfig(tokenizer="custom"), lambda _: result)  # type: ignore[arg-type,return-value]
    with pytest.raises(UserError, match="tokenizer function must return"):
        tokenize("some text")


def test_custom_function_and_kind_go_together() -> None:
    with pytest.raises(UserError, match="there is no function"):
        build_tokenizer(TokenizerConfig(tokenizer="custom"))
    with pytest.raises(UserError, match="there is a function"):
        build_tokenizer(TokenizerConfig(), str.split)


@pytest.mark.parametrize(
    "config",
    [TokenizerConfig(), TokenizerConfig(lowercase=True), TokenizerConfig(tokenizer="whitespace")],
)
def test_tokenizers_travel_between_processes(config: TokenizerConfig) -> None:
    tokenize = build_tokenizer(config)
    assert pickle.loads(pickle.dumps(tokenize))("Ab c.") == tokenize("Ab c.")


def test_functions_by_name_are_called_only_if_the_user_named_them(tmp_path, monkeypatch) -> None:
    config = TokenizerConfig(tokenizer="os:system")
    with pytest.raises(UserError, match="--tokenizer os:system"):
        build_tokenizer(config)  # as a model folder from anywhere might ask for
    (tmp_path / "my_cutter.py").write_text("def cut(text):\n    return text.split('-')\n")
    monkeypatch.syspath_prepend(tmp_path)
    allow_tokenizer("my_cutter:cut")
    assert build_tokenizer(TokenizerConfig(tokenizer="my_cutter:cut"))("a-b") == ["a", "b"]
    allow_tokenizer("my_cutter:nothing")
    with pytest.raises(UserError, match="cannot be imported"):
        build_tokenizer(TokenizerConfig(tokenizer="my_cutter:nothing"))
    with pytest.raises(UserError, match="expected regex, regex-2, characters, whitespace"):
        check(TokenizerConfig(tokenizer="nothing"))


def test_the_command_line_allows_what_it_names(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "pipe_cutter.py").write_text("def cut(text):\n    return text.split('|')\n")
    monkeypatch.syspath_prepend(tmp_path)
    command = ["score", "oil|prices", "--format", "tsv"]
    assert main([*command, "--tokenizer", "pipe_cutter:cut"]) == 0
    words = [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert words == ["oil", "prices"]
    assert main([*command, "--tokenizer", "nothing"]) == 2
