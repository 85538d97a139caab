"""A user's own tokens and text."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.data import tokenizer
from components.data.text import byte_baselines
from components.data.tokens import Tokens
from components.errors import ConfigError

TEXT = "".join(f"line {i}: the cat sat on the mat, naïve café — {i * i}\n" for i in range(400))


def make(tmp_path: Path, path: Path, **options: Any) -> Tokens:
    data = Tokens(
        path=str(path),
        cache_dir=str(tmp_path / "cache"),
        **{"seq_len": 4, "val_samples": None, **options},
    )
    data.prepare()
    return data


def all_tokens(samples: Any) -> list[int]:
    """The pieces joined again, with the last token of each taken from its targets."""
    inputs, targets = samples.get_batch(list(range(len(samples))))
    assert inputs[:, 1:].tolist() == targets[:, :-1].tolist()
    return [
        i
        for row, end in zip(inputs.tolist(), targets[:, -1].tolist(), strict=True)
        for i in [*row, end]
    ]


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("suffix", [".bin", ".npy"])
def test_token_files_round_trip(tmp_path: Path, dtype: Any, suffix: str) -> None:
    tokens = (np.arange(103) * 7 % 1000).astype(dtype)
    path = tmp_path / f"corpus{suffix}"
    tokens.tofile(path) if suffix == ".bin" else np.save(path, tokens)
    data = make(tmp_path, path, dtype=dtype, vocab_size=1000, val_fraction=0.2)
    # A fifth of 103 is 20: 83 tokens train, in 16 pieces of 5; 20 validate, in 4.
    assert all_tokens(data.train_set()) == tokens[:80].tolist()
    assert all_tokens(data.val_set()) == tokens[83:103].tolist()
    record = data.record()
    assert (record["train_samples"], record["val_samples"]) == (16, 4)
    assert data.derive({"loss": math.log(8)}) == {"bits_per_token": pytest.approx(3.0)}


def test_the_unigram_baseline_by_hand(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", np.array([0, 0, 0, 1, 1], np.uint16))
    np.save(tmp_path / "val.npy", np.array([0, 1, 1, 1, 1], np.uint16))
    data = make(tmp_path, tmp_path / "train.npy", val_path=str(tmp_path / "val.npy"), vocab_size=2)
    # One added to each count: p(0) = 4/7, p(1) = 3/7.
    expected = -(math.log2(4 / 7) + 4 * math.log2(3 / 7)) / 5
    assert data.baselines() == {"unigram_bits_per_token": pytest.approx(expected)}


def test_samples_survive_being_sent_to_a_worker(tmp_path: Path) -> None:
    np.arange(50, dtype=np.uint16).tofile(tmp_path / "t.bin")
    samples = make(tmp_path, tmp_path / "t.bin", val_samples=1, val_fraction=0.5).val_set()
    assert samples is not None
    sent = pickle.dumps(samples)
    assert len(sent) < 1000
    assert pickle.loads(sent)[0][0].tolist() == samples[0][0].tolist() == [25, 26, 27, 28]


def test_text_is_taken_by_bytes(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    data = make(tmp_path, path, val_fraction=0.1)
    raw = TEXT.encode()
    cut = len(raw) - len(raw) // 10
    while raw[cut] & 0xC0 == 0x80:
        cut += 1
    assert bytes(all_tokens(data.train_set())) == raw[: cut // 5 * 5]
    assert bytes(all_tokens(data.val_set())) == raw[cut:][: (len(raw) - cut) // 5 * 5]
    assert data.derive({"loss": math.log(2)}) == {"bits_per_byte": pytest.approx(1.0)}
    assert data.baselines() == byte_baselines(raw[:cut], raw[cut:])


def test_no_validation(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(TEXT)
    np.arange(50, dtype=np.uint16).tofile(tmp_path / "t.bin")
    for name in ("book.txt", "t.bin"):
        data = make(tmp_path, tmp_path / name, val_fraction=0.0)
        assert data.val_set() is None
        assert data.baselines() == {}
        assert data.record()["val_samples"] == 0


def test_a_tokenizer_is_trained_and_can_be_loaded_again(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    trained = make(tmp_path, path, train_vocab_size=300, vocab_size=300)
    (saved,) = (tmp_path / "cache").glob("*/tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(saved))
    assert 256 < library.get_vocab_size() <= 300
    tokens = np.fromfile(saved.with_name("train.bin"), np.uint16)
    val_tokens = np.fromfile(saved.with_name("val.bin"), np.uint16)
    assert library.decode(tokens.tolist()) + library.decode(val_tokens.tolist()) == TEXT
    assert len(tokens) < 0.7 * len(TEXT)
    assert all_tokens(trained.train_set()) == tokens[: len(tokens) // 5 * 5].tolist()

    loaded = make(tmp_path, path, tokenizer=str(saved), vocab_size=300)
    assert all_tokens(loaded.train_set()) == all_tokens(trained.train_set())
    val_bytes = len(library.decode(val_tokens.tolist()).encode())
    assert loaded.derive({"loss": 1.0})["bits_per_byte"] == pytest.approx(
        1 / math.log(2) * len(val_tokens) / val_bytes
    )


def test_long_text_is_encoded_in_pieces_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(tokenizer, "CHUNK", 100)
    made = tokenizer.train(TEXT, 280)
    assert made.decode(tokenizer.encode(made, TEXT + "no newline").tolist()) == TEXT + "no newline"
    assert tokenizer.encode(made, "").tolist() == []


def test_a_new_content_is_prepared_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    np.arange(50, dtype=np.uint16).tofile(path)
    first = make(tmp_path, path, val_fraction=0.2).record()["fingerprint"]
    np.arange(1, 52, dtype=np.uint16).tofile(path)
    assert make(tmp_path, path, val_fraction=0.2).record()["fingerprint"] != first


@pytest.mark.parametrize("known", [False, True], ids=["fresh", "cached"])
@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_an_id_beyond_the_vocabulary_is_refused(
    tmp_path: Path, known: bool, fraction: float
) -> None:
    path = tmp_path / "t.bin"
    np.arange(301, dtype=np.uint16).tofile(path)
    if known:
        make(tmp_path, path, vocab_size=301, val_fraction=fraction)
    with pytest.raises(ConfigError, match=r"token id 300 .*data\.vocab_size=256.*=301 or more"):
        make(tmp_path, path, val_fraction=fraction)


def refused(tmp_path: Path, path: Path, message: str, **options: Any) -> None:
    """Refused by the constructor, before anything is prepared."""
    with pytest.raises(ConfigError, match=message):
        Tokens(path=str(path), cache_dir=str(tmp_path / "cache"), **options)
    assert not (tmp_path / "cache").exists()


def test_files_that_cannot_be(tmp_path: Path) -> None:
    refused(tmp_path, tmp_path / "none.txt", r"data\.path=.*none\.txt: there is no such file")
    (tmp_path / "short.txt").write_bytes(b"x" * 10)
    refused(tmp_path, tmp_path / "short.txt", r"10 bytes, too short.*= 11 tokens", seq_len=10)
    (tmp_path / "odd.bin").write_bytes(b"x" * 2001)
    refused(tmp_path, tmp_path / "odd.bin", r"data\.path=.*odd\.bin is not an array of tokens")
    np.save(tmp_path / "real.npy", np.zeros(1000, np.float32))
    refused(tmp_path, tmp_path / "real.npy", r"holds float32 of shape \(1000,\)")
    np.save(tmp_path / "square.npy", np.zeros((100, 10), np.uint16))
    refused(tmp_path, tmp_path / "square.npy", r"holds uint16 of shape \(100, 10\)")


def test_parts_too_short_for_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    np.arange(100, dtype=np.uint16).tofile(path)
    with pytest.raises(ConfigError, match=r"5 tokens for val .* takes 10\."):
        make(tmp_path, path, seq_len=9)
    with pytest.raises(ConfigError, match=r"95 tokens for train .* takes 120\."):
        make(tmp_path, path, seq_len=119)


def test_options_that_contradict_each_other(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "book.txt").write_text(TEXT)
    np.arange(500, dtype=np.uint16).tofile(tmp_path / "t.bin")
    (tmp_path / "no.json").write_text("{}")
    book, ids, json = tmp_path / "book.txt", tmp_path / "t.bin", str(tmp_path / "no.json")
    refused(tmp_path, book, "must both hold", val_path=str(ids))
    refused(tmp_path, book, "exclude each other", tokenizer=json, train_vocab_size=256)
    refused(tmp_path, ids, "holds token ids already", train_vocab_size=256)
    refused(tmp_path, book, r"data\.vocab_size=256", train_vocab_size=300)
    refused(tmp_path, book, r"data\.val_fraction=1\.5", val_fraction=1.5)
    with pytest.raises(ConfigError, match=r"data\.tokenizer=.*no\.json is not a tokenizer"):
        make(tmp_path, book, tokenizer=json)


def test_text_that_is_not_utf8_needs_bytes(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "latin.txt"
    path.write_bytes("naïve café ".encode("latin-1") * 100)
    with pytest.raises(ConfigError, match="not UTF-8"):
        make(tmp_path, path, train_vocab_size=256)
    assert len(make(tmp_path, path).train_set()) == 1045 // 5


def test_missing_library_names_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "book.txt").write_text(TEXT)
    monkeypatch.setattr(tokenizer, "find_spec", lambda name: None)
    refused(
        tmp_path,
        tmp_path / "book.txt",
        r"pip install 'shardlab\[tokenizers\]'",
        train_vocab_size=256,
    )
