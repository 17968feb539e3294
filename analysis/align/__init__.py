"""A log's steps and the GPUs' samples on one clock -> what each step, evaluation, checkpoint and idle gap cost.

cut_spans(subject)     cuts the run into `start`, `train`, `eval`, `checkpoint` and `idle`, without gap or overlap
measured(spans, gpu)   adds power, energy, utilization, temperature, clocks and memory
per_step(subject)      one row per record, its sums divided by the steps that it covers
totals(measured)       sums by kind: where time and energy went

timestamps   when each line was written; when the GPUs were busy
spans        lines in order of time -> spans
step_time    the time of a step, with its error
samples      readings of one GPU at a time: ticks or whole seconds
windows      sums, means, peaks and counter energy over windows of time; what a gap in the sampling is
join         spans x samples -> cost of each span, step and kind
offsets      clocks of nodes and ranks; overlap of log and telemetry
"""
