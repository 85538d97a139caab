"""The standard library's sources, and byte-level text in general."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from components.data import python_source
from components.data.python_source import PythonSource, is_validation, source_files
from components.data.text import byte_baselines, fingerprint
from components.errors import ConfigError


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small standard library: 60 modules, and what does not belong to it."""
    root = tmp_path / "lib"
    for name in [f"module_{i}.py" for i in range(60)] + [
        "test/test_a.py",
        "json/tests/b.py",
        "idlelib/idle_test/c.py",
        "site-packages/d.py",
        "config-3/e.py",
        "_sysconfigdata_x.py",
        "readme.txt",
    ]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n" + "x = 1\n" * 20)
    monkeypatch.setattr(python_source.sysconfig, "get_path", lambda name: str(root))
    return root


def make(tmp_path: Path, **options: object) -> PythonSource:
    data = PythonSource(cache_dir=str(tmp_path / "cache"), seq_len=16, **options)  # type: ignore[arg-type]
    data.prepare()
    return data


def test_only_the_library_itself_is_read(library: Path) -> None:
    names = [path.relative_to(library).as_posix() for path in source_files(library)]
    assert names == sorted(f"module_{i}.py" for i in range(60))


def test_samples_are_the_files_bytes_split_by_file(library: Path, tmp_path: Path) -> None:
    data = make(tmp_path, val_samples=None)
    for samples, wanted in ((data.train_set(), False), (data.val_set(), True)):
        files = [p for p in source_files(library) if is_validation(p.name) is wanted]
        text = b"".join(path.read_bytes() for path in files)
        assert files
        assert len(samples) == len(text) // 17
        inputs, targets = samples.get_batch(list(range(len(samples))))
        assert inputs.dtype == targets.dtype
        pieces = np.frombuffer(text[: len(samples) * 17], np.uint8).reshape(-1, 17)
        assert inputs.tolist() == pieces[:, :-1].tolist()
        assert targets.tolist() == pieces[:, 1:].tolist()


def test_validation_is_limited_to_evenly_spaced_samples(library: Path, tmp_path: Path) -> None:
    every = make(tmp_path, val_samples=None).val_set()
    some = make(tmp_path, val_samples=4).val_set()
    assert len(some) == 4
    picked = [some[i][0].tolist() for i in range(4)]
    assert picked == [every[i * len(every) // 4][0].tolist() for i in range(4)]


def test_the_record_has_a_fingerprint_of_the_content(library: Path, tmp_path: Path) -> None:
    data = make(tmp_path)
    parts = [
        b"".join(p.read_bytes() for p in source_files(library) if is_validation(p.name) is val)
        for val in (False, True)
    ]
    record = json.loads(json.dumps(data.record()))
    assert record["fingerprint"] == "sha256:" + hashlib.sha256(b"".join(parts)).hexdigest()
    assert record["train_samples"] == len(data.train_set())
    assert record["baselines"] == byte_baselines(*parts)


def test_another_file_makes_another_cache(library: Path, tmp_path: Path) -> None:
    first = make(tmp_path).record()
    (library / "new.py").write_text("y = 2\n" * 50)
    assert make(tmp_path).record()["fingerprint"] != first["fingerprint"]
    assert len(list((tmp_path / "cache").glob("python_source-*"))) == 2


def test_bits_per_byte_is_the_loss_in_bits(tmp_path: Path) -> None:
    data = PythonSource(cache_dir=str(tmp_path))
    assert data.derive({"loss": math.log(2) * 3}) == {"bits_per_byte": pytest.approx(3.0)}
    assert data.derive({}) == {}


def test_baselines_by_hand() -> None:
    # Train counts a: 3, b: 1, plus one for each of 256 bytes: p(a) = 4/260, p(b) = 2/260.
    found = byte_baselines(b"aaab", b"ab")
    assert found["unigram_bits_per_byte"] == pytest.approx(
        (math.log2(260 / 4) + math.log2(260 / 2)) / 2
    )
    # zlib keeps two bytes raw in 10: 2 of header, a block of 4 with its end, 4 of checksum.
    assert found["zlib_bits_per_byte"] == 8 * 10 / 2


def test_fingerprint_joins_bytes_and_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    assert fingerprint(tmp_path / "a", b"two") == (
        "sha256:" + hashlib.sha256(b"onetwo").hexdigest()
    )


@pytest.mark.parametrize(
    "options", [{"vocab_size": 255}, {"seq_len": 0}, {"val_samples": 0}, {"num_workers": -1}]
)
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    key = next(iter(options))
    with pytest.raises(ConfigError, match=rf"data\.{key}="):
        PythonSource(cache_dir="unused", **options)  # type: ignore[arg-type]
