"""What each step, evaluation, checkpoint and idle gap of a run took and cost: spans of time x ticks of GPUs.

cut_spans(subject)       the run cut into `start`, `train`, `eval`, `checkpoint` and `idle`, without gap or overlap
measured(spans, gpu)     the same with power, energy, utilisation, temperature, clocks, memory
per_step(subject)        a row per record, sums divided by the steps that it stands for
totals(measured)         by kind: where the time and the energy went
"""

from gputel.analysis.align.join import measured, per_step, totals
from gputel.analysis.align.spans import cut_spans

__all__ = ["cut_spans", "measured", "per_step", "totals"]
