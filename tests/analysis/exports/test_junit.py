"""The file of verdicts for a CI is XML whatever a metric is called."""

from pathlib import Path
from xml.etree import ElementTree

from gputel.analysis.compare.gate import GateResult
from gputel.analysis.exports import junit


def test_junit_file_is_xml_where_names_hold_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "gate.xml"
    check = GateResult("loss\x1b]0;\x00\ud800", 0.01, "regress", "failed", "worse\x07")
    junit.write_junit("run\x9b", [check], path, force=False)
    (case,) = ElementTree.parse(path).getroot()
    assert (case.get("classname"), case.get("name")) == ("run\\x9b", "regress loss\\x1b]0;\\x00\\ud800")
