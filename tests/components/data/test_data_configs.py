"""Every data configuration composes and builds what it names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

CONF = Path(__file__).parents[3] / "conf"


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "data").glob("*.yaml")))
def test_a_configuration_builds_its_data_set(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("digits"):
        pytest.importorskip("sklearn")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "book.txt").write_text("some text\n" * 600)
    overrides = [f"data.path={tmp_path / 'book.txt'}"] if name == "tokens" else []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(overrides=[f"+data={name}", *overrides])
    OmegaConf.resolve(config)
    assert config.data.get("cache_dir", f"{tmp_path}/shardlab") == f"{tmp_path}/shardlab"
    data = instantiate(config.data)
    data.prepare()
    inputs, targets = data.train_set().get_batch([0, 1])
    shape = {
        "digits": (2, 64),
        "digits_image": (2, config.data.get("channels"), config.data.get("image_size"), 8),
    }.get(name, (2, config.data.get("seq_len")))
    assert tuple(inputs.shape) == shape
    assert len(targets) == 2
    assert len(data.val_set()) > 0


def test_the_path_of_a_users_tokens_is_mandatory() -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(overrides=["+data=tokens"])
    with pytest.raises(MissingMandatoryValue):
        _ = config.data.path


def test_importing_data_sets_imports_no_heavy_library() -> None:
    code = (
        "import sys; from components.data import digits, loader, python_source, synthetic, tokens;"
        "print([name for name in ('sklearn', 'tokenizers', 'transformers', 'deepspeed', 'wandb')"
        " if name in sys.modules])"
    )
    root = CONF.parent
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
