"""What is installed is what is tracked, and it imports from anywhere, beside anything."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("telemetry", "analysis", "trainer")


def tracked() -> list[str]:
    listing = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return listing.stdout.splitlines()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist of the tracked files as they are now, and the wheel made from that sdist."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    archive = subprocess.run(
        ["git", "-C", ROOT, "stash", "create"], capture_output=True, text=True, check=True
    )
    tree = archive.stdout.strip() or "HEAD"
    packed = subprocess.run(["git", "-C", ROOT, "archive", tree], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", source], input=packed.stdout, check=True)
    build = [sys.executable, "-m", "build", "--no-isolation", "-o", str(dist), str(source)]
    answer = subprocess.run(build, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return dist


def installed_name(path: str) -> str | None:
    top, _, rest = path.partition("/")
    if top == "gputel":
        return None if rest in ROOMS else path
    return f"gputel/{path}" if top in ROOMS else None


def module_name(path: str) -> str:
    name = (installed_name(path) or "").removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


@pytest.mark.long
def test_the_wheel_from_the_sdist_holds_exactly_the_tracked_files(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {name for path in tracked() if (name := installed_name(path))}


@pytest.mark.long
def test_the_sdist_holds_no_links(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert [member.name for member in archive if member.issym() or member.islnk()] == []


IMPORT_ALL = """
import importlib, pkgutil, sys
import gputel
names = [m.name for m in pkgutil.walk_packages(gputel.__path__, "gputel.") if not m.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
assert gputel.__file__.startswith(sys.argv[1]), gputel.__file__
print(*names)
"""


@pytest.mark.long
def test_every_module_of_the_wheel_imports_beside_hostile_names(built: Path, tmp_path: Path) -> None:
    """From an empty folder, and where PYTHONPATH=. brings in a user's own trainer.py and analysis/."""
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    for name in ("empty", "hostile/analysis"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("trainer.py", "telemetry.py", "analysis/__init__.py"):
        (tmp_path / "hostile" / name).write_text("raise SystemExit('the wrong module was imported')\n")
    modules = {module_name(path) for path in tracked() if (installed_name(path) or "").endswith(".py")}
    modules = {name for name in modules if name != "gputel" and not name.endswith("__main__")}
    for folder in ("empty", "hostile"):
        path = f".:{tmp_path / 'site'}"
        command = [sys.executable, "-W", "ignore", "-c", IMPORT_ALL, str(tmp_path / "site")]
        answer = subprocess.run(
            command,
            cwd=tmp_path / folder,
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, answer.stderr
        assert set(answer.stdout.split()) == modules, folder


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_refuses_its_bare_name(room: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", f"import {room}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert f"ImportError: this is a room of gputel: import gputel.{room}, not {room}" in answer.stderr


@pytest.mark.parametrize("room", ROOMS)
def test_the_link_to_a_room_leads_there(room: str) -> None:
    assert (ROOT / "gputel" / room).is_symlink()
    assert (ROOT / "gputel" / room).resolve() == ROOT / room
