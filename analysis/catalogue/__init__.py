"""Many runs -> one table, and questions to it.

facts       a run -> its facts, settings and metrics; gpu_facts: what its GPUs drew, reached and cost
facts_file  facts.json, which keeps them beside a recording
compute     the facts of many runs, on all cores or by another engine
signatures  how the index knows that a run has changed
index       the table of all runs that were looked at: a SQLite file that may be deleted at any time
names       a name in a question -> a fact, a setting or a metric
questions   a question in SQL, which can read the table and do nothing else
answer      the columns and rows that a question names
groups      seeds of one experiment -> mean and deviation
sweep       runs with the settings in which they differ, and which of these matter for a figure
"""
