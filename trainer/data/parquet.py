"""nanochat's parquet: a row of the column `text` is a document, and the last file is for validation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gputel.trainer.data.layout import Layout
from gputel.trainer.errors import TrainerError
from gputel.trainer.optional import optional

MAGIC = b"PAR1"
ROWS_AT_ONCE = 4096


def _polars() -> Any:
    return optional("polars", "polars", "--data (parquet)")


def documents(path: Path) -> Iterator[str]:
    polars = _polars()
    table = polars.scan_parquet(path).select("text")
    for start in range(0, table.select(polars.len()).collect().item(), ROWS_AT_ONCE):
        try:
            column = table.slice(start, ROWS_AT_ONCE).collect()["text"]
        except (polars.exceptions.PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise TrainerError(
                f"{path}, row {start:,}", f"cannot be read: {reason}", "fetch it again"
            ) from error
        yield from (text for text in column if text is not None)


def fault(path: Path) -> str | None:
    with path.open("rb") as file:
        file.seek(-min(4, path.stat().st_size), 2)
        if file.read() != MAGIC:
            return "is cut: it does not end as parquet does"
    polars = _polars()
    try:
        columns = polars.read_parquet_schema(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    if "text" not in columns:
        return f"has no column text, but {', '.join(columns)}"
    kind = columns["text"]
    return None if kind == polars.String else f"has a column text of {kind}, not of strings"


PARQUET = Layout("parquet", (".parquet",), lambda head: head.startswith(MAGIC), fault, documents=documents)
