"""What is installed is what is tracked, and it imports from anywhere, beside anything."""

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("telemetry", "analysis", "trainer")


def tracked() -> list[str]:
    listing = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return listing.stdout.splitlines()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files as they are now."""
    folder = tmp_path_factory.mktemp("source")
    archive = subprocess.run(
        ["git", "-C", ROOT, "stash", "create"], capture_output=True, text=True, check=True
    )
    tree = archive.stdout.strip() or "HEAD"
    packed = subprocess.run(["git", "-C", ROOT, "archive", tree], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist of the tracked files, and the wheel made from that sdist."""
    dist = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "-o", str(dist), str(source)]
    answer = subprocess.run(build, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return dist


def installed_name(path: str) -> str | None:
    top, _, rest = path.partition("/")
    if top == "gputel":
        return None if rest in PACKAGES else path
    return f"gputel/{path}" if top in PACKAGES else None


def module_name(path: str) -> str:
    name = (installed_name(path) or "").removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


@pytest.mark.long
def test_wheel_from_the_sdist_holds_exactly_the_tracked_files(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {name for path in tracked() if (name := installed_name(path))}


@pytest.mark.long
def test_sdist_holds_no_links(built: Path) -> None:
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


def environment(folder: Path) -> Path:
    """The Python of a fresh environment that sees the packages of this one, but not an editable gputel."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python3.*/site-packages")
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (site / "shared.pth").write_text("\n".join(shared))
    return folder / "bin" / "python"


def run(*command: str | Path, cwd: Path) -> str:
    answer = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.long
@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_type_checker_of_a_user_passes_on_the_readme(
    how: str, source: Path, built: Path, cache: Path, tmp_path: Path
) -> None:
    """As `mypy --strict` runs on the Python block in a project that has installed gputel."""
    python = environment(tmp_path / "env")
    (site,) = (tmp_path / "env").glob("lib/python3.*/site-packages")
    (wheel,) = built.glob("*.whl")
    target = ("-e", source) if how == "editable" else ("--target", site, wheel)
    offline = "-q --no-index --no-deps --no-build-isolation".split()
    run(python, "-m", "pip", "install", *offline, *target, cwd=tmp_path)
    (block,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "readme.py").write_text(f"{block}reveal_type(run.gpu)\n")
    said = run(python, "-m", "mypy", "--strict", "--cache-dir", cache, "readme.py", cwd=tmp_path)
    assert 'Revealed type is "polars.dataframe.frame.DataFrame"' in said


@pytest.mark.long
def test_recording_changes_no_package_of_the_training_environment(tmp_path: Path) -> None:
    """Another environment's Python with torch is recorded; before and after it has the same packages and files."""
    python = environment(tmp_path / "training")

    def state() -> tuple[str, list[Path]]:
        files = [path for path in (tmp_path / "training").rglob("*") if "__pycache__" not in path.parts]
        return run(python, "-m", "pip", "freeze", "--all", cwd=tmp_path), sorted(files)

    before = state()
    script = "import torch; print(f'step 1 loss {torch.ones(2).sum().item():.1f}')"
    record = "-m gputel record --simulate 1xH100 --out run --".split()
    assert "step 1 loss 2.0" in run(sys.executable, *record, python, "-c", script, cwd=tmp_path)
    assert "torch==" in before[0]
    assert state() == before


@pytest.mark.parametrize("package", PACKAGES)
def test_package_refuses_its_bare_name(package: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", f"import {package}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (
        f"ImportError: this is a package of gputel: import gputel.{package}, not {package}" in answer.stderr
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_link_to_a_package_leads_there(package: str) -> None:
    assert (ROOT / "gputel" / package).is_symlink()
    assert (ROOT / "gputel" / package).resolve() == ROOT / package


def test_packages_are_built_from_a_folder_that_holds_gputel_only() -> None:
    """So an editable install puts neither tests nor packages of gputel on the path of other programs."""
    assert [path.name for path in (ROOT / "src").iterdir() if path.suffix != ".egg-info"] == ["gputel"]
    assert (ROOT / "src" / "gputel").resolve() == ROOT / "gputel"
