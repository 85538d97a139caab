"""Weights leave a run as the plain module has them, whatever strategy wrote its checkpoint."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from components.checkpoint.sources import CheckpointSource
from components.checkpoint.weights import layouts_in
from components.cluster.ranks import Ranks
from components.model.huggingface import CausalLM
from components.parallel.state import Layout
from tests.gang import run
from tests.resume.stop_and_go import train
from tests.resume.test_square import TASK, gpt
from tests.runs import Run, run_train
from train.export import main
from train.export_write import Content, Failed, Target, write

WORDS = ("fsdp", "zero3", "pipeline")
STEPS = 3

TINY = (
    "data=synthetic",
    "data.vocab_size=16",
    "data.seq_len=8",
    "data.train_samples=32",
    "data.val_samples=8",
    "global_batch_size=8",
    "steps=2",
    "eval_every=0",
    "parallel=fsdp",
    "cluster.nproc_per_node=2",
)
LLAMA = (
    *TINY,
    "model=transformers",
    "model.config.hidden_size=8",
    "model.config.intermediate_size=12",
    "model.config.num_hidden_layers=2",
    "model.config.num_attention_heads=2",
    "model.config.num_key_value_heads=1",
    "+model.config.tie_word_embeddings=true",
)


def save_all(ranks: Ranks, folder: Path) -> dict[str, dict[str, Tensor]]:
    """The final weights by strategy, on rank 0, as the strategies gather them."""
    return {word: train(ranks, word, TASK, folder / word, stop=STEPS).weights for word in WORDS}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Tensor]]]:
    """Folders `<strategy>/checkpoints/step-000003` of a tied GPT, and its weights by strategy."""
    folder = tmp_path_factory.mktemp("saved")
    return folder, run(save_all, 2, folder)[0]


@pytest.fixture
def fsdp(saved: tuple[Path, Any], tmp_path: Path) -> Path:
    """A run's folder, of the test's own."""
    return shutil.copytree(saved[0] / "fsdp", tmp_path / "fsdp")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one of transformers' models."""
    return run_train(tmp_path_factory.mktemp("llama"), *LLAMA).completed().run


def logits(model: torch.nn.Module, weights: dict[str, Tensor], vocab: int = 17) -> Tensor:
    """Of the bare model with these weights, each in its place."""
    model.load_state_dict(weights, strict=True)
    tokens = torch.arange(16).reshape(2, 8) % vocab
    with torch.no_grad():
        out: Tensor = model.eval()(tokens)
    return out


