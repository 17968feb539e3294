"""Checkpoints of whole runs: which stay, what is refused."""

import json
import os
import pickle
from pathlib import Path

import torch
from click.testing import CliRunner

from gputel.trainer.__main__ import main

from .conftest import Left, Run


def test_newest_checkpoints_stay_and_the_best_besides(run: Run, tmp_path: Path) -> None:
    run("--steps", "12", "--save-every", "2", "--keep", "2", "--eval-every", "4")
    left = Left(tmp_path / "run")
    best = (left.out / "checkpoints" / "best").resolve().name
    assert left.checkpoints() == sorted({best, "step_000010", "step_000012"})
    assert (left.out / "checkpoints" / "latest").resolve().name == "step_000012"


def test_model_writes_from_its_weights_file(run: Run) -> None:
    run("--steps", "4")
    texts = [
        CliRunner().invoke(main, ["sample", place, "--prompt", "import", "--length", "9"]).stdout
        for place in ("run/weights.pt", "run/checkpoints/latest")
    ]
    assert texts[0] == texts[1]
    assert texts[0].startswith("import")


def test_checkpoint_and_sample_know_nothing_of_the_padded_vocabulary(run: Run, tmp_path: Path) -> None:
    run("--steps", "4", "--vocab", "300", "--stop-at", "2")
    run("--steps", "4", "--vocab", "300", "--resume", "auto")
    weights = torch.load(tmp_path / "run" / "weights.pt", weights_only=True)["weights"]
    assert weights["head.weight"].shape == weights["embedding.weight"].shape == (300, 32)
    assert all(
        tensor.shape[0] == 300
        for name, tensor in Left(tmp_path / "run").tensors().items()
        if "head.weight" in name and tensor.ndim
    )
    text = CliRunner().invoke(main, "sample run/weights.pt --prompt import --length 9".split())
    assert text.stdout.startswith("import")


def test_weights_that_want_to_run_code_are_refused(run: Run, tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {marker}",)

    torch.save({"weights": Bomb()}, tmp_path / "bomb.pt", pickle_module=pickle)
    result = CliRunner().invoke(main, ["sample", "bomb.pt"])
    assert result.exit_code == 1
    assert result.stderr == "bomb.pt: is no weights file of this trainer; give weights.pt or a checkpoint\n"
    assert not marker.exists()


def test_folder_that_holds_a_run_is_not_entered_unasked(run: Run, tmp_path: Path) -> None:
    run("--steps", "2")
    result = run("--steps", "2", code=1)
    assert result.stderr == "run: holds a run already; go on with --resume auto, or take another --out\n"
    run("--steps", "2", out=None)
    assert run("--steps", "2", out=None, code=1).stderr.startswith("runs/d2: holds a run already;")


def test_another_model_or_other_data_do_not_go_on(run: Run, tmp_path: Path) -> None:
    run("--steps", "4", "--stop-at", "2")
    shape = run("--steps", "4", "--resume", "auto", "--dim", "64", code=1)
    assert "was trained with dim 32, asked is 64; see --dim" in shape.stderr
    (tmp_path / "other.txt").write_text("another corpus " * 500)
    data = run("--steps", "4", "--resume", "auto", "--data", "other.txt", code=1)
    assert "was trained on other data" in data.stderr


def test_manifest_that_names_files_elsewhere_is_refused(run: Run, tmp_path: Path) -> None:
    run("--steps", "2", "--save-every", "2")
    place = tmp_path / "run" / "checkpoints" / "step_000002" / "manifest.json"
    about = json.loads(place.read_text())
    about["files"]["optimizer/../../../../mine"] = {"bytes": 4, "blake2b": ""}
    place.write_text(json.dumps(about))
    refused = run("--steps", "4", "--resume", "latest", code=1)
    assert "step_000002: names files outside of its own folder" in refused.stderr


def test_damaged_checkpoint_is_passed_over_by_auto_and_refused_by_name(run: Run, tmp_path: Path) -> None:
    run("--steps", "6", "--save-every", "2", "--stop-at", "4")
    model = tmp_path / "run" / "checkpoints" / "step_000004" / "model_00000.pt"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(content)
    refused = run("--steps", "6", "--resume", "latest", code=1)
    assert "model_00000.pt: is not what was saved" in refused.stderr
    went_on = run("--steps", "6", "--resume", "auto")
    assert "passed over step_000004" in went_on.stdout
    assert "Resuming from step_000002 with step 2" in went_on.stdout
