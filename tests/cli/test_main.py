from __future__ import annotations

import resource
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import feduplink
from feduplink import GraphPolicy, PerceptronPolicy, TrainingSettings, __main__, cli
from feduplink.cli import SHELLS, command_line
from feduplink.cli.commands import COMMANDS, Command
from feduplink.policies import default_policies
from feduplink.registry import COMPARED, POLICIES, TRAINABLE
from feduplink.scenario import Scenario

from .conftest import Run, metrics_of, refused

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(command: Command, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        command_line.main([command.name, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert command.summary in text
    # Nothing in a check is random, and a sweep leaves that to the command it runs.
    assert ("--seed" in text) == (command.name not in ("check", "sweep"))
    assert ("--out" in text) == (command.name not in ("check", "serve"))  # all others write files
    assert f"example: feduplink {command.name}" in text


def test_the_overview_has_the_summaries_of_all_commands():
    assert {command.name: command.summary for command in COMMANDS} == cli.SUMMARIES


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    with pytest.raises(SystemExit) as ended:
        command_line.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"feduplink {project['version']}\n"
    assert feduplink.__version__ == project["version"]


def test_every_scenario_field_is_an_option_with_its_default(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        command_line.main(["evaluate", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, field in Scenario.model_fields.items():
        assert f"--{name.replace('_', '-')} " in text
        default = field.default
        shown = f"{default:g}" if isinstance(default, float) else str(default).lower()
        assert not shown or f"(default: {shown})" in text or not default


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workers", "0"), ("workers", "greater than or equal to 1")),
        (("--workers", "2.5"), ("workers", "integer")),
        (("--rate-min", "nan"), ("rate_min", "finite")),
        (("--rate-min", "41"), ("rate_min", "less than or equal to 40")),
        (("--rate-min", "0.7,0.6"), ("rate_min", "2 entries", "8 workers")),
        (("--ee-min", "-1"), ("ee_min", "greater than or equal to 0")),
        (("--pmax-dbw", "inf"), ("pmax_dbw", "finite")),
        (("--pmax-dbw", "-500"), ("pmax_dbw", "-90")),
        (("--interference", "0"), ("interference", "greater than 0")),
        (("--csi-noise", "-1"), ("csi_noise",)),
        (("--channel-model", "moon"), ("channel_model", "hata-urban", "moon")),
        (("--speed-mps", "3"), ("speed_mps", "geometry: kept")),
        (("--scenario", "nowhere.yaml"), ("scenario", "nowhere.yaml")),
        (("--scenario", "moon"), ("scenario", "interference-x2")),
        (("--seed", "-1"), ("seed", "greater than or equal to 0")),
        (("--seed", "one"), ("seed", "one")),
        (("--no-such-option",), ("--no-such-option",)),
        (("--worker", "3"), ("--worker",)),
    ],
)
def test_bad_options_end_with_one_sentence_and_no_files(
    run: Run, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
):
    sentence = refused(run("channels", "--count", 2, *options))
    for word in words:
        assert word in sentence
    assert list(tmp_path.iterdir()) == []


def test_unknown_and_missing_commands(run: Run):
    assert "evaluate" in refused(run("dance"))
    assert "did you mean train?" in refused(run("trian"))
    assert "--colour: no such option" in refused(run("--colour"))


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        command_line.main([])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: feduplink")
    assert all(command.name in text for command in COMMANDS)


def test_unknown_options_point_to_the_help_of_their_command(run: Run):
    sentence = refused(run("channels", "--wrokers", 3))
    assert "--wrokers: no such option, did you mean --workers?" in sentence
    assert sentence.endswith("see feduplink channels --help.")
    assert "did you mean" not in refused(run("channels", "--foo", 3))
    assert "only options are accepted here; see feduplink train" in refused(
        run("train", "--policy", "pdg", "now")
    )


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("channels", "--scenario", "interferense-x2"), "interference-x2"),
        (("channels", "--channel-model", "hata-urbane"), "hata-urban"),
        (("evaluate", "--policies", "openlop"), "openloop"),
        (("evaluate", "--objective", "rates"), "rate"),
        (("federate", "--task", "digit"), "digits"),
        (("federate", "--partition", "dirichelt"), "dirichlet"),
        (("federate", "--aggregation", "exactly"), "exact"),
        (("federate", "--engine", "flowre"), "flower"),
        (("reproduce", "interferance"), "interference"),
        (("data", "--fetch", "mnits", "--data", "here"), "mnist"),
        (("--completion", "bsh"), "bash"),
    ],
)
def test_names_that_are_nearly_right(run: Run, words: tuple[str, ...], meant: str):
    assert f"did you mean {meant}?" in refused(run(*words))


#: Prints which of the slow packages the help of these commands has imported.
IMPORTED = """
import sys
from feduplink.cli.command_line import main
for command in sys.argv[1:]:
    try:
        main([*command.split(), "--help"])
    except SystemExit:
        pass
slow = {"h5py", "matplotlib", "numpy", "rich", "scipy", "torch"}
sys.exit(", ".join(sorted(slow & set(sys.modules))) or 0)
"""


def test_help_imports_nothing_that_computes(tmp_path: Path):
    """PyTorch takes seconds to import, and the others a quarter of one."""
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, "", *(command.name for command in COMMANDS)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", *(command.name for command in COMMANDS)])
def test_help_is_there_at_once(command: str):
    """Processor seconds, so that the answer is not that of a busy machine."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [sys.executable, "-m", "feduplink", *command.split(), "--help"]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < (0.5 if command else 0.3)


def test_what_the_help_says_of_policies_is_what_their_classes_say():
    assert default_policies() == COMPARED
    kinds = {name: POLICIES.find(name) for name in POLICIES.names()}
    trained = {name for name, kind in kinds.items() if kind.algorithm}
    assert set(TRAINABLE) == trained
    assert TrainingSettings().learning_rate == GraphPolicy.learning_rate
    described = TrainingSettings.model_fields["learning_rate"].description
    assert f"(pdm: {PerceptronPolicy.learning_rate})" in described


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_commands_options_and_choices(
    shell: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        command_line.main(["--completion", shell])
    assert ended.value.code == 0
    script = capsys.readouterr().out
    for word in ("federate", "--csi-noise", "--packet-success", "worst-phase"):
        assert word in script


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["evalu"], ["evaluate"]),
        (["train", "--pres"], ["--preset"]),
        (["train", "--preset", "p"], ["paper"]),
        (["channels", "--geometry", "k"], ["kept"]),
        (["evaluate", "--policies", "op"], ["openloop"]),
        (["evaluate", "--policies", "max,pd"], ["max,pdm", "max,pdg", "max,pdx"]),
        (["evaluate", "--policies", "runs/tr"], ["runs/trained"]),
        (["evaluate", "--policies", "td"], ["tdma"]),
        (["federate", "--policies", "td"], ["tdma"]),
        (["federate", "--task", "di"], ["digits"]),
        (["channels", "--scenario", "interference-x"], [f"interference-x{n}" for n in (2, 4, 8)]),
        (["evaluate", "--channels", "rec"], ["recorded.h5"]),
        (["report", "ru"], ["runs"]),
    ],
)
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_what_bash_completes(
    words: list[str],
    completed: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(SystemExit):
        command_line.main(["--completion", "bash"])
    asked = shlex.join(["feduplink", *words])
    script = f"""{capsys.readouterr().out}
        COMP_WORDS=({asked}) COMP_CWORD={len(words)}
        _shtab_feduplink feduplink "${{COMP_WORDS[COMP_CWORD]}}" ""
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    (tmp_path / "runs/trained").mkdir(parents=True)
    (tmp_path / "recorded.h5").touch()
    answered = subprocess.run(
        ["bash", "--norc"], input=script, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answered.stdout.split() == completed


def test_out_must_not_be_a_file(run: Run, tmp_path: Path):
    (tmp_path / "taken").write_text("mine")
    assert "taken is a file" in refused(run("channels", "--out", "taken"))
    assert (tmp_path / "taken").read_text() == "mine"


def test_out_must_be_writable_before_anything_is_done(run: Run, tmp_path: Path):
    """A name too long: the tests may run as a user that may write everywhere."""
    name = 300 * "n"
    assert f"{name}: File name too long" in refused(run("channels", "--out", f"new/{name}"))
    assert not list(tmp_path.rglob("*.h5"))


def test_a_file_in_the_way_of_out_is_one_sentence(run: Run, tmp_path: Path):
    (tmp_path / "taken").write_text("mine")
    assert "taken" in refused(run("channels", "--count", 2, "--out", "taken/below"))


def test_options_override_the_scenario_file(run: Run, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("workers: 3\nrate_min: [0.1, 0.2, 0.3]\npmax_dbw: -30\n")
    assert run("channels", "--count", 2, "--scenario", "mine.yaml", "--pmax-dbw", -10).status == 0
    expected = Scenario(workers=3, rate_min=(0.1, 0.2, 0.3), pmax_dbw=-10)
    assert metrics_of(tmp_path / "runs/channels")["scenario"] == expected.model_dump(mode="json")


def test_lists_and_none_on_the_command_line(run: Run, tmp_path: Path):
    options = ("--workers", 2, "--rate-min", "0.1,0.2", "--weights", "3,1")
    assert run("channels", "--count", 2, *options, "--coherence-time-s", "none").status == 0
    expected = Scenario(workers=2, rate_min=(0.1, 0.2), weights=(3, 1))
    assert metrics_of(tmp_path / "runs/channels")["scenario"] == expected.model_dump(mode="json")


def test_interrupt_while_the_commands_are_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    class Loading(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["feduplink", "evaluate"])
    name = "feduplink.cli.command_line"
    monkeypatch.setitem(sys.modules, name, Loading(name))
    assert __main__.main() == 130
    assert capsys.readouterr().err == "feduplink: interrupted.\n"


def interrupted(scenario: Scenario) -> None:
    """A channel model during whose making Ctrl-C is pressed."""
    raise KeyboardInterrupt


def test_interrupt_has_its_own_status(run: Run):
    ended = run("channels", "--channel-model", f"{__name__}:interrupted")
    assert ended.status == 130
    assert ended.err == "feduplink: interrupted.\n"


def test_python_dash_m(tmp_path: Path):
    ended = subprocess.run(
        [sys.executable, "-m", "feduplink", "channels", "--count", "no"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("feduplink: ")
    assert "Traceback" not in ended.stderr


def test_what_another_command_made_is_not_overwritten(run: Run, tmp_path: Path):
    assert run("channels", "--count", 3, "--workers", 2, "--out", "here").status == 0
    before = {path: path.read_bytes() for path in (tmp_path / "here").iterdir()}
    words = ("--policies", "max", "--workers", 2, "--channels-per-split", 3, "--out", "here")
    assert "contains a run of another command (feduplink channels" in refused(
        run("evaluate", *words)
    )
    assert {path: path.read_bytes() for path in (tmp_path / "here").iterdir()} == before
    assert run("channels", "--count", 4, "--workers", 2, "--out", "here").status == 0
