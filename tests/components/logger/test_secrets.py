"""What is kept from others, and what only looks like it."""

from __future__ import annotations

import pytest

from components.logger.secrets import without_secrets


@pytest.mark.parametrize(
    "key", ["password", "api_key", "apikey", "HF_TOKEN", "token", "aws_secret_key", "credentials"]
)
def test_secrets_are_left_out_at_any_depth(key: str) -> None:
    config = {"data": [{key: "hunter2", "path": "a"}]}
    assert without_secrets(config) == {"data": [{key: "left out", "path": "a"}]}
    assert config["data"][0][key] == "hunter2"


@pytest.mark.parametrize(
    "key", ["tokenizer", "tokens", "max_tokens", "eos_token", "keys", "key", "keep_best", "passes"]
)
def test_other_words_stay(key: str) -> None:
    assert without_secrets({key: "x"}) == {key: "x"}


def test_a_secret_that_is_not_set_says_so() -> None:
    assert without_secrets({"password": None}) == {"password": None}
