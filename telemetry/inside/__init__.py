"""The inside of a training's processes: their stacks, when they are asked, and their steps.

environment   the folder in memory where both sides meet, and the two variables that bring the hook into the command
hook/         what is put into the command's Pythons
ask           one look at all processes: their answers, and what /proc says
stacks        what a look finds
step_records  the columns of the recorded steps
drain         what processes say and record, from memory to the run folder
unseen        what could not be seen, and why
"""
