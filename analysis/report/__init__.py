"""One run: where its time and energy went, and what ends its recording.

Nothing is imported here: the end of every recording needs `summary` alone, at once.

run_report    one run -> Report, with its verdicts; its JSON
phases        the training of each phase, and the errors of times, energies and rates
step_shares   how much of a step waits for data, and its other parts, seen from inside
verdicts      Verdict and its evidence; MFU, headroom, stragglers
bottleneck    compute, memory bandwidth, input or communication, or what the machine around the GPUs names
causes        slow steps and what the machine did in them -> why they were slow
machine_seconds  what job and machine did in the slow seconds
overfitting   validation against training loss; the best checkpoint
doubts        figures that cannot both be right
gpu_totals    per GPU of a recording: power, energy, memory, throttling
nodes         the nodes of a run: how often each is last, and how far their clocks are apart
machine       CPU, memory, disks and networks around the GPUs
summary       what ends a recording, and what `gputel info` shows
checkup       a trial recording of this machine's GPUs, for `gputel doctor`
"""
