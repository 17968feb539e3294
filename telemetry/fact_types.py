"""The types of the values in run.json, which any program may have written."""

from __future__ import annotations

from collections.abc import Mapping

SHAPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("run", "simulated", "cwd"), str),
    **dict.fromkeys(("argv", "gpus"), list),
    **dict.fromkeys(
        (
            "git",
            "host",
            "packages",
            "env",
            "tags",
            "sampling",
            "host_sampling",
            "started",
            "ended",
            "stopped",
            "inside",
        ),
        dict,
    ),
    "exit_code": int,
    **dict.fromkeys(("price", "budget"), (int, float)),
}
"""The types of the keys of run.json that readers use; each may be null."""


def wrong_keys(facts: Mapping[str, object]) -> list[str]:
    """The keys whose values no reader can use."""
    return [key for key, shape in SHAPES.items() if not _is_right(key, facts.get(key), shape)]


def _is_right(key: str, value: object, shape: type | tuple[type, ...]) -> bool:
    if value is None or not isinstance(value, shape):
        return value is None
    if key == "exit_code":
        return _is_whole(value, 2**31)
    if key in ("price", "budget"):
        return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= value < 1e9
    if key == "argv" and isinstance(value, list):
        return all(isinstance(word, str) for word in value)
    if key in ("tags", "env", "packages") and isinstance(value, dict):
        return all(isinstance(text, str) for text in value.values())
    if key == "gpus" and isinstance(value, list):
        return all(_is_gpu(gpu) for gpu in value)
    if key == "sampling" and isinstance(value, dict):
        return _is_number(value.get("hz")) and isinstance(value.get("statistics", {}), (dict, type(None)))
    if key in ("started", "ended") and isinstance(value, dict):
        return all(_is_whole(ns, 2**62) for name, ns in value.items() if name.endswith("_ns"))
    return True


def _is_gpu(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("gpu"), str):
        return False
    names = (value.get(key) for key in ("name", "uuid", "driver", "parent"))
    numbers = [value.get("memory_total_mib")]
    limits = value.get("limits")
    if isinstance(limits, dict):
        numbers += limits.values()
    elif limits is not None:
        return False
    return all(name is None or isinstance(name, str) for name in names) and all(
        _is_number(number) for number in numbers
    )


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, (int, float))


def _is_whole(value: object, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < below
