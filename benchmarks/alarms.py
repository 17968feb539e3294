"""Every rule of the alarms against every log of some folders: which fires, at which step, and what it says.

Read to the end, logs have no clock: rules of silence (stalled, rank_behind, ranks_missing) and of the machine say
nothing here and are proved by tests. `python benchmarks/alarms.py FOLDER... --out FILE`
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from gputel.analysis.alarms import observations, rules
from gputel.analysis.alarms.watch import Alarm, RuleEngine
from gputel.analysis.logs.log import Log
from gputel.analysis.runs import paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = "\n".join(page(options.folders)) + "\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


def page(folders: list[Path]) -> Iterator[str]:
    found = [log for folder in folders for log in paths.parse_all(folder) if not log.telemetry]
    fired = {id(log): alarms(log) for log in found}
    silent = [log.name for log in found if not fired[id(log)]]
    names = rules.names()
    yield from (f"# Alarms by log, {date.today()}", "")
    yield f"{len(found)} logs, {sum(log.records.height for log in found):,} records, {len(names)} rules."
    yield from ("", "| log | rule | step | over at | what it said |", "|---|---|---|---|---|")
    for log in found:
        for began, ended in fired[id(log)]:
            over = "" if ended is None else ended.step
            yield f"| {log.name} | {began.rule} | {began.step} | {over} | {began.text[:90].replace('|', '/')} |"
    yield from ("", f"Silent: {', '.join(silent)}.", "")
    never = [name for name in names if not any(a.rule == name for each in fired.values() for a, _ in each)]
    yield f"Rules that fired in no log: {', '.join(never)}."


def alarms(log: Log) -> list[tuple[Alarm, Alarm | None]]:
    """Each with its end, where it came."""
    watch = RuleEngine(rules.load())
    begun: list[list[Alarm | None]] = []
    placed = observations.placed(log.records, log.evals, log.events)
    for alarm in (alarm for _, _, moment in placed for alarm in watch.see(moment)):
        if alarm.state == "on":
            begun.append([alarm, None])
        else:
            last = next(
                b for b in reversed(begun) if b[0] and (b[0].rule, b[0].key) == (alarm.rule, alarm.key)
            )
            last[1] = alarm
    return [(began, ended) for began, ended in begun if began]


if __name__ == "__main__":
    main()
