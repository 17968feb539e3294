"""A log's steps and the GPUs' samples on one clock -> what each step, evaluation, checkpoint and idle gap cost.

cut_spans(subject)     cuts the run into `start`, `train`, `eval`, `checkpoint` and `idle`, without gap or overlap
measured(spans, gpu)   adds power, energy, utilization, temperature, clocks and memory
per_step(subject)      one row per record, its sums divided by the steps that it covers
totals(measured)       sums by kind: where time and energy went

timestamps   when each line was written (timed_log); when the GPUs were busy
late_lines   lines that come late -> the times at which their steps ended
marks        lines in order of time
spans        marks -> spans
step_time    the time of a step, with its error
step_parts   what a training's hooks recorded of a step, joined with the steps of its log
samples      readings of one GPU at a time: ticks or whole seconds
windows      sums, means, peaks and counter energy over windows of time; what a gap in the sampling is
join         spans x samples -> cost of each span
per_step     cost of each step, and of each kind of span
uncertainty  the error of each time and each energy
clocks       how far the clocks of nodes are apart, by the storage to which they send
offsets      clocks of nodes and ranks by their lines; overlap of log and telemetry
"""
