from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from tests.train.conftest import write_files
from train.command_line import compose_jobs, parse


def refused(conf_dir: Path, *argv: str) -> str:
    with pytest.raises(ConfigError) as error:
        compose_jobs(parse(["--config-path", str(conf_dir), *argv]))
    return str(error.value)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "optimzer.lr=0.1",
            "optimzer.lr=0.1: there is no key optimzer.lr. Did you mean optimizer.lr?",
        ),
        ("lr=0.1", "lr=0.1: there is no key lr. Did you mean optimizer.lr?"),
        ("stpes=3", "stpes=3: there is no key stpes. Did you mean steps?"),
        ("modle=mlp", "modle=mlp: there is no key modle. Did you mean model?"),
        (
            "hydra.sweeep.dir=x",
            "hydra.sweeep.dir=x: there is no key hydra.sweeep.dir. Did you mean hydra.sweep.dir?",
        ),
        (
            "optimizer=sdg",
            "optimizer=sdg: optimizer has no option sdg. Did you mean sgd? The options are sgd.",
        ),
        ("experiment=null", "experiment=null: to leave a group out, write ~experiment instead."),
        ("+steps=3", "+steps=3: steps exists already. Drop the +: steps=3"),
        ("steps.x=3", "steps.x=3: there is no key steps.x."),
        (
            "seed=1,2",
            "seed=1,2: several values for one run. Add -m to run one job a value; "
            "for a list write 'seed=[1,2]', for text 'seed=\"1,2\"'.",
        ),
        (
            "steps",
            "steps: an override is written key=value, so steps=... (steps=null for no value).",
        ),
        ("steps=[1", "steps=[1: [ and ] do not pair up in the value."),
    ],
)
def test_each_mistake_has_its_message(conf_dir: Path, word: str, message: str) -> None:
    assert refused(conf_dir, word) == message


def test_an_unshown_argument_may_be_added_where_a_target_takes_it(conf_dir: Path) -> None:
    message = refused(conf_dir, "optimizer.nesterov=true")
    assert "The keys there are lr." in message
    assert "If torch.optim.SGD takes it as an argument, +optimizer.nesterov=true adds it" in message


def test_all_mistakes_are_told_together(conf_dir: Path) -> None:
    assert refused(conf_dir, "stpes=3", "optimizer.lrr=1") == (
        "2 mistakes in the configuration:\n"
        "  1. stpes=3: there is no key stpes. Did you mean steps?\n"
        "  2. optimizer.lrr=1: there is no key optimizer.lrr. Did you mean optimizer.lr?"
    )


def test_a_key_that_only_some_swept_options_have(conf_dir: Path) -> None:
    message = refused(conf_dir, "-m", "model=mlp,gpt", "data=text", "model.vocab_size=3")
    assert "write ++model.vocab_size=3 to set it in every job" in message


def test_a_wrong_option_in_a_sweep_names_its_job(conf_dir: Path) -> None:
    message = refused(conf_dir, "-m", "data=digits,digts")
    assert message.startswith("job 1 (data=digts): data=digts: data has no option digts.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# @package _global_\ndefaults:\n  - override /data: nope\n", "data/nope"),
        ("steps: [1\nseed: 2\n", "experiment/mine.yaml"),
    ],
)
def test_mistakes_in_a_file_keep_hydras_words_without_its_hints(
    conf_dir: Path, text: str, words: str
) -> None:
    write_files(conf_dir, {"experiment/mine.yaml": text})
    message = refused(conf_dir, "experiment=mine")
    assert words in message
    assert "HYDRA_FULL_ERROR" not in message
    assert "provider=" not in message


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (("adam",), "optimizer=adam has it"),
        (("adam", "rmsprop"), "optimizer=adam or optimizer=rmsprop have it"),
    ],
)
def test_a_key_of_another_option_is_told_with_that_option(
    conf_dir: Path, others: tuple[str, ...], words: str
) -> None:
    for name in others:
        text = f"_target_: torch.optim.{name}\nlr: 0.1\nbeta: 0.9\n"
        write_files(conf_dir, {f"optimizer/{name}.yaml": text})
    message = refused(conf_dir, "optimizer.beta=0.5")
    assert message == (
        "optimizer.beta=0.5: there is no key optimizer.beta. optimizer=sgd has none; " + words + "."
    )
