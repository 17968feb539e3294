"""What each step, evaluation, checkpoint and idle gap of a run took and cost: spans of time x ticks of GPUs.

spans(subject)           the run cut into `start`, `train`, `eval`, `checkpoint` and `idle`, without gap or overlap
measured(spans, gpu)     the same with power, energy, utilisation, temperature, clocks, memory
per_step(subject)        a row per record, sums divided by the steps that it stands for
totals(measured)         by kind: where the time and the energy went
"""

from gputel.analysis.align.cutting import spans
from gputel.analysis.align.join import measured
from gputel.analysis.align.steps import per_step, totals

__all__ = ["measured", "per_step", "spans", "totals"]
