"""A run's figures and their origins."""

from pathlib import Path

from gputel.analysis.runs import facts, paths, read_run
from gputel.analysis.runs.facts import run_facts
from gputel.analysis.runs.recording import open_recording
from gputel.telemetry import run_folder

SAMPLES = Path(__file__).parents[3] / "sample_logs"
H100 = {"gpu": "0", "uuid": "a", "name": "NVIDIA H100 80GB HBM3", "limits": {"power_w": 700}}


def test_gpus_are_counted_by_the_printed_mfu() -> None:
    found = read_run(SAMPLES / "d16-base.log.gz").facts
    assert found.parameters == facts.Fact(335544320, "printed")
    assert found.gpus is not None
    assert found.gpus.value == 2
    assert "MFU" in found.gpus.origin
    assert found.gpu is None  # an H100 SXM, an H200 and a GH200 have the same peak


def test_recorded_gpus_win_over_what_the_log_says() -> None:
    log = paths.parse(SAMPLES / "d16-base.log.gz")
    second = {**H100, "gpu": "1", "uuid": "b"}
    found = run_facts(log, [{"gpus": [H100, second]}, {"gpus": [second, H100]}])
    assert found.gpus == facts.Fact(2, "recorded")
    assert found.peak_flops is not None
    assert found.peak_flops.value == 2 * 989e12
    assert found.power_limit_w == facts.Fact(1400, "recorded")


def test_mig_instance_is_no_gpu_beside_its_own_one() -> None:
    """A run on one GPU in three parts cost as much as one on four GPUs."""
    log = paths.parse(SAMPLES / "d16-base.log.gz")
    parts = [{**H100, "gpu": f"0:{n}", "uuid": f"MIG-{n}", "limits": {"power_w": None}} for n in range(3)]
    found = run_facts(log, [{"gpus": [H100, *parts]}])
    assert found.gpus == facts.Fact(1, "recorded")
    assert found.power_limit_w == facts.Fact(700, "recorded")
    assert run_facts(log, [{"gpus": parts[:2]}]).gpus == facts.Fact(2, "recorded")


def test_tokens_of_a_step_come_from_throughput_where_no_banner_says_them(
    compose: object, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"step {n} | loss: 3.0 | dt: 500.00ms | tok/sec: 4096\n" for n in range(9)))
    found = read_run(path).facts
    assert found.tokens_per_step is not None
    assert found.tokens_per_step.value == 2048
    assert found.parameters is None


def test_setting_called_depth_that_is_a_text_is_no_depth(tmp_path: Path) -> None:
    """It ended compare with a traceback: found by benchmarks/fuzz.py --seed 20262377."""
    (tmp_path / "hparams.yaml").write_text("depth: resnet50\ndim: 512\n")
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train_loss\n" + "".join(f"0,{n},{3 - n / 10}\n" for n in range(9)))
    subject = read_run(path)
    assert (subject.log.config["depth"], subject.facts.depth) == ("resnet50", None)
    assert subject.facts.dim == facts.Fact(512.0, "printed")


def test_empty_run_folder_has_no_facts_and_no_readings(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "d12", {"run": "d12"})
    subject = read_run(tmp_path / "d12")
    assert subject.facts.known() == {}
    assert subject.gpu is None
    assert open_recording(tmp_path / "d12").steps.is_empty()


def test_simulated_gpus_are_counted_but_have_no_peak() -> None:
    found = run_facts(paths.parse(SAMPLES / "trainer-depth2.log"), [{"gpus": [H100], "simulated": "1xH100"}])
    assert found.gpus == facts.Fact(1, "recorded")
    assert found.peak_flops is None


def test_no_rank_runs_on_a_simulated_gpu() -> None:
    """Micro-batches on as many ranks as there are simulated GPUs would not fill a step, and be a doubt."""
    two = facts.Fact(2, "recorded")
    assert facts.trained_on(two, [{"gpus": [H100, H100]}]) == 2
    assert facts.trained_on(two, [{"gpus": [H100, H100], "simulated": "2xH100"}]) is None


def test_table_of_readings_gives_name_limit_and_number_of_gpus(tmp_path: Path) -> None:
    head = "timestamp, index, name, power.draw [W], power.limit [W], memory.used [MiB], memory.total [MiB]\n"
    row = "2026/03/01 10:00:0{}.000, {}, NVIDIA H100 80GB HBM3, 300.00 W, 700.00 W, 60000 MiB, 81559 MiB\n"
    (tmp_path / "gpu.csv").write_text(head + "".join(row.format(n, gpu) for n in range(5) for gpu in (0, 1)))
    subject = read_run(tmp_path / "gpu.csv")
    assert subject.facts.gpu == facts.Fact("NVIDIA H100 80GB HBM3", facts.READINGS)
    assert subject.facts.gpus == facts.Fact(2, facts.READINGS)
    assert subject.facts.power_limit_w == facts.Fact(1400.0, facts.READINGS)
    assert subject.readings is not None
    assert subject.readings["mem_total_mib"].to_list() == [81559.0] * 10
