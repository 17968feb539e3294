"""Lines of other trades are refused by their words, units and form; those of a training beside them are not."""

from __future__ import annotations

import pytest

from gputel.analysis.logs.infer import infer, other_domains, shapes
from gputel.analysis.logs.infer.shape_roles import make_candidate


def text(line: str, count: int = 30) -> bytes:
    return "".join(line.format(at, 9 - at / 20) + "\n" for at in range(1, count)).encode()


@pytest.mark.parametrize(
    "line",
    [
        "probe={0} packet_loss={1:.3f}",
        "port {0} insertion loss: {1:.3f} return loss: {1:.2f}",
        "step {0} heat loss: {1:.3f}",
        "week {0} weight loss {1:.3f}",
        "epoch {0} loss: {1:.3f} dB",
        "step {0} loss: ${1:.2f}",
        '10.0.0.1 "GET /train?step={0}&loss={1:.3f} HTTP/1.1" 200',
        "[{0}/40] Building CXX object loss.o time {1:.2f}s",
        "step={0} users=10 rps={1:.2f} p95_ms=12.5",
        "step={0} requests=10 loss_rate={1:.2f} replies=9.5",
        "step {0} data loss: {1:.3f} cpu: 12",
        "trade {0} profit 12.5 loss {1:.3f}",
        "round {0} win {0} loss {0}",
        "step {0}/100 acceptance fraction: 0.3{0} log prob: {1:.3f} autocorr time: {1:.2f}",
        "iteration {0} temperature {1:.4f} cost {1:.3f} accepted {0}",
        " TimeLoss: {1:.2f}",
        "hop {0} PathLoss {1:.2f}",
    ],
)
def test_line_of_another_trade_is_no_record(line: str) -> None:
    assert infer(text(line)) is None


@pytest.mark.parametrize(
    "line",
    [
        "step {0} loss: {1:.3f} heat_loss: {1:.2f}",
        "step {0} loss: {1:.3f} latency: 12.5 errors: 0",
        "iter={0} reward=9.5 loss_critic={1:.3f} loss_entropy=0.57 requests_sent=1.18",
        "step {0} data loss: {1:.3f} physics loss: 0.{0:03d}",
        "epoch {0} energy loss: {1:.3f} force loss: 0.5",
        "epoch {0} heat loss: {1:.3f}",
        "epoch {0} timeLoss: {1:.3f}",
        "iter {0} mlm_loss: {1:.3f} errors: 0 cpu: 12",
        "episode {0} loss {1:.3f} profit 12.5",
        "/Users/ann/profit/train.log - step {0} loss: {1:.3f}",
        "update {0} win {1:.3f} loss {1:.4f}",
        "Validation loss: {1:.4f} | si_sdr: -{0}.25 dB | rms_ratio: 0.901",
        "Objective of the network for batch {0} is loss {1:.3f} over all of its frames.",
    ],
)
def test_line_of_a_training_is_a_record(line: str) -> None:
    assert infer(text(line)) is not None


def test_sentence_that_is_said_a_few_times_is_prose() -> None:
    line = "In epoch {0} the loss fell to {1:.2f} and we are now happy with the result."
    assert infer(text(line, 4)) is None


def test_patch_is_no_log() -> None:
    assert infer(b"@@ -1,3 +1,3 @@\n" + text("+  step {0} loss: {1:.3f}")) is None


def test_message_about_a_loss_that_is_too_large_is_no_record() -> None:
    assert infer(text("Loss too large ({1:.3f}->{0}.5)! Learning rate decreased to 0.00015.")) is None


def test_norm_of_gradients_alone_is_no_record() -> None:
    assert infer(text("grad norm: {1:.3f} 24.5 21.5")) is None
    assert infer(text("step {0} grad norm: {1:.3f}")) is not None


def test_echoed_assignment_of_r_is_code() -> None:
    lines = [b"err <- mean(as.numeric(pred > 0.5) != test_labels)"]
    (shape,) = shapes.line_shapes(lines, lines)
    line = make_candidate(shape, lines)
    assert line is not None
    assert other_domains.without_others([line], lines) == []


LINEAR_PROGRAM = """Presolve removed 12 rows and 4 columns
Optimize a model with 390 rows, 316 columns and 1803 nonzeros
Iteration    Objective       Primal Inf.    Dual Inf.      Time
"""
MOLECULE = """Restricted Hartree-Fock, 5 basis functions
Nuclear repulsion energy: 9.19 Hartree
Occupied orbitals: 5, dipole moment 1.72, multiplicity 1
Iteration    Energy           Delta-E    RMSDP    DIISErr    Time(sec)
"""
FLUID = """Mesh: 12000 cells, turbulence model k-epsilon
Courant number 0.5, inlet velocity 2.0, outlet pressure 0
iter    objective    norm    time
"""


@pytest.mark.parametrize("banner", [LINEAR_PROGRAM, MOLECULE, FLUID])
def test_iterations_of_a_solver_are_no_training_unless_they_speak_of_one(banner: str) -> None:
    table = text("   {0:2d}    {1:.6e}   1.5e+03   0.000e+00   {0}s")
    assert infer(banner.encode() + table) is None
    assert infer(banner.encode() + text("iteration {0} objective {1:.4f} norm {1:.3e}")) is None
    assert infer(banner.encode() + text("iteration {0} loss {1:.4f} norm {1:.3e}")) is not None
    assert infer(text("iteration {0} objective {1:.4f} norm {1:.3e}")) is not None


def test_model_that_learns_to_solve_is_trained() -> None:
    network = "Neural wave function: 4 layers, tanh activation, 1,200 weights; training with Adam\n"
    lines = text("iteration {0} objective {1:.4f} norm {1:.3e}")
    assert infer((MOLECULE + network).encode() + lines) is not None
