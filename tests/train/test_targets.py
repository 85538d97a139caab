from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from components.errors import ConfigError
from tests.train.conftest import write_files
from train.command_line import compose_jobs, parse
from train.targets import build, check_jobs, check_targets

MODULES = {
    "probe_targets.py": """
        from __future__ import annotations

        from dataclasses import dataclass
        from typing import TYPE_CHECKING, Literal

        from components.errors import ConfigError

        if TYPE_CHECKING:
            from somewhere import Unknown

        class Model:
            def __init__(self, width: int, in_features: int = 1, depth: int = 2,
                         act: Literal["relu", "gelu"] = "relu", inner: Model | None = None,
                         unknown: Unknown | None = None):
                if depth % 2:
                    raise ValueError("depth must be even")
                if width < 0:
                    raise ConfigError(f"model.width={width} must not be negative.")
                self.width, self.inner = width, inner

        @dataclass
        class Plain:
            x: int = 1

        class Child(Plain):
            pass

        def options(params, lr: float, **kwargs: int):
            return params, lr, kwargs

        CONSTANT = 3
        """,
    "probe_missing.py": "import not_there",
    "probe_raises.py": "x = 1\nraise RuntimeError('no licence')",
    "probe_syntax.py": "def f(:",
}
MODEL = {"_target_": "probe_targets.Model"}


@pytest.fixture(autouse=True)
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(write_files(tmp_path / "probes", MODULES))
    yield
    for name in MODULES:
        sys.modules.pop(name.removesuffix(".py"), None)


def refused(**nodes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        check_targets(OmegaConf.create(nodes))
    return str(error.value)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("probe_targets.Modle", "probe_targets has no Modle. Did you mean probe_targets.Model?"),
        ("components.precison.Precision", "Did you mean components.precision?"),
        ("probe_missing.Model", "No module named 'not_there'"),
        ("probe_missing.Model", "probe_missing.py:1"),
        ("probe_raises.Model", "RuntimeError: no licence"),
        ("probe_raises.Model", "probe_raises.py:2"),
        ("probe_syntax.Model", "probe_syntax.py:1"),
        ("no_such_package.Model", "No module named no_such_package."),
        ("probe_targets.CONSTANT", "is a int, which cannot be called"),
        ("probe_targets", "is a module, which cannot be called"),
        ("not a path", "is not a dotted path"),
    ],
)
def test_a_target_that_does_not_resolve_has_its_cause(target: str, words: str) -> None:
    message = refused(model={"_target_": target})
    assert message.startswith(f"model._target_={target}: ")
    assert words in message


def test_a_method_found_by_path_must_exist() -> None:
    check_targets(
        OmegaConf.create({"f": {"_target_": "hydra.utils.get_method", "path": "math.sin"}})
    )
    message = refused(f={"_target_": "hydra.utils.get_method", "path": "math.sinn"})
    assert "math has no sinn. Did you mean math.sin?" in message


@pytest.mark.parametrize(
    "node",
    [
        {**MODEL, "width": 8},
        {**MODEL, "width": 8, "inner": {**MODEL, "width": 3}},
        {**MODEL, "width": 8, "unknown": 3},
        {**MODEL, "_partial_": True},
        {**MODEL, "_args_": [8, 3]},
        {**MODEL, "width": 8, "_recursive_": False, "inner": MODEL, "_convert_": "all"},
        {"_target_": "probe_targets.Child", "x": 3},
        {"_target_": "probe_targets.options", "_partial_": True, "lr": 1, "anything": 2},
        {"_target_": "builtins.dict", "a": 1},
        {"no_target": {"width": "text"}},
    ],
)
def test_fitting_nodes_pass(node: dict[str, Any]) -> None:
    check_targets(OmegaConf.create({"model": node}))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            {**MODEL, "width": "sixteen"},
            "model.width=sixteen: probe_targets.Model expects int, got the text 'sixteen'.",
        ),
        (
            {**MODEL, "width": 8, "dpth": 2},
            "model.dpth=2: probe_targets.Model has no argument dpth. Did you mean depth? "
            "It takes width, in_features, depth, act, inner, unknown.",
        ),
        (
            MODEL,
            "model.width: required by probe_targets.Model and not given. Add +model.width=...",
        ),
        (
            {**MODEL, "width": 8, "act": "tanh"},
            "model.act=tanh: probe_targets.Model expects 'relu' or 'gelu', got the text 'tanh'.",
        ),
        (
            {**MODEL, "_args_": [8], "width": 8},
            "model.width: probe_targets.Model gets width in _args_ already. Keep one of them.",
        ),
        (
            {**MODEL, "_args_": ["x"]},
            "model._args_.0=x: probe_targets.Model expects int, got the text 'x'.",
        ),
        (
            {**MODEL, "width": 8, "inner": {**MODEL, "width": True}},
            "model.inner.width=true: probe_targets.Model expects int, got the bool true.",
        ),
        (
            [{**MODEL, "width": None}],
            "model.0.width=null: probe_targets.Model expects int, got null.",
        ),
        (
            {"_target_": "probe_targets.Child", "x": "a"},
            "model.x=a: probe_targets.Child expects int, got the text 'a'.",
        ),
        (
            {"_target_": "probe_targets.options", "_partial_": True, "lr": "1e-4"},
            "model.lr=1e-4: probe_targets.options expects float, got the text '1e-4'. "
            "Write 1.0e-4 without quotes.",
        ),
        (
            {**MODEL, "_partial_": "yes"},
            "model._partial_=yes: must be true or false.",
        ),
    ],
)
def test_arguments_that_do_not_fit(node: Any, message: str) -> None:
    assert refused(model=node) == message


