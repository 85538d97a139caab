from __future__ import annotations

from pathlib import Path

from tests.train.compare.report import sweeps
from tests.train.compare.synthetic import curve, write_run
from train.compare.report.findings import Finding, findings


def by_caption(folder: Path) -> dict[str, Finding]:
    return {finding.caption: finding for finding in findings(sweeps.compared(folder))}


def test_what_the_mixed_sweep_shows(tmp_path: Path) -> None:
    found = by_caption(sweeps.mixed(tmp_path))
    assert found["Fastest"].headline == "fsdp bf16"
    assert found["Fastest"].sentence == "1,000 samples/s, 10.0× the reference's"
    assert found["Smallest memory"].headline == "zero3 fp32"
    assert found["Smallest memory"].sentence.endswith(", 25 % of the reference's")
    assert found["Largest loss difference"].headline == "+0.2500"
    assert found["Largest loss difference"].sentence == "fsdp bf16 ends above the reference"
    # ddp is 1e-6 off, zero3 not at all.
    assert found["Parity in fp32"].headline == "2 of 2"


def test_a_cell_that_is_off_in_fp32_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "0_run", parallel="single", records=curve([4.0, 2.0], {}))
    write_run(tmp_path / "1_run", parallel="fsdp", records=curve([4.0, 2.001], {}))
    found = by_caption(tmp_path)["Parity in fp32"]
    assert found.headline == "0 of 1"
    assert found.sentence.endswith("; not fsdp")


def test_another_learning_rate_is_no_lack_of_parity(tmp_path: Path) -> None:
    for parallel, rate, last in (("single", 0.1, 2.0), ("ddp", 0.1, 2.0), ("ddp", 0.2, 1.5)):
        write_run(
            tmp_path / f"{parallel}_{rate}",
            parallel=parallel,
            records=curve([4.0, last], {}),
            config={"optimizer.lr": rate},
        )
    assert by_caption(tmp_path)["Parity in fp32"].headline == "1 of 1"


def test_nothing_completed(tmp_path: Path) -> None:
    write_run(tmp_path / "0_run", status="failed", error={"cause": "an end"})
    (found,) = findings(sweeps.compared(tmp_path))
    assert found.headline == "no cell completed"


def test_a_single_run_is_the_fastest_of_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "0_run")
    assert set(by_caption(tmp_path)) == {"Speed", "Memory"}


def test_the_reference_itself_may_be_the_fastest(tmp_path: Path) -> None:
    for parallel, speed in (("single", 90.0), ("ddp", 60.0)):
        write_run(tmp_path / parallel, parallel=parallel, throughput={"samples_per_s": speed})
    assert "no other cell is faster" in by_caption(tmp_path)["Fastest"].sentence
