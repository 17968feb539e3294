"""A recording that meets faults for an hour: their plan from a seed, and what must hold of every row afterwards.

plan          which faults come when
virtual_time  a clock of which an hour passes in minutes
life          one process of the sampler on that clock, from its start to its kill
virtual       a soak on that clock: its processes one after the other
realtime      a soak of a real `gputel record`
truth         what the fake driver's sensors have at any moment
check         a recording against the truth, and its rows against its ticks
"""
