"""How a run ended: the first cause and not the last victim, and nothing that the log does not say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputel.analysis.logs.outcome import Outcome

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'


def margin(lines: str, before: str) -> str:
    """The lines as a container or a logger prints them."""
    return "".join(before.format(n=n) + line for n, line in enumerate(lines.splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("text", "status", "line"),
    [
        ("RuntimeError: x", "unknown", None),
        (TRACE + "ValueError: boom", "failed", 4),
        (TRACE + "KeyboardInterrupt", "interrupted", 4),
        (margin(TRACE + "ValueError: boom", "trainer-1  | "), "failed", 4),
        (margin(TRACE + "KeyboardInterrupt", "[pod/train-0/main] "), "interrupted", 4),
        (margin(TRACE + "ValueError: boom", "Oct 09 08:53:2{n} box train.sh[811]: "), "failed", 4),
        (margin(TRACE, "2026-01-02 03:04:0{n} ") + "ValueError: boom", "failed", 4),
        (margin(TRACE + "no error: 5", "trainer-1  | "), "unknown", None),
        (
            "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
            "interrupted",
            1,
        ),
        (
            "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
            "interrupted",
            1,
        ),
        ("Main process received SIGTERM, exiting", "interrupted", 1),
        ("Interrupt signal received! Saving checkpoint...", "interrupted", 1),
        ("interrupt received, saving", "interrupted", 1),
        ("Ctrl+C pressed, shutting down", "interrupted", 1),
        ("FatalError: `Termination signal` is detected by the operating system.", "interrupted", 1),
        ("Training interrupted at step 5", "interrupted", 1),
        ("training stopped at step 2 of 6: SIGTERM", "interrupted", 1),
        ("budget of 2.0 hours reached, stopping", "interrupted", 1),
        ("Time budget exhausted. Exiting", "interrupted", 1),
        ("the budget of tokens is exceeded in step 3", "unknown", None),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "failed", 1),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0", "failed", 1),
        ("Segmentation fault (core dumped)", "failed", 1),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "failed", 1),
        (
            "[ERROR] [launch.py:434:sigkill_handler] ['python', 'a.py'] exits with return code = -9",
            "failed",
            1,
        ),
        (
            "srun: error: n1: task 5: Exited with exit code 1\n"
            "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
            "failed",
            1,
        ),
        ("slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "interrupted", 1),
        ("a.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64]", "failed", 1),
        ("Training complete.", "completed", None),
        ("Training AlexNet complete in 30m 26s", "completed", None),
        ("Process finished with exit code 0", "completed", None),
        ("Process finished with exit code 10", "unknown", None),
        ("`Trainer.fit` stopped: `max_epochs=4` reached.", "completed", None),
        ("nothing of interest", "unknown", None),
    ],
)
def test_last_words_of_a_run_say_how_it_ended(
    text: str, status: str, line: int | None, read: Callable[..., Any]
) -> None:
    log = read(text + "\n")
    assert log.status == status
    assert (log.cause.line if log.cause else None) == line


def test_first_cause_is_named_and_not_the_launchers_word_or_the_victims(read: Callable[..., Any]) -> None:
    victims = "".join(f"[rank{r}]: {TRACE}[rank{r}]: DistBackendError: NCCL error\n" for r in range(1, 8))
    log = read("ChildFailedError\n[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n" + victims)
    assert log.cause is not None
    assert log.cause.text == "[rank0]: torch.OutOfMemoryError: CUDA out of memory."


def test_error_that_the_training_went_on_after_ended_nothing(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read(iteration(0, 3.5) + TRACE + "ValueError: a worker failed\n" + iteration(10, 3.5))
    assert log.status == "unknown"
    assert log.events["kind"].to_list() == ["traceback"]


def test_traceback_glued_to_a_record_is_seen(read: Callable[..., Any], iteration: Callable[..., Any]) -> None:
    log = read(iteration(0, 3.5).strip() + TRACE + "ValueError: boom\n")
    assert (log.records.height, log.status) == (1, "failed")


def test_last_step_of_a_printed_total_is_the_end(read: Callable[..., Any]) -> None:
    line = " iteration %d/ 100 | elapsed time per iteration (ms): 10.0 | lm loss: 2.5E+00 |\n"
    assert read(line % 99 + line % 100).status == "completed"
    assert read(line % 98 + line % 99).status == "unknown"


def test_bar_that_was_broken_off_in_its_last_epoch_did_not_come_to_its_end(
    read: Callable[..., Any],
) -> None:
    bar = "Epoch 2/2: 50%|#| %d/10 [00:01<00:01, 5.0it/s, loss=2.5]\n"
    assert read(bar.replace("50%", "50%%") % 5).status == "unknown"
    assert read(bar.replace("50%", "50%%") % 10).status == "completed"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("saving checkpoint to out", "checkpoint"),
        ("Saved model file to: x/model_1.pt", "checkpoint"),
        ("Model saved to x.pth", "checkpoint"),
        ("Saved weights to out/best.pt and its curve to out/best.png", "checkpoint"),
        ("[2026-06-15 11:05:42,570] INFO - 权重已保存至: ./logs/encoder_ep10.pth", "checkpoint"),
        ("Resuming training from out", "resume"),
        ("Resume training with (gpu(0)) from epoch 149", "resume"),
        ("successfully loaded checkpoint from x at iteration 5", "resume"),
        ("Restarting worker group", "restart"),
        ("Loss is NaN, stopping training", "nan"),
        ("Early stopping at step 5", "stop"),
        ("early stop after 28 epochs", "stop"),
        ("Early stopping: no improvement in 3 evaluations. Best val_loss 3.1 at step 300", "stop"),
        ("NCCL error: unhandled system error", "nccl"),
    ],
)
def test_line_is_an_event(text: str, kind: str, read: Callable[..., Any]) -> None:
    assert read(text + "\n").events["kind"].to_list() == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "Checkpoints will be saved to out",
        "Plot for the ARIMA model (baseline) saved at results\\arima_baseline.png",
        "Saved model comparison to out/scores.csv",
        "预测已保存至: ./out/scores.txt",
        "resume: false",
        "Press Ctrl+C to stop, a checkpoint will be saved",
        "early_stopping_patience=3",
        "Early stopping: False",
        "early_stop_after: 28 epochs",
        "early stopping: patience 3, min improvement 0.01",
        "W0317 NaN or Inf found in input tensor.",
        'print(f"Saved checkpoint to {path}")',
        "NCCL INFO Using network IB",
        "[instantiate_callbacks] Instantiating callback <lightning.pytorch.callbacks.EarlyStopping>",
    ],
)
def test_line_that_only_sounds_like_one_is_no_event(text: str, read: Callable[..., Any]) -> None:
    assert read(text + "\n").events.height == 0


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("[2026-06-15 17:28:57,662] INFO - 预训练完成！", "completed"),
        ("学習が完了しました", "completed"),
        ("第3轮训练完成", "unknown"),
        ("开始训练", "unknown"),
        ("RuntimeError: DataLoader worker (pid 4020) is killed by signal: Terminated. ", "interrupted"),
        ("RuntimeError: DataLoader worker (pid 4020) is killed by signal: Killed. ", "failed"),
    ],
)
def test_last_line_says_how_the_run_ended(
    end: str, status: str, read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    trace = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
    steps = "".join(iteration(step, 3.5 - step / 100) for step in (10, 20, 30))
    assert read(steps + (trace if "Error" in end else "") + end + "\n").status == status


def test_loss_that_becomes_nan_is_one_event_however_long_it_stays_so(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    text = iteration(0, 3.5) + "".join(iteration(step, float("nan")) for step in (10, 20, 30))
    assert read(text).events.select("kind", "line").rows() == [("nan", 2)]


def test_each_stretch_of_nan_losses_is_one_event(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    losses = [3.5, float("nan"), float("inf"), 3.25, float("nan")]
    log = read("".join(iteration(10 * row, loss) for row, loss in enumerate(losses)))
    assert log.events.select("kind", "line", "step").rows() == [("nan", 2, 10), ("nan", 5, 40)]


@pytest.mark.parametrize(
    ("between", "kinds"), [("", ["restart"]), ("Resuming from checkpoint step 10\n", ["resume"])]
)
def test_steps_that_begin_again_are_a_restart_unless_a_line_says_why(
    read: Callable[..., Any], iteration: Callable[..., Any], between: str, kinds: list[str]
) -> None:
    attempt = "".join(iteration(step, 3.5) for step in (0, 10, 20))
    log = read(attempt + between + attempt)
    assert log.events["kind"].to_list() == kinds
    assert log.events["line"].to_list() == [4]


def test_each_traceback_has_the_first_error_after_it(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read(
        iteration(0, 3.5) + TRACE + "ValueError: one\n" + iteration(10, 3.5) + TRACE + "ValueError: two\n"
    )
    assert log.events.select("text", "step").rows() == [("ValueError: one", 0), ("ValueError: two", 10)]


def test_one_checkpoint_of_many_ranks_and_files_is_one_event(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    ranks = "".join(f"Saved optimizer state to: x/optim_000100_rank{rank}.pt\n" for rank in range(8))
    model = "Saved model parameters to: x/model_000100.pt\n"
    log = read(iteration(99, 3.6) + ranks + model + iteration(100, 3.5) + ranks)
    assert log.events.select("kind", "step").rows() == [("checkpoint", 100)]


def test_checkpoint_that_is_saved_again_after_a_resume_is_another(read: Callable[..., Any]) -> None:
    steps = "".join(f"step {step} loss 2.5\n" for step in range(300, 404))
    run = steps + "saved checkpoint to out/ckpt_403.pt\n"
    log = read(run + "step 404 loss 2.5\nResuming from checkpoint out/ckpt_299.pt\n" + run)
    assert log.events["kind"].to_list() == ["checkpoint", "resume", "checkpoint"]


@pytest.mark.parametrize(
    ("between", "goes_on_at", "saved"),
    [("", 15, [10, 20, 20, 30]), ("saved checkpoint to out/step_20.pt\n", 25, [10, 20, 30])],
)
def test_checkpoint_that_is_saved_again_after_steps_begin_again_is_another(
    between: str, goes_on_at: int, saved: list[int], read: Callable[..., Any]
) -> None:
    """No line says why they do. Where they do not, it is another rank's copy behind the next record."""

    def steps(first: int, last: int) -> str:
        return "".join(
            f"step {i} loss {9 - i / 10:.4f}\n" + f"saved checkpoint to out/step_{i}.pt\n" * (i % 10 == 0)
            for i in range(first, last)
        )

    log = read(steps(1, 25) + between + steps(goes_on_at, 32))
    assert log.events.filter(kind="checkpoint")["step"].to_list() == saved