def test_torchs_own_annotations_refuse_text() -> None:
    node = {"_target_": "torch.optim.AdamW", "_partial_": True, "lr": "1e-4", "betas": [0.9, 0.95]}
    assert refused(optimizer=node) == (
        "optimizer.lr=1e-4: torch.optim.AdamW expects float | Tensor, got the text '1e-4'. "
        "Write 1.0e-4 without quotes."
    )
    message = refused(model={"_target_": "torch.nn.Linearr"})
    assert "Did you mean torch.nn.Linear?" in message


def test_several_mistakes_come_in_one_message() -> None:
    message = refused(model={**MODEL, "width": "x", "bogus": 1}, data={"_target_": "nowhere.X"})
    assert message.startswith("3 mistakes in the configuration:\n")
    assert all(word in message for word in ("model.width", "model.bogus", "data._target_"))


def test_a_sweeps_mistake_names_job_key_value_and_type(conf_dir: Path) -> None:
    jobs = compose_jobs(parse(["-cp", str(conf_dir), "-m", "model.width=8,sixteen"]))
    with pytest.raises(ConfigError) as error:
        check_jobs(jobs)
    assert str(error.value) == (
        "job 1 (model.width=sixteen): model.width=sixteen: probe_targets.Model expects int, "
        "got the text 'sixteen'."
    )


def test_a_mistake_of_all_jobs_is_told_once(conf_dir: Path) -> None:
    jobs = compose_jobs(parse(["-cp", str(conf_dir), "-m", "seed=1,2", "+optimizer.lrr=1"]))
    with pytest.raises(ConfigError) as error:
        check_jobs(jobs)
    message = str(error.value)
    assert message.count("optimizer.lrr=1: ") == 1
    assert "Did you mean lr?" in message


def test_build_passes_plain_containers_and_objects() -> None:
    from probe_targets import Plain

    node = {"_target_": "probe_targets.options", "lr": 0.5, "betas": [1, 2]}
    plain = Plain(7)
    params, lr, rest = build(OmegaConf.create(node), "optimizer", params=plain)
    assert params is plain
    assert (lr, rest) == (0.5, {"betas": [1, 2]})
    assert type(rest["betas"]) is list


def test_build_of_a_partial_node_gives_a_factory() -> None:
    node = OmegaConf.create({"_target_": "probe_targets.options", "_partial_": True, "lr": 0.5})
    assert build(node, "optimizer")([1]) == ([1], 0.5, {})
    assert build(node, "optimizer", decay=3)([1]) == ([1], 0.5, {"decay": 3})


@pytest.mark.parametrize(
    ("node", "start", "words"),
    [
        (
            {**MODEL, "width": 8, "depth": 3},
            "model: probe_targets.Model cannot be built. ValueError: depth must be even",
            "probe_targets.py:",
        ),
        (
            {**MODEL, "width": 8, "inner": {**MODEL, "width": 8, "depth": 3}},
            "model.inner: probe_targets.Model cannot be built. ValueError: depth must be even",
            "",
        ),
        ({**MODEL, "width": -1}, "model.width=-1 must not be negative.", ""),
        ({"_target_": "os.system", "command": "true"}, "model: os.system cannot", "blocklisted"),
    ],
)
def test_build_reports_the_constructors_own_words(
    node: dict[str, Any], start: str, words: str
) -> None:
    config = OmegaConf.create({"model": node})
    with pytest.raises(ConfigError) as error:
        build(config.model, "model")
    assert str(error.value).startswith(start)
    assert words in str(error.value)
    assert "HYDRA_FULL_ERROR" not in str(error.value)


def test_build_reports_a_failure_with_further_arguments_too() -> None:
    with pytest.raises(ConfigError, match=r"model: probe_targets\.Model .* depth must be even"):
        build(OmegaConf.create({"model": MODEL}).model, "model", width=8, depth=3)
