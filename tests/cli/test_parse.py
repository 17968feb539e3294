"""`gputel parse` as a process: what it prints, writes and ends with."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import gputel
from gputel.analysis.logs import formats
from gputel.analysis.logs.formats import samples
from tests import command

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LINE = (
    "step %05d/00300 (0.00%%) | loss: %.4f | lrm: 1.00 | dt: 500.00ms | tok/sec: 1,000 | mfu: 40.00 "
    "| total time: 0.01m\n"
)
LOG = "".join(LINE % (step, 5 - step / 100) for step in range(10)) + "Step 00010 | Validation bpb: 1.5\n"


def run(*words: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    return command.gputel("parse", *words, given=given)


def answer(*words: str | Path, given: bytes = b"") -> dict[str, Any]:
    result = run(*words, "--json", given=given)
    found: dict[str, Any] = json.loads(
        result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON")
    )
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "d12.log"
    path.write_text(LOG)
    return path


def test_table_says_what_the_run_was(log: Path) -> None:
    result = run(log)
    assert result.returncode == 0
    assert result.stdout.startswith("1 log, 10 records; nanochat\n\nrun   format ")
    for word in ("d12", "nanochat", "10", "5.0000", "4.9100", "1.5000 bpb", "1,000", "40.0"):
        assert word in result.stdout


def test_json_has_the_shape_that_other_tools_rely_on(log: Path) -> None:
    found = answer(log)
    assert found["schema"] == 1
    assert found["errors"] == []
    (one,) = found["runs"]
    assert list(one) == [
        "run", "source", "format", "status", "lines", "rejects", "started", "ended", "config", "summary", "phases",
        "events", "cause", "doubts", "unread", "telemetry", "read",
    ]  # fmt: skip
    (phase,) = one["phases"]
    assert list(phase) == [
        "phase", "attempt", "records", "steps", "first_step", "last_step", "total_steps", "duration_s", "metrics",
        "evals",
    ]  # fmt: skip
    assert phase["metrics"]["loss"] == {
        "unit": None, "source": "loss", "count": 10, "nan": 0, "first": 5.0, "last": 4.91,
        "mean": pytest.approx(4.955), "min": 4.91, "min_step": 9, "max": 5.0, "max_step": 0,
    }  # fmt: skip
    assert phase["evals"]["val_bpb"] == {
        "unit": None, "source": "Validation bpb", "count": 1, "nan": 0, "first": 1.5, "first_step": 10,
        "last": 1.5, "last_step": 10, "min": 1.5, "min_step": 10, "max": 1.5, "max_step": 10,
    }  # fmt: skip
    assert one["events"] == {
        "checkpoint": 0, "eval": 1, "resume": 0, "restart": 0, "epoch": 0, "nan": 0, "oom": 0, "nccl": 0,
        "traceback": 0, "stop": 0,
    }  # fmt: skip


def test_evaluation_that_names_no_step_says_between_which_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "homemade.log"
    lines = [f"step {step} | loss {4 - step / 100:.4f}\n" for step in range(0, 60, 10)]
    lines.insert(2, "validation loss: 3.95\n")
    lines.insert(5, "validation loss: 3.75\n")
    path.write_text("".join([*lines, "validation loss: 3.80\n"]))
    (one,) = answer(path)["runs"]
    found = one["phases"][0]["evals"]["val_loss"]
    assert (found["first_step"], found["last_step"], found["min_step"]) == (20, 50, 40)
    assert found["after"] == {"first": 10, "last": None, "min": 30, "max": 10}
    made = [json.loads(row) for row in run(path, "--rows").stdout.splitlines()]
    assert [(row.get("after"), row["step"]) for row in made if row["kind"] == "eval"] == [
        (10, 20), (30, 40), (None, 50),
    ]  # fmt: skip


def test_numbers_that_are_not_finite_are_null_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "nan.log"
    odd = [(LINE % (step, 0)).replace("0.0000", word) for step, word in ((2, "nan"), (3, "inf"))]
    path.write_text("".join([LINE % (1, 4.0), *odd]))
    (one,) = answer(path)["runs"]
    loss = one["phases"][0]["metrics"]["loss"]
    assert (loss["count"], loss["nan"], loss["last"]) == (3, 2, 4.0)
    assert one["events"]["nan"] == 1
    rows = [json.loads(row) for row in run(path, "--rows").stdout.splitlines()]
    assert [row["loss"] for row in rows if row["kind"] == "train"] == [4.0, None, None]


def test_logs_of_one_name_are_distinguished_by_their_folders(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.log").write_text(LOG)
    rows = run(tmp_path).stdout.splitlines()[4:6]
    assert [row.split()[0] for row in rows] == ["a/train", "b/train"]


@pytest.mark.parametrize("flag", ["--csv", "--parquet"])
def test_flag_never_takes_the_path_that_follows_it(flag: str, log: Path, tmp_path: Path) -> None:
    result = run(flag, log, "--out", tmp_path / "tables")
    assert result.returncode == 0
    assert log.read_text() == LOG
    ending = flag.removeprefix("--")
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        f"d12.evals.{ending}", f"d12.events.{ending}", f"d12.steps.{ending}",
    ]  # fmt: skip
    assert str(tmp_path / "tables" / f"d12.steps.{ending}") in result.stderr


def test_csv_has_the_first_users_columns_first(log: Path, tmp_path: Path) -> None:
    run(log, "--csv", "--out", tmp_path)
    header = (tmp_path / "d12.steps.csv").read_text().splitlines()[0]
    assert header.startswith("step,loss,grad_norm,lrm,dt_ms,tok_per_sec,mfu,total_time_min,")
    frame = pl.read_csv(tmp_path / "d12.steps.csv")
    assert frame["grad_norm"].null_count() == 10


def test_name_of_a_run_is_no_path(tmp_path: Path) -> None:
    recorded = tmp_path / "runs" / "a"
    recorded.mkdir(parents=True)
    (recorded / "run.json").write_text(json.dumps({"schema": 1, "run": "../../X"}))
    (recorded / "output.log").write_text(LOG)
    result = run(recorded, "--csv", "--out", tmp_path / "runs" / "tables")
    assert result.returncode == 0
    assert list(tmp_path.glob("X*")) == []
    assert (tmp_path / "runs" / "tables" / "X.steps.csv").exists()


def test_table_of_another_program_is_kept(log: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "d12.steps.csv"
    theirs.write_text("step,loss\n1,2\n")
    result = run(log, "--csv", "--out", tmp_path)
    assert (result.returncode, theirs.read_text()) == (1, "step,loss\n1,2\n")
    assert "d12.steps.csv: was not written by gputel; choose another path, or --force it" in result.stderr
    assert run(log, "--csv", "--out", tmp_path, "--force").returncode == 0
    assert run(log, "--csv", "--out", tmp_path).returncode == 0


def test_page_is_written_and_overwritten_but_not_one_of_another_program(log: Path, tmp_path: Path) -> None:
    for _ in range(2):
        result = run(log, "--html", "--out", tmp_path)
        assert (result.returncode, result.stderr) == (0, f"wrote {tmp_path / 'gputel-parse.html'}\n")
    (tmp_path / "gputel-parse.html").write_text("<html>mine</html>")
    result = run(log, "--html", "--out", tmp_path)
    assert result.returncode == 1
    assert "gputel-parse.html: was not written by gputel; choose another path, or --force it" in result.stderr
    assert run(log, "--html", "--out", tmp_path, "--force").returncode == 0


def test_out_may_be_the_one_picture_that_is_asked_for(log: Path, tmp_path: Path) -> None:
    assert run(log, "--svg", "--out", tmp_path / "all.svg").returncode == 0
    assert (tmp_path / "all.svg").read_text().startswith("<?xml")
    result = run(log, "--html", "--svg", "--out", tmp_path / "all.svg")
    assert result.returncode == 2
    assert "all.svg: is one file, and --html --svg was asked for; name a folder" in result.stderr


def test_compressed_logs_and_standard_input_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(LOG.encode()))
    (tmp_path / "b.log.zst").write_bytes(zstd.compress(LOG.encode()))
    found = answer(tmp_path)["runs"] + answer("-", given=LOG.encode())["runs"]
    assert [(one["run"], one["phases"][0]["records"]) for one in found] == [
        ("a", 10),
        ("b", 10),
        ("stdin", 10),
    ]


def test_damaged_zstd_file_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    packed = bytearray(zstd.compress(LOG.encode()))
    packed[len(packed) // 2] ^= 255
    (tmp_path / "a.log.zst").write_bytes(packed)
    found = run(tmp_path / "a.log.zst")
    assert found.returncode == 1
    assert found.stderr.startswith(f"error: {tmp_path}/a.log.zst: cannot be read: Unable to decompress")


def test_damaged_gzip_file_does_not_stop_the_others(tmp_path: Path) -> None:
    """Damaged data are an exception of zlib, and no OSError as a wrong checksum is."""
    lines = "".join(LINE % (step, 5 - step / 97) for step in range(300))
    packed = bytearray(gzip.compress(lines.encode()))
    packed[20] ^= 255
    (tmp_path / "a.log.gz").write_bytes(packed)
    (tmp_path / "b.log").write_text(lines)
    found = run(tmp_path / "a.log.gz", tmp_path / "b.log", "--json")
    assert [one["run"] for one in json.loads(found.stdout)["runs"]] == ["b"]
    assert found.returncode == 1
    assert "a.log.gz: cannot be read: Error -3 while decompressing" in found.stderr


def test_small_compressed_file_that_is_cut_short_gives_what_it_has(tmp_path: Path) -> None:
    """Its end comes with the first bytes that are read, before any line is parsed."""
    lines = "".join(LINE % (step, 5 - step / 97) for step in range(300))
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(lines.encode())[:-9])
    found = run(tmp_path / "a.log.gz", "--json")
    assert found.returncode == 1
    assert json.loads(found.stdout)["runs"][0]["phases"][0]["records"] > 250
    assert "could be read only in part: Compressed file ended" in found.stderr


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress], ids=["gz", "zst"])
def test_compressed_file_without_a_whole_piece_is_refused(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "a.log.gz").write_bytes(compress(LOG.encode())[:12])
    found = run(tmp_path / "a.log.gz")
    assert found.returncode == 1
    assert "cannot be read: the compressed file is cut short" in found.stderr


def test_compressed_file_that_is_cut_short_gives_what_it_has(tmp_path: Path) -> None:
    whole = gzip.compress("".join(LINE % (step, 5.0) for step in range(20_000)).encode())
    (tmp_path / "cut.log.gz").write_bytes(whole[: len(whole) // 2])
    result = run(tmp_path / "cut.log.gz", "--json")
    found = json.loads(result.stdout)
    assert result.returncode == 1
    assert found["runs"][0]["phases"][0]["records"] > 1000
    assert "could be read only in part" in found["errors"][0]["message"]


def test_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=(LOG,))
    writer.start()
    found = answer(fifo)
    writer.join()
    assert found["runs"][0]["phases"][0]["records"] == 10


def test_missing_path_among_good_ones_is_an_error_and_the_others_are_read(log: Path, tmp_path: Path) -> None:
    result = run(log, tmp_path / "gone.log", "--json")
    found = json.loads(result.stdout)
    assert result.returncode == 1
    assert [one["run"] for one in found["runs"]] == ["d12"]
    assert found["errors"] == [
        {
            "path": str(tmp_path / "gone.log"),
            "message": "no such file or folder; name a run folder, a log, a glob, 'latest' or '-'",
        }
    ]


def test_nothing_to_parse_says_what_was_looked_for_and_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "words.log").write_text("hello\nworld\n")
    result = run(tmp_path)
    assert (result.returncode, result.stdout) == (3, "")
    assert (
        "words.log: nothing to parse: no record, evaluation, event or GPU reading in 2 lines" in result.stderr
    )


def test_rejects_are_counted_and_listed_with_their_reason(tmp_path: Path) -> None:
    path = tmp_path / "bad.log"
    path.write_text(LOG + (LINE % (11, 1)).replace("1.0000", "nan?") + LINE % (12, 4))
    assert answer(path)["runs"][0]["rejects"] == 1
    result = run(path, "--rejects")
    assert result.stdout == f"{path}:12: loss is 'nan?', expected a number; see 'gputel formats nanochat'\n"


def test_rows_of_numbers_without_names_are_told(tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    rows = "".join(f"{n} {3 - n / 10:.4f} {n / 20:.2f}\n" for n in range(9))
    path.write_text(rows)
    assert f"{path}: its rows of numbers have no names;" in run(path).stderr
    path.write_text(rows.replace(" ", ","))
    assert f"{path}: its rows of numbers have no names;" in run(path).stderr
    path.write_text("step loss acc\n" + rows)
    assert "have no names" not in run(path).stderr
    assert answer(path)["runs"][0]["phases"][0]["metrics"]["loss"]["first"] == 3.0


def test_kinds_of_lines_whose_figures_were_not_read_are_counted_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    path.write_text(
        "".join(f"{LINE % (step, 1)}class {step}: recall = {step / 16}\n" for step in range(1, 13))
    )
    listed = f"{path}:2: class 1: recall = 0.0625 [not read: recall; 11 more like it]\n"
    assert run(path, "--unread").stdout == listed
    assert f"{path}: figures of 1 kind of lines were not read, see --unread\n" in run(path).stderr
    (one,) = answer(path)["runs"]
    kind = {"text": "class 1: recall = 0.0625", "figures": ["recall"], "lines": 12, "line": 2}
    assert one["unread"] == [kind]
    assert run(path, "--rejects").stdout == ""


def test_kinds_of_lines_that_were_read_are_listed_with_what_they_became(log: Path) -> None:
    (first, *_), (one,) = run(log, "--read").stdout.splitlines(), answer(log)["runs"]
    assert first.startswith(f"{log}:")
    assert first.endswith("; 9 more like it]")
    (kind,) = [kind for kind in one["read"] if kind["read_as"] == "record"]
    assert list(kind) == ["text", "lines", "line", "read_as", "figures"]
    assert (kind["lines"], kind["figures"]["loss"]) == (10, 5.0)


def test_terminal_shows_what_lines_of_an_inferred_format_became_and_no_others(
    tmp_path: Path, log: Path
) -> None:
    path = tmp_path / "strange.log"
    path.write_text("".join(f"it {n} >> nll {5 - n / 10:.2f} ~ sk-{'a' * 40}\n" for n in range(12)))
    shown = run(path).stdout
    assert "  line 1, 11 more like it: record\n    it 0 >> nll 5.00 ~ " in shown
    assert "\n    = step 0, loss 5\n" in shown
    assert "a" * 40 not in shown
    assert "How the lines were read" not in run(log).stdout


def test_terminal_shows_no_lines_where_many_logs_were_inferred(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / f"{name}.log").write_text("".join(f"it {n} >> nll {5 - n / 10:.2f}\n" for n in range(12)))
    assert "How the lines were read" not in run(tmp_path).stdout
    assert len(run(tmp_path, "--read").stdout.splitlines()) == 4


def test_rows_are_json_lines_in_the_order_of_the_log(log: Path) -> None:
    rows = [json.loads(row) for row in run(log, "--rows").stdout.splitlines()]
    assert [row["kind"] for row in rows] == ["train"] * 10 + ["eval", "event"]
    assert [row["line"] for row in rows] == [*range(1, 12), 11]
    assert list(rows[0])[:7] == ["kind", "run", "phase", "attempt", "step", "line", "time"]


def test_format_that_was_learned_reads_the_log_that_it_was_learned_from(tmp_path: Path) -> None:
    path = tmp_path / "my own.log"
    line = "<%05d> it=%05d >> nll %.4f ~ lr 1.000e-04 ~\n"
    path.write_text("".join(line % (i, i, 9 - i / 50) for i in range(1, 200)))
    learned = tmp_path / "own.toml"
    result = run(path, "--learn", learned)
    assert "own.log: inferred (" in result.stderr
    assert f"next: gputel parse {shlex.join([str(path), '--format', str(learned)])}\n" in result.stderr
    before, after = answer(path)["runs"][0], answer(path, "--format", learned)["runs"][0]
    assert before["phases"][0]["records"] == after["phases"][0]["records"] == 199
    known = formats.find(str(learned))
    assert [row["loss"] for sample in known.samples for row in sample["rows"]] == [8.98, 8.96, 8.94]
    assert samples.check(known) == []


def test_format_of_records_of_several_lines_is_learned_with_whole_records(tmp_path: Path) -> None:
    path, learned = tmp_path / "blocks.log", tmp_path / "own.toml"
    path.write_text("".join(f"Train Round: {i}/9 ...\n  total_loss: {9 / i:.4f}\n" for i in range(1, 10)))
    assert run(path, "--learn", learned).returncode == 0
    (sample,) = formats.find(str(learned)).samples
    assert [row["loss"] for row in sample["rows"]][:2] == [9.0, 4.5]


def test_folder_with_a_recording_its_log_and_its_metrics_is_one_run(tmp_path: Path) -> None:
    lines = "".join(LINE % (step, 5 - step / 10) for step in range(20))
    rows = "".join(json.dumps({"step": step, "loss": round(5 - step / 10, 4)}) + "\n" for step in range(20))
    recorded = tmp_path / "d12"
    recorded.mkdir()
    (recorded / "run.json").write_text(json.dumps({"schema": 1, "run": "d12"}))
    (recorded / "output.log").write_text(lines)
    out = tmp_path / "out" / "d12"
    (out / "checkpoints").mkdir(parents=True)
    (out / "log.txt").write_text(lines)
    (out / "metrics.jsonl").write_text(rows)
    (out / "checkpoints" / "step_000010.pt").write_bytes(b"PK\x03\x04" + bytes(5000))
    found = answer(tmp_path)
    assert [run["run"] for run in found["runs"]] == ["d12"]
    assert [(Path(each["path"]).name, each["why"]) for each in found["skipped"]] == [
        ("step_000010.pt", "zip archive or PyTorch checkpoint"),
        ("log.txt", f"the same run as {recorded}"),
        ("metrics.jsonl", f"the same run as {recorded}"),
    ]
    assert (
        run(tmp_path).stderr
        == "skipped 3 files: 2 the same run or file, 1 zip archive or PyTorch checkpoint\n"
    )
    assert len(answer(out / "log.txt", out / "metrics.jsonl")["runs"]) == 2


def test_checkpoint_that_is_named_is_no_log_and_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04" + bytes(5000))
    done = run(tmp_path / "model.pt")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"{tmp_path}/model.pt: skipped: zip archive or PyTorch checkpoint\n"


def test_many_files_without_a_record_are_one_line_and_v_names_them(log: Path, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}.txt").write_text("hello\n")
    assert run(tmp_path).stderr == "nothing to parse in 50 of 51 files; -v names them\n"
    assert run(tmp_path, "-v").stderr.count("nothing to parse: no record") == 50


def test_doubtful_reading_is_said_first_and_strict_ends_with_4(log: Path, tmp_path: Path) -> None:
    doubtful = tmp_path / "same.log"
    doubtful.write_text("".join(LINE % (step, 2.5) for step in range(12)))
    done = run(doubtful, "--strict", "--html", "--out", tmp_path / "page.html")
    said = "doubt: the loss is 2.5 in all 12 records: another figure was read as the loss"
    assert (done.returncode, done.stdout.splitlines()[0]) == (4, said)
    assert said in (tmp_path / "page.html").read_text()
    assert run(doubtful).returncode == 0
    assert run(log, "--strict").returncode == 0
    (doubt,) = answer(doubtful)["runs"][0]["doubts"]
    assert doubt == {
        "kind": "constant-loss", "about": "reading", "text": said.removeprefix("doubt: "),
        "figures": {"loss": 2.5, "records": 12}, "line": 1,
    }  # fmt: skip


def test_python_gives_frames(log: Path) -> None:
    one = gputel.parse(log)
    assert one.steps.select("step", "loss").row(-1) == (9, 4.91)
    assert one.evals.select("step", "name", "value").rows() == [(10, "val_bpb", 1.5)]
    assert [run.name for run in gputel.parse_all(log.parent)] == ["d12"]


def test_error_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    result = run(tmp_path / "gone.log", "--format", "nonsense")
    assert result.returncode == 2
    assert (
        result.stderr
        == "error: nonsense: no such format; 'gputel formats' lists them; a file ends in .toml\n"
    )


@pytest.mark.long
def test_four_at_once_write_the_same_files_whole(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        "step 1/9 | loss: 3.0 | dt: 100.00ms\nstep 2/9 | loss: 2.0 | dt: 100.00ms\n"
    )
    words = [sys.executable, "-m", "gputel", "parse", "a.log", "--csv", "--html", "--out", "out"]
    running = [subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.steps.csv", "gputel-parse.html"]


def test_table_is_the_same_beside_a_page(log: Path, tmp_path: Path) -> None:
    """The page has curves, evaluations and events; the terminal has the table of runs alone."""
    assert run(log, "--html", "--out", tmp_path).stdout == run(log).stdout


def test_key_in_an_error_is_masked_in_json_rows_and_tables(tmp_path: Path) -> None:
    key = "ghp_" + "abcdefghij0123456789" * 2
    (tmp_path / "a.log").write_text(
        LINE % (1, 3.0)
        + LINE % (2, 2.0)
        + f"Traceback (most recent call last):\n  x\nValueError: token {key} is wrong\n"
    )
    for option in ("--json", "--rows"):
        text = run(tmp_path / "a.log", option).stdout
        assert "ValueError: token *** is wrong" in text
        assert key not in text
    run(tmp_path / "a.log", "--csv", "--out", tmp_path / "tables")
    events = (tmp_path / "tables" / "a.events.csv").read_text()
    assert "ValueError: token *** is wrong" in events
    assert key not in events


def test_table_in_a_pipe_is_as_wide_as_columns_say(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, run(log).stdout.splitlines())) > 100
    monkeypatch.setenv("COLUMNS", "90")
    assert max(map(len, run(log).stdout.splitlines())) <= 90


def test_format_that_was_learned_names_the_shipped_ones_that_read_other_lines(tmp_path: Path) -> None:
    """Evaluations in nanoGPT's words stand between records in words of one's own."""
    lines = [f"at {i} we see loss {4 / (i + 1):.4f} in 210.{i}ms\n" for i in range(20)]
    lines[10:10] = ["step 10: train loss 0.4000, val loss 0.4500\n", "grid 3 of 7 is ready\n"]
    path, learned = tmp_path / "two.log", tmp_path / "own.toml"
    path.write_text("".join(lines))
    assert run(path, "--learn", learned).returncode == 0
    before, after = answer(path)["runs"][0], answer(path, "--format", learned)["runs"][0]
    assert before["phases"] == after["phases"]
    known = formats.find(str(learned))
    assert known.beside == ("nanogpt",)
    assert samples.check(known) == []
    assert samples.unread(known) == ["grid 3 of 7 is ready"]