def test_checkpoint_that_is_announced_and_then_written_is_one(
    read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    saved = "Saving checkpoint to out/{0}\nSaved state to out/{0} in 3.1 s\n"
    log = read("".join(iteration(i, 3.0) + saved.format(i) for i in (10, 20)))
    assert log.events["kind"].to_list() == ["checkpoint", "checkpoint"]


def test_interrupt_that_saves_is_a_stop_and_one_checkpoint(read: Callable[..., Any]) -> None:
    log = read(
        "Interrupt signal received! Saving checkpoint...\nSaved checkpoint to out/emergency_step_99.pt\n"
    )
    assert log.events["kind"].to_list() == ["stop", "checkpoint"]
    assert log.events["text"].to_list()[1].endswith("emergency_step_99.pt")


@pytest.mark.parametrize(
    ("behind", "status"),
    [([], "interrupted"), ([3], "interrupted"), ([3, 4], "unknown"), ([99], "completed")],
)
def test_loop_that_catches_a_signal_may_finish_its_step(
    behind: list[int], status: str, read: Callable[..., Any]
) -> None:
    """A run that goes on for longer has not ended by it, nor has one that came to its last step."""
    step = "step {}/100 | loss: 3.0\n"
    text = (
        "".join(step.format(number) for number in range(3))
        + "caught SIGINT - writing checkpoint before exit\n"
    )
    assert read(text + "".join(map(step.format, behind))).status == status


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["Saved to out/latest.pt", "Saved to out/step_000900.pt"], "Saved to out/step_000900.pt"),
        (["Saved to out/step_000900.pt", "Saved to out/latest.pt"], "Saved to out/step_000900.pt"),
        (["Saving checkpoint", "Saved to out/step_000900.pt"], "Saved to out/step_000900.pt"),
        (["Saved to out/optim_000900.pt", "Saved to out/model_000900.pt"], "Saved to out/model_000900.pt"),
    ],
)
def test_checkpoint_of_several_lines_has_the_text_that_names_it_best(
    lines: list[str], text: str, read: Callable[..., Any], iteration: Callable[..., Any]
) -> None:
    log = read(iteration(899, 3.5) + "\n".join(lines) + "\n" + iteration(900, 3.5))
    assert log.events.select("kind", "line", "step", "text").rows() == [("checkpoint", 2, 900, text)]


WORDS = [
    "step 5 loss 2.5", "", "Saving checkpoint", "Saved state to out/step_10.pt", "Saved state to out/step_20.pt",
    "Traceback (most recent call last):", '  File "train.py", line 3', "ValueError: boom", "exitcode : 0",
    "exitcode : 3", "Training complete.", "saved to model.h5", "saved to model.h1", "RESTART #2",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=20), st.integers(0, 9))
def test_events_of_a_region_are_those_of_its_lines(lines: list[str], first: int) -> None:
    """Looking through a region at once leaves no event out."""
    whole, single = Outcome(), Outcome()
    region = "\n".join(lines).encode()
    events = [event for at, line in whole.worth(region, first) for event in whole.read(line, at)]
    alone = [event for at, line in enumerate(region.split(b"\n"), first) for event in single.read(line, at)]
    assert (events, whole.completed) == (alone, single.completed)
