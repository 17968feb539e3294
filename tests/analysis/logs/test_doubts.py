"""What makes a reading doubtful, each beside a log that is like it and right."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from gputel.analysis.logs.log import Log

Read = Callable[[str], Log]


def line(step: int | str, loss: float, **more: object) -> str:
    return (
        f"step {step} | loss: {loss:.4f} | "
        + " | ".join(f"{name}: {value}" for name, value in more.items())
        + "\n"
    )


def steps(numbers: Iterable[int], **more: object) -> str:
    return "".join(line(step, 9 - at / 50, lr="1e-4", **more) for at, step in enumerate(numbers))


def kinds(log: Log) -> list[str]:
    return [doubt.what for doubt in log.doubts]


def test_log_that_was_understood_has_no_doubt(read: Read) -> None:
    assert kinds(read(steps(range(100)))) == []


def test_steps_that_begin_again_without_a_word_are_doubtful(read: Read) -> None:
    log = read(steps([*range(20)] * 5))
    assert kinds(log) == ["steps-fall"]
    (doubt,) = log.doubts
    assert doubt.evidence == "steps begin again 4 times in 100 records, and no line that was read says why"
    assert (doubt.about, doubt.line) == ("reading", 21)


def batches(name: str, numbers: Iterable[int]) -> str:
    return "".join(f"{name} [{n}] Speed: {900 + n}.5 samples/sec Train-accuracy=0.{n}\n" for n in numbers)


def test_batches_that_begin_again_once_are_doubtful_and_steps_are_not(read: Read) -> None:
    again = [*range(50, 500, 50), *range(50, 350, 50)]
    log = read(batches("Batch", again))
    assert kinds(log) == ["steps-fall"]
    assert (
        log.doubts[0].evidence == "steps begin again 1 time in 15 records, and no line that was read says why"
    )
    assert kinds(read(batches("Step", again))) == []


def test_batches_that_begin_again_with_each_epoch_are_not(read: Read) -> None:
    log = read("".join(batches(f"Epoch[{epoch}] Batch", range(50, 500, 50)) for epoch in range(3)))
    assert kinds(log) == []


def keras(ends: Iterable[int]) -> str:
    bar = "10/10 [====================] - 1s 9ms/step - loss: {0:.4f}\n"
    return "".join(
        f"Epoch {epoch}/4\n" + bar.format(2 - epoch / 10 - at / 100)
        for at, end in enumerate(ends)
        for epoch in range(1, end + 1)
    )


def test_trainings_that_each_come_to_their_last_epoch_are_not_doubtful(read: Read) -> None:
    assert kinds(read(keras([4] * 6))) == kinds(read(keras([4, 4, 4, 4, 2]))) == []
    assert kinds(read(keras([4, 2, 4, 3, 4]))) == ["steps-fall"]


def test_batches_that_each_come_to_their_last_are_doubtful(read: Read) -> None:
    log = read("".join(line(f"{step}/20", 9 - at / 50) for at, step in enumerate([*range(1, 21)] * 5)))
    assert kinds(log) == ["steps-fall"]


def test_steps_that_begin_again_after_resumes_are_not(read: Read) -> None:
    assert kinds(read("Resuming from checkpoint step 0\n".join([steps(range(20))] * 5))) == []


@pytest.mark.parametrize(("first", "doubts"), [(1, []), (3, ["steps-fall"])])
def test_trainings_that_begin_again_alike_are_not_though_batches_count_within_epochs(
    first: int, doubts: list[str], read: Read
) -> None:
    """The first epoch of each later training decides; batches alone would look like a short loop."""
    batches = "".join(f"iter:{n:04} loss_train: {9 / n:.4f} acc_train: 0.{n}\n" for n in range(20, 160, 20))
    epochs = [range(begin, 9) for begin in (1, *[first] * 5)]
    log = read("".join(f"Epoch: {epoch:04}\n" + batches for run in epochs for epoch in run))
    assert kinds(log) == doubts


@pytest.mark.parametrize(
    "heading",
    [
        "================ Training Loss (Sun Jun  {0}7 08:05:14 2020) ================\n",
        "--- run of 2026-03-0{0} 21:04:52 ---\n",
        "Start training with (gpu({0})) from pretrained model model/ssd_300\n",
        "Training started at 0{0}/11/2026 07:00:01\n",
        "========== fold: {0} training ==========\n",
        "\U0001f4c2 Fold {0}/5\n",
        "Trial #{0}\n",
        "Split {0}/5\n",
        "--- Training Run {0} of 5 ---\n",
        "[before the start of training step] datetime: 2026-03-0{0} 13:08:04\n",
        "me@node{0}:~/model$ python3 train.py\n",
        "(env) $ torchrun --nproc-per-node {0} train.py\n",
        "Training model wide-{0}\n",
        "==> Dataset: graph_{0}\n",
        "Now training the network: net{0}...\n",
    ],
)
def test_steps_that_begin_again_under_the_heading_of_a_start_are_not(read: Read, heading: str) -> None:
    log = read("".join(heading.format(day) + steps(range(20)) for day in range(1, 6)))
    assert kinds(log) == []
    assert log.events["text"].to_list() == [heading.format(day).strip() for day in range(2, 6)]


@pytest.mark.parametrize(
    "heading",
    [
        "=== epoch {0} (2026-03-0{0}) ===\n",
        "=== pass {0} ===\n",
        "fold {0} has 0.8 of it\n",
        "run {0}\n",
        "start of training {0}\n",
        "costs $ {0} python\n",
        "Dataset: train\n",
        "Saving model net{0}\n",
        "The model has {0} layers\n",
    ],
)
def test_a_heading_of_an_epoch_or_without_a_date_explains_nothing(read: Read, heading: str) -> None:
    assert "steps-fall" in kinds(read("".join(heading.format(i) + steps(range(20)) for i in range(1, 6))))


def test_steps_that_begin_again_with_each_fold_are_not(read: Read) -> None:
    folds = "".join(
        f"fold {fold} epoch {epoch} loss {2 / epoch:.4f}\n" for fold in range(1, 6) for epoch in range(1, 5)
    )
    assert kinds(read(folds)) == []
    assert kinds(read(folds.replace("fold", "lane"))) == ["steps-fall"]


def trainings(begins: Iterable[int], ends: Iterable[int]) -> str:
    return "".join(
        f"epoch {epoch}, loss {5 / (epoch + 1) + at / 1000:.4f}\n"
        for at, (begin, end) in enumerate(zip(begins, ends, strict=True))
        for epoch in range(begin, end)
    )


def test_trainings_one_after_the_other_are_not_doubtful_if_each_begins_as_the_first(read: Read) -> None:
    log = read(trainings([0] * 5, [20, 11, 20, 14, 9]))
    assert (kinds(log), log.events["kind"].to_list()) == ([], ["restart"] * 4)
    assert kinds(read(trainings([0] * 5, [4, 3, 4, 4, 2]))) == ["steps-fall"]  # a loop within another?
    assert kinds(read(trainings([0, 9, 8, 7, 6], [20] * 5))) == ["steps-fall"]  # two at once?


@pytest.mark.parametrize(
    ("measures", "doubts"), [("train-rmse:{0}\tvalid-rmse:{1}", []), ("train-rmse:{0}", ["steps-fall"])]
)
def test_boosters_that_evaluate_each_round_may_begin_again(
    measures: str, doubts: list[str], read: Read
) -> None:
    """No loop within a training, and no batch, evaluates on each line."""
    rounds = [(end, n) for end in (40, 25, 40, 31) for n in range(1, end + 1)]
    figures = [measures.format(round(9 / n + end / 100, 4), round(9.5 / n, 4)) for end, n in rounds]
    log = read("".join(f"[{n}]\t{each}\n" for (_, n), each in zip(rounds, figures, strict=True)))
    assert kinds(log) == doubts


def test_bars_above_the_line_of_the_second_epoch_are_doubtful(read: Read) -> None:
    """The log is cut: what the first bar counts is no epoch."""
    bar = "20/20 [====] - 2s - loss: {}\n"
    log = read(bar.format(2.5) + "".join(f"Epoch {e}/9\n{bar.format(2 / e)}" for e in range(2, 10)))
    assert kinds(log) == ["two-totals"]
    every_tenth = [
        line(f"{step}/{end}", 9.5 - step / 999) for end in (200, 900) for step in range(10, end, 10)
    ]
    assert kinds(read("".join(every_tenth))) == []
    longer = [line(f"{step}/{total}", 9.5 - step / 9) for total in (9, 18) for step in range(1, total + 1)]
    assert kinds(read("".join(longer))) == []


@pytest.mark.parametrize(("runs", "doubts"), [(1, []), (3, ["steps-fall"])])
def test_episodes_that_begin_again_are_doubtful(runs: int, doubts: list[str], read: Read) -> None:
    game = "episode: {e}/30, score: {score}, e: {greedy:.2}\n"
    lines = [game.format(e=e, score=9 + e, greedy=0.99**e) for e in range(1, 31)] * runs
    log = read("".join(lines))
    assert kinds(log) == doubts
    assert "epoch" not in log.records.columns  # `e: 0.97` is a share of random actions


def test_two_totals_in_turn_are_doubtful_and_one_that_grows_is_not(read: Read) -> None:
    turns = "".join(
        f"step {step}/{(180, 46)[step % 2]} | loss: 2.{step} | lr 1e-4\n" for step in range(1, 40)
    )
    assert "two-totals" in kinds(read(turns))
    grown = "".join(
        f"step {step}/{180 if step < 20 else 360} | loss: 2.{step} | lr 1e-4\n" for step in range(1, 40)
    )
    assert kinds(read(grown)) == []


@pytest.mark.parametrize(
    ("banner", "loss", "expected"),
    [
        ("Vocab size: 50,304\n", 10.9, []),
        ("Vocab size: 50,304\n", 3.1, ["first-loss"]),
        ("Vocab size: 50,304\n", 11160.0, ["first-loss"]),
        ("Vocab size: 50,304\nLoading weights from pretrained gpt2\n", 3.1, []),
    ],
)
def test_first_loss_is_near_that_of_a_guess_unless_weights_were_loaded(
    read: Read, banner: str, loss: float, expected: list[str]
) -> None:
    assert kinds(read(banner + "".join(line(i, loss - i / 90, lr="1e-4") for i in range(12)))) == expected


def test_first_cost_is_no_mean_over_tokens(read: Read) -> None:
    costs = "".join(f"iter: {i:03}, cost: {0.07 - i / 1000:.6f}\n" for i in range(1, 16))
    assert kinds(read("vocab size: 71290\n" + costs)) == []


def test_first_loss_of_a_later_step_says_nothing(read: Read) -> None:
    assert (
        kinds(read("Vocab size: 50,304\n" + "".join(line(i, 3.1 - i / 9000) for i in range(500, 520)))) == []
    )


def agent(counted: str) -> str:
    """Some records are of frames alone: there was no update."""
    return "".join(
        f"-----------\n| rollout/ |  |\n|    ep_rew_mean | {120 + i}.5 |\n| time/ |  |\n"
        f"|    fps | {900 + i} |\n|    time_elapsed | {2 * i} |\n|    {counted} | {2048 * i} |\n"
        + (f"| train/ |  |\n|    n_updates | {10 * i} |\n|    loss | {9 - i / 10} |\n" if i % 7 else "")
        + "-----------\n"
        for i in range(1, 31)
    )


def test_records_between_updates_that_count_frames_are_not_doubtful(read: Read) -> None:
    assert kinds(read(agent("total_timesteps"))) == []
    assert kinds(read(agent("files"))) == ["bare-records"]


def test_loss_that_never_changes_is_doubtful(read: Read) -> None:
    assert kinds(read("".join(line(i, 2.5, lr="1e-4") for i in range(12)))) == ["constant-loss"]
    assert kinds(read("".join(line(i, 2.5, lr="1e-4") for i in range(5)))) == []


def test_loss_of_grpo_may_be_zero_throughout(read: Read) -> None:
    assert kinds(read("".join(line(i, 0.0, grad_norm=0.5 + i / 64, reward=i / 16) for i in range(12)))) == []
    assert kinds(read("".join(line(i, 0.0, grad_norm=0.5 + i / 64) for i in range(12)))) == ["constant-loss"]
    assert kinds(read("".join(line(i, 2.5, reward=i / 16) for i in range(12)))) == ["constant-loss"]


def test_loss_that_counts_is_doubtful(read: Read) -> None:
    assert kinds(read("".join(f"lr: 1e-4 | loss: {at}.0000\n" for at in range(1, 31)))) == ["counting-loss"]


@pytest.mark.parametrize("records", [3, 30])
def test_size_that_was_read_as_the_step_is_doubtful(records: int, read: Read) -> None:
    assert kinds(read(steps([64] * records))) == ["one-step"]


def test_loss_that_is_the_step_is_doubtful(read: Read) -> None:
    assert kinds(read("".join(line(i, float(i), lr="1e-4") for i in range(1, 15)))) == ["copied-loss"]


def test_part_that_is_all_of_the_loss_is_not(read: Read) -> None:
    log = read("".join(line(i, 9 - i / 50, CE="0.0000", Dif=f"{9 - i / 50:.4f}") for i in range(20)))
    assert kinds(log) == []
    log = read("".join(line(i, 9 - i / 50, CE="0.5000", Dif=f"{9 - i / 50:.4f}") for i in range(20)))
    assert kinds(log) == ["copied-loss"]


def test_more_validations_than_records_are_doubtful(read: Read) -> None:
    validations = "".join(f"step {i}: train loss 3.5, val loss 3.{i:03d}\n" for i in range(1, 40))
    assert "evaluations" in kinds(
        read(validations + "".join(f"iter {i}: loss 3.{i}, time 10.00ms\n" for i in range(40, 50)))
    )


def test_records_that_were_not_read_are_doubtful_when_they_are_many(read: Read) -> None:
    bad = "step 00002/00900 (0.00%) | loss: what | dt: 1.00ms\n" * 4
    good = "step {:05d}/00900 (0.00%) | loss: 3.{:03d} | lrm: 1.00 | dt: 1.00ms\n"
    assert kinds(read("".join(good.format(i, i) for i in range(40)) + bad)) == ["unread-lines"]
    assert kinds(read("".join(good.format(i, i) for i in range(400)) + bad)) == []


def test_steps_that_jump_to_and_fro_are_doubtful(read: Read) -> None:
    jumping = [number for at in range(30) for number in (at * 1000, at * 1000 + 1)]
    assert kinds(read(steps(jumping))) == ["jumping-steps"]
    assert kinds(read(steps([*range(20), *range(100, 5000, 100)]))) == []


def test_records_that_two_handlers_print_are_doubtful_and_those_of_two_ranks_are_not(read: Read) -> None:
    lines = [f"step {n} | loss {3 - n / 101:.5f} | lr 1.0e-04" for n in range(20)]
    assert kinds(read("".join(f"{line}\n{line}\n" for line in lines))) == ["repeated-records"]
    assert kinds(read("".join(f"[rank0] {line}\n[rank1] {line}\n" for line in lines))) == []
    with_time = [f"{line} | dt {n % 7}.50ms\n{line} | dt {n % 5}.25ms\n" for n, line in enumerate(lines)]
    assert kinds(read("".join(with_time))) == ["repeated-records"]


def test_steps_with_two_validation_losses_are_doubtful_and_one_loss_in_fewer_digits_is_one(
    read: Read,
) -> None:
    record = "step {0} | loss: {1:.4f} | lr: 1e-4\nstep {0} | val loss: {1:.4f}\n"
    batch, rounded = "step {0} | val loss: {2:.4f}\n", "step {0} | val loss: {1:.3f}\n"
    assert kinds(read("".join((record + batch).format(i, 9 / i, 8 / i) for i in range(1, 30)))) == [
        "two-losses"
    ]
    assert kinds(read("".join((record + rounded).format(i, 9 / i) for i in range(1, 30)))) == []


def test_validations_at_one_step_of_two_epochs_are_none_of_two_sets(read: Read) -> None:
    one = "[E {0} | it {1}] loss {2:.4f}\n"
    passes = [
        "".join(one.format(epoch, i, 9 - epoch - i / 999) for i in range(0, 300, 50)) for epoch in range(4)
    ]
    validated = [f"[Validation] loss {9.5 - epoch:.4f}\n" for epoch in range(4)]
    begun = [text.replace("\n", f"\n{val}", 1) for text, val in zip(passes, validated, strict=True)]
    assert kinds(read("".join(begun))) == []


def test_average_precisions_of_boxes_and_of_masks_at_one_step_are_doubtful(read: Read) -> None:
    table = " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = {:.3f}\n"
    one = [f"step {i} | loss: {9 / i:.4f} | lr: 1e-4\n" + table.format(i / 99) for i in range(1, 30)]
    assert kinds(read("".join(one))) == []
    assert kinds(read("".join(text + table.format(i / 199) for i, text in enumerate(one, start=1)))) == [
        "two-losses"
    ]


def test_first_epoch_far_from_the_vocabulary_is_not_doubtful(read: Read) -> None:
    """It is a mean over an epoch, in which the model was trained."""
    losses = [(n, 4.1 - n / 10) for n in range(1, 9)]
    epochs = "".join(f"Epoch {n}/8 - Train Loss: {loss:.4f}\n" for n, loss in losses)
    assert kinds(read(f"Vocab size: 65001\n{epochs}")) == []
    batches = "".join(f"step {n}/8 - Train Loss: {loss:.4f}\n" for n, loss in losses)
    assert kinds(read(f"Vocab size: 65001\n{batches}")) == ["first-loss"]


def epochs(length: int, *ends: int) -> str:
    return "".join(
        f"Epoch {epoch} [{i}/{length}] loss: {9 - epoch - i / 100:.4f} lr: 1e-4\n"
        for epoch, end in enumerate(ends)
        for i in range(end)
    )


def test_epoch_that_begins_among_the_steps_of_the_one_before_is_doubtful(read: Read) -> None:
    log = read(epochs(30, 75, 30, 30))
    assert kinds(log) == ["epochs-overlap"]
    (doubt,) = log.doubts
    assert doubt.evidence == "epoch 1 begins at step 30, and the one before had come to 74"
    assert doubt.line == 76


@pytest.mark.parametrize("ends", [(30, 30, 30), (30, 12, 30), (31, 31, 31), (75,)])
def test_epochs_that_stop_early_or_count_from_one_do_not_overlap(read: Read, ends: tuple[int, ...]) -> None:
    assert kinds(read(epochs(30, *ends))) == []


def test_counter_that_begins_again_with_each_epoch_does_not_overlap(read: Read) -> None:
    rows = [(total // 260, total % 260) for total in range(100, 1560, 100)]
    log = read("".join(f"(epoch: {e + 1}, iters: {i}) loss: {9 - e - i / 1000:.3f}\n" for e, i in rows))
    assert kinds(log) == []


def test_losses_in_other_words_behind_the_last_record_are_doubtful(read: Read) -> None:
    """Their first line comes where the format has been inferred already."""
    words = "and words that fill the line, so that it takes less time to come to the end of the sample"
    first = "".join(f"it {i} >> nll {9 - i / 9999:.4f} ~ speed 3 {words}\n" for i in range(9000))
    assert kinds(read(first)) == []
    later = "".join(f"fine it {i} >> nll {4 - i / 999:.4f} >> kl 0.{i}\n" for i in range(1000, 2000))
    log = read(first + later)
    assert log.records.height == 9000
    assert kinds(log) == ["unread-losses"]


def test_two_records_of_each_step_are_doubtful(read: Read) -> None:
    rows = "".join(
        f"epoch={e}, loss={3 / e:.4f}, lr=0.1\nepoch={e}, loss={4 / e:.4f}, lr=0.1\n" for e in range(1, 31)
    )
    assert kinds(read(rows)) == ["several-records"]


@pytest.mark.parametrize(("heading", "doubts"), [("Epoch [{}]", []), ("Part {}", ["steps-fall"])])
def test_mean_below_the_bar_of_each_epoch_is_read(heading: str, doubts: list[str], read: Read) -> None:
    """Below other headings nothing says why the bar begins again."""
    parts = [
        f"{heading.format(part)}\n"
        + "".join(
            f"{n}%|##| {n}/100 [00:01<00:01, 9.5it/s, loss={3 - n / 99:.2f}]\r" for n in range(0, 101, 50)
        )
        + f"\nTrain Loss: {2 / part:.4f}\n"
        for part in range(1, 9)
    ]
    log = read("".join(parts))
    assert kinds(log) == doubts
    assert log.evals.filter(name="train_loss")["value"].to_list() == [
        round(2 / part, 4) for part in range(1, 9)
    ]


def test_lines_that_a_terminal_cut_are_doubtful_and_rows_of_a_table_are_not(read: Read) -> None:
    lines = [
        f"iter {at}: loss {3 / at:.4f}, lr {1e-3 / at}, time {90 + 20 * (at % 7) / 3:.2f}ms, mfu {at % 13}.50%"
        for at in range(1, 300)
    ]
    assert kinds(read("\n".join(lines))) == []
    assert "cut-lines" in kinds(read("\n".join(line[:40] for line in lines)))
    rows = [f"| {at:5d} | {3 / at:8.4f} | {at % 13:12d} |" for at in range(1, 300)]
    assert "cut-lines" not in kinds(read("\n".join(["|  step |     loss |      samples |", *rows])))
    ends = ["acc=0.5]", "acc=25]", "acc=0.125]"]
    bars = [
        f"iter {at}: loss {3 / at:.4f} {'[' + ends[at % 3]:=>{30 - len(str(at))}}" for at in range(9, 300)
    ]
    assert "cut-lines" not in kinds(read("\n".join(bars)))