def damage(checkpoint: Path) -> None:
    """Change one byte of its tensors."""
    path = next(checkpoint.glob("*.distcp"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("word", WORDS)
def test_it_loads_into_the_bare_model(
    saved: tuple[Path, dict[str, dict[str, Tensor]]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    word: str,
) -> None:
    folder, weights = saved
    assert main([str(folder / word), "--to", str(tmp_path)]) == 0
    path = tmp_path / "weights.safetensors"
    written = load_file(path)
    assert written.keys() == gpt().state_dict().keys()
    assert all(tensor.numel() for tensor in written.values())
    assert torch.equal(written["stem.tokens.weight"], written["head.projection.weight"])
    torch.testing.assert_close(
        logits(gpt(), written), logits(gpt(), weights[word]), rtol=0, atol=1e-6
    )
    parameters = sum(p.numel() for p in gpt().parameters())
    told = capsys.readouterr().out
    assert told.startswith(f"{len(written)} tensors, {parameters:,} parameters, float32: {path}\n")


@pytest.mark.parametrize("word", WORDS)
def test_a_checkpoint_is_read_by_torch_alone(saved: tuple[Path, Any], word: str) -> None:
    checkpoint = saved[0] / word / "checkpoints" / f"step-{STEPS:06d}"
    code = f"""
import sys
for name in ("components", "train", "omegaconf", "hydra", "deepspeed"):
    sys.modules[name] = None
from pathlib import Path
import tempfile
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
checkpoint = Path({str(checkpoint)!r})
plain = sorted(checkpoint.glob("*.pt"))
assert [path.name for path in plain] == ["rank-0.pt", "rank-1.pt", "training.pt"]
for path in plain:
    torch.load(path, weights_only=True)
with tempfile.TemporaryDirectory() as folder:
    out = Path(folder) / "all.pt"
    dcp_to_torch_save(checkpoint, out)
    tensors = torch.load(out, weights_only=True)
assert all(torch.is_tensor(tensor) for tensor in tensors.values())
print("\\n".join(name for name in tensors if name.startswith("model.")))
"""
    isolated = [sys.executable, "-I", "-W", "ignore", "-c", code]
    done = subprocess.run(isolated, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = [f"model.{name}" for name, _ in gpt().named_parameters()]
    assert sorted(done.stdout.split()) == sorted(expected)


def test_transformers_loads_its_own(
    llama: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForCausalLM

    assert main([str(llama.folder), "--to", str(tmp_path)]) == 0
    # 16 x 8 of the embedding, two layers of attention (2 x 64, 2 x 8 x 4), gate, up and down
    # (3 x 8 x 12) and two norms, and the last norm.
    parameters = 16 * 8 + 2 * (2 * 64 + 2 * 32 + 3 * 96 + 16) + 8
    told = capsys.readouterr().out
    assert told == f"20 tensors, {parameters:,} parameters, float32: {tmp_path}/model.safetensors\n"
    loaded, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert loaded.dtype is torch.float32
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight

    config = {
        "vocab_size": 16,
        "max_position_embeddings": 8,
        "hidden_size": 8,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    trained = CausalLM(architecture="LlamaForCausalLM", config=config)
    expected = logits(trained, llama.weights(), 16)
    tokens = torch.arange(16).reshape(2, 8) % 16
    with torch.no_grad():
        assert torch.equal(loaded.eval()(input_ids=tokens).logits, expected)


def test_transformers_in_half_the_size_and_in_plain_form(llama: Run, tmp_path: Path) -> None:
    assert main([str(llama.folder), "--to", str(tmp_path / "half"), "--dtype", "bfloat16"]) == 0
    config = json.loads((tmp_path / "half" / "config.json").read_text())
    assert (config["dtype"], config["architectures"]) == ("bfloat16", ["LlamaForCausalLM"])
    plain = tmp_path / "plain.safetensors"
    assert main([str(llama.folder), "--to", str(plain), "--format", "safetensors"]) == 0
    final, written = llama.weights(), load_file(plain)
    assert written.keys() == final.keys()
    assert all(torch.equal(written[name], final[name]) for name in final)
    half = load_file(tmp_path / "half" / "model.safetensors")
    assert len(half) == len(final) - 1
    for name, tensor in half.items():
        assert torch.equal(tensor, final[f"model.{name}"].bfloat16())


def test_a_finished_run_without_checkpoints(llama: Run, tmp_path: Path) -> None:
    folder = shutil.copytree(llama.folder, tmp_path / "run")
    shutil.rmtree(folder / "checkpoints")
    assert main([str(folder)]) == 0
    first = load_file(folder / "export" / "final" / "model.safetensors")
    assert torch.equal(first["model.norm.weight"], llama.weights()["model.model.norm.weight"])


def test_the_default_place(fsdp: Path, tmp_path: Path) -> None:
    assert main([str(fsdp)]) == 0
    first = layouts_in(fsdp / "export" / "step-000003" / "weights.safetensors")
    alone = shutil.copytree(fsdp / "checkpoints" / "step-000003", tmp_path / "taken")
    assert main([str(alone)]) == 0
    assert layouts_in(tmp_path / "export" / "taken" / "weights.safetensors") == first


def test_nothing_is_overwritten_unless_asked_for(
    fsdp: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "gpt.safetensors"
    words = [str(fsdp), "--to", str(to)]
    assert main(words) == 0
    before = to.read_bytes()
    assert main([*words, "--dtype", "float16"]) == 2
    assert capsys.readouterr().err == (
        f"refused: {to} exists. Take another --to, or replace it by --force.\n"
    )
    assert to.read_bytes() == before
    assert main([*words, "--dtype", "float16", "--force"]) == 0
    assert {layout.dtype for layout in layouts_in(to).values()} == {torch.float16}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fsdp", "gpt.safetensors"]


def test_several_files_and_their_index(fsdp: Path, tmp_path: Path) -> None:
    source = CheckpointSource(fsdp / "checkpoints" / "step-000003")
    content = Content(source, {name: name for name in source.layouts}, None, (), {})
    target = Target(tmp_path / "cut", "weights")
    options: Any = {"beside": (), "write_beside": lambda folder, dtype: None}
    assert write(content, target, force=False, file_bytes=3000, **options) == target.folder
    index = json.loads((target.folder / "weights.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert (
        files
        == [f"weights-{i:05d}-of-{len(files):05d}.safetensors" for i in range(1, 99)][: len(files)]
    )
    assert len(files) > 2
    joined = {name: t for file in files for name, t in load_file(target.folder / file).items()}
    assert {name: index["weight_map"][name] for name in joined} == index["weight_map"]
    assert sum(t.nbytes for t in joined.values()) == index["metadata"]["total_size"]
    assert write(content, target, force=True, **options) == target.folder / "weights.safetensors"
    whole = load_file(target.folder / "weights.safetensors")
    assert [path.name for path in target.folder.iterdir()] == ["weights.safetensors"]
    assert whole.keys() == joined.keys()
    assert all(torch.equal(whole[name], joined[name]) for name in whole)


class Held(CheckpointSource):
    """A source in memory."""

    def __init__(self, **tensors: Tensor) -> None:
        self.path = Path("memory")
        self.tensors = tensors
        self.tied = {}
        self.layouts = {name: Layout(t.shape, t.dtype) for name, t in tensors.items()}

    def read(self, tensors: Any) -> None:
        for name, tensor in tensors.items():
            tensor.copy_(self.tensors[name])


def written(tmp_path: Path, dtype: torch.dtype | None, infinite: Any, **tensors: Tensor) -> Path:
    """An export of these tensors."""
    source = Held(**tensors)
    content = Content(source, {name: name for name in tensors}, dtype, infinite, {"step": "3"})
    target = Target(tmp_path / "out", "weights")
    return write(content, target, beside=(), write_beside=lambda folder, dtype: None, force=False)


def test_only_floating_point_tensors_are_converted(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        torch.bfloat16,
        ("mask",),
        steps=torch.tensor(7),
        used=torch.tensor([True, False, True]),
        weight=torch.tensor([[1.0, 2.0], [3.0, 257.0]]),
        none=torch.empty(0, 4),
        mask=torch.tensor([0.0, -torch.inf]),
    )
    out = load_file(path)
    assert out["steps"].equal(torch.tensor(7))
    assert out["used"].equal(torch.tensor([True, False, True]))
    # 257 needs nine bits, and bfloat16 has eight.
    assert out["weight"].equal(torch.tensor([[1, 2], [3, 256]], dtype=torch.bfloat16))
    assert out["none"].shape == (0, 4)
    assert out["mask"].equal(torch.tensor([0, -torch.inf], dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("value", "dtype", "said"),
    [
        (float("nan"), None, "weight holds nan or inf in memory"),
        (float("-inf"), None, "weight holds nan or inf in memory"),
        (65520.0, torch.float16, "weight has values beyond torch.float16: take another --dtype"),
    ],
)
def test_what_is_not_finite_is_no_export(
    tmp_path: Path, value: float, dtype: torch.dtype | None, said: str
) -> None:
    with pytest.raises(Failed, match=said):
        written(tmp_path, dtype, (), weight=torch.tensor([1.0, value]))
    assert not (tmp_path / "out").exists()


def test_a_damaged_checkpoint_gives_way_to_an_earlier_one(
    fsdp: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = fsdp / "checkpoints" / "step-000004"
    shutil.copytree(fsdp / "checkpoints" / "step-000003", newest)
    damage(newest)
    to = tmp_path / "gpt.safetensors"
    assert main([str(newest), "--to", str(to)]) == 2
    assert f"refused: {newest} is damaged: {newest}/__" in capsys.readouterr().err
    assert main([str(fsdp), "--to", str(to)]) == 0
    assert capsys.readouterr().err.startswith(f"skipped a damaged checkpoint: {newest}/__")
    damage(fsdp / "checkpoints" / "step-000003")
    assert main([str(fsdp), "--to", str(to), "--force"]) == 2
    assert f"refused: {fsdp} has no whole checkpoint." in capsys.readouterr().err


def test_what_cannot_be_exported(
    fsdp: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "sweep" / "0_a").mkdir(parents=True)
    (tmp_path / "sweep" / "0_a" / "status.json").touch()
    for words, said in (
        ((tmp_path / "none",), "none does not exist. Give a run's folder, or a checkpoint's."),
        ((tmp_path / "file",), "file is a file. Give a run's folder, or a checkpoint's."),
        ((tmp_path / "sweep",), "sweep holds a sweep's runs: name one of the 1."),
        ((tmp_path / "sweep" / "0_a",), "has no checkpoint and no weights.safetensors."),
        ((fsdp, "--to", tmp_path / "file"), "a folder, or a name that ends in .safetensors."),
        ((fsdp, "--format", "transformers"), "is for runs with model=transformers: no config"),
    ):
        assert main([str(word) for word in words]) == 2
        err = capsys.readouterr().err
        assert err.startswith("refused: ")
        assert said in err


def test_a_place_that_cannot_be_written(fsdp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(fsdp), "--to", "/proc/nowhere"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("export failed: ")
    assert err.endswith(": /proc/nowhere. Nothing of it is left.\n")
