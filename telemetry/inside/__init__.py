"""Stacks of the processes of a training, from inside: a thread in each sleeps until it is asked.

environment   the folder in memory where both sides meet, and the two variables that bring the hook into the command
hook/         what is put into the command's Pythons
ask           one look at all processes: their answers, and what /proc says
stacks        what a look finds
unseen        what could not be seen, and why
"""
