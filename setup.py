"""The three rooms at the top of the tree are installed as packages of gputel.

Found, not listed: a hand-written list silently loses a subpackage.
"""

from setuptools import find_packages, setup

ROOMS = ("telemetry", "analysis", "trainer")


def in_a_room(package: str) -> bool:
    return package.startswith(tuple(f"gputel.{room}" for room in ROOMS))


front_door = [p for p in find_packages(include=["gputel", "gputel.*"]) if not in_a_room(p)]
rooms = [f"gputel.{p}" for room in ROOMS for p in find_packages(include=[room, f"{room}.*"])]

setup(packages=front_door + rooms, package_dir={f"gputel.{room}": room for room in ROOMS})
