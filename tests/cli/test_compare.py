"""`lengthwise compare` from end to end, broken off and taken up again, and everything that it refuses."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from lengthwise.cli import compare as compare_module
from lengthwise.cli import main
from lengthwise.cli.compare import Compare
from lengthwise.cli.progress import Live
from lengthwise.errors import InvalidArgument, LengthwiseError
from lengthwise.lab import Experiment, Failure, Progress, Result, Sweep, find_results, run

SOURCE = Path(__file__).parents[2] / "src"
Cli = Callable[..., Any]
TINY = ["--dim", "16", "--layers", "1", "--heads", "2", "--batch", "4", "--train-length", "8", "--seeds", "1"]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "book.txt"
    path.write_text("".join(f"line {number}: {number * number} and naïve {number % 7}\n" for number in range(130)))
    return path


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


# --- from end to end ------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A comparison that was stopped by Ctrl-C and taken up again by the same command."""

    folder: Path
    arguments: list[str]
    stopped: subprocess.CompletedProcess[str]
    kept: list[Result]
    resumed: tuple[int, str, str]
    orphans: bool


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, book: Path) -> Job:
    folder = tmp_path_factory.mktemp("job")
    names = ["--encodings", "none", "rotary", "--tasks", "text", "sort", "--data", str(book)]
    places = ["--runs", str(folder / "runs"), "--report", str(folder / "report.html")]
    arguments = ["compare", *names, *TINY, "--steps", "100", "--jobs", "1", "--device", "cpu", *places]
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    child = subprocess.Popen(
        [sys.executable, "-c", "from lengthwise.cli import main; main()", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert until(lambda: bool(list(folder.glob("runs/*/result.json"))))
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to every process of the job
    out, err = child.communicate()
    orphans = not until(lambda: group_is_gone(child.pid), 10)
    stopped = subprocess.CompletedProcess(arguments, child.returncode, out, err)
    kept, _ = find_results([folder / "runs"])
    resumed = call(arguments)
    return Job(folder, arguments, stopped, kept, resumed, orphans)


def call(arguments: list[str]) -> tuple[int, str, str]:
    """The command in this process; `cli` can't serve fixtures of a module."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as left,
    ):
        main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code, out.getvalue(), err.getvalue()


def test_ctrl_c_leaves_with_code_130_a_line_that_says_how_to_go_on_and_no_traceback(job: Job) -> None:
    assert job.stopped.returncode == 130
    assert "Traceback" not in job.stopped.stderr + job.stopped.stdout
    last = job.stopped.stderr.splitlines()[-1]
    left = 4 - len(job.kept)
    assert last == (
        f"lengthwise: stopped with {left} of 4 runs not done; the same command goes on from here, "
        f"and 'lengthwise report {job.folder / 'runs'}' shows what is done"
    )
    assert "stopping: every run stores a checkpoint; Ctrl-C again ends them at once" in job.stopped.stderr
    assert not job.orphans


def test_ctrl_c_keeps_what_is_done_and_does_not_make_a_page_first(job: Job) -> None:
    assert 1 <= len(job.kept) < 4
    assert job.stopped.stdout == ""


def test_the_same_command_goes_on_and_ends_with_all_runs_a_table_and_a_report(job: Job) -> None:
    code, out, err = job.resumed
    assert code == 0
    results, unfinished = find_results([job.folder / "runs"])
    assert len(results) == 4
    assert not unfinished
    assert not list(job.folder.glob("runs/*/checkpoint*"))
    assert {result.metric for result in results} == {"bits_per_byte", "exact_match"}
    assert out.splitlines()[-1] == f"report: {(job.folder / 'report.html').as_uri()}"
    for word in ("none", "rotary", "trained at 8 bytes of text", "trained at 8 symbols to sort"):
        assert word in " ".join(out.split())
    assert err.splitlines()[0] == "4 runs on cpu, 400 steps in all"
    page = (job.folder / "report.html").read_text()
    assert "rotary" in page
    assert "bits per byte" in page
    assert f"lengthwise compare --encodings none rotary --tasks text sort --data {job.arguments[8]}" in page


def test_what_was_stored_before_ctrl_c_was_not_trained_again(job: Job) -> None:
    results, _ = find_results([job.folder / "runs"])
    assert all(result in results for result in job.kept)


def test_a_comparison_that_was_broken_off_has_the_numbers_of_one_that_was_not(job: Job, tmp_path: Path) -> None:
    results, _ = find_results([job.folder / "runs"])
    # The one that was under way comes next in the order in which they are run.
    order = sorted(results, key=lambda result: (result.metric == "exact_match", result.experiment.encoding))
    result = order[len(job.kept)]
    assert result not in job.kept
    whole = run(result.experiment, runs=tmp_path, device="cpu")
    assert (whole.scores, whole.losses) == (result.scores, result.losses)


def test_progress_off_a_terminal_is_one_line_a_run_without_control_characters(job: Job) -> None:
    _, out, err = job.resumed
    assert len(err.splitlines()) == 1 + 4
    shape = r"\[ ?\d+/4 +\d+s\] (text|sort).* (none|rotary) +seed 0  .+ at 8, .+ at 12, .*\(\d+s\)"
    assert all(re.fullmatch(shape, line) for line in err.splitlines()[1:])
    for stream in (out, err, job.stopped.stdout, job.stopped.stderr):
        assert not set(stream) & {"\x1b", "\r", "\b"}


def test_the_same_command_again_reads_all_runs_at_once_and_prints_the_same(job: Job) -> None:
    before = set(multiprocessing.active_children())
    started = time.monotonic()
    code, out, _ = call(job.arguments)
    assert time.monotonic() - started < 20
    assert not set(multiprocessing.active_children()) - before
    assert (code, out) == (0, job.resumed[1])


def test_report_writes_the_same_page_from_the_stored_runs(job: Job, cli: Cli, tmp_path: Path) -> None:
    called = cli("report", job.folder / "runs", "--output", tmp_path / "new" / "page.html")
    assert (called.code, called.err) == (0, "")
    # The sections of compare stand in the order of its tasks, those of report in the order of the folders.
    tables, same = (sorted(text.split("\nreport:")[0].splitlines()) for text in (called.out, job.resumed[1]))
    assert tables == same
    page = (tmp_path / "new" / "page.html").read_text()
    assert "rotary" in page
    assert "https://" not in page.split("<script")[0]


def test_report_leaves_out_runs_that_are_not_done_and_says_so(job: Job, cli: Cli, tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.mkdir()
    (half / "experiment.json").write_text("{}")
    called = cli("report", job.folder / "runs", half)
    assert called.code == 0
    assert called.err == f"lengthwise: {half} is not done and left out\n"
    alone = cli("report", half)
    assert alone.code == 2
    assert alone.err.splitlines()[-1] == f"lengthwise: no run in {half} is done: finish them with 'lengthwise compare'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "nowhere"), "nowhere does not exist: give a run folder, or the folder that holds them"),
        (("report", "."), ". holds no runs: make some with 'lengthwise compare'"),
        (("report",), "runs does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_report_without_runs_is_told(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    called = cli(*arguments)
    assert (called.code, called.out) == (2, "")
    assert called.err == f"lengthwise: {message}\n" or (len(arguments) == 1 and message in called.err)


def test_a_report_that_cannot_be_written_is_told_before_its_tables(job: Job, cli: Cli, tmp_path: Path) -> None:
    called = cli("report", job.folder / "runs", "--output", tmp_path)
    assert (called.code, called.out) == (2, "")
    assert called.err == f"lengthwise: can't write {tmp_path}: Is a directory; free space, or choose another place\n"


def test_a_damaged_run_is_told_by_report_and_by_compare(job: Job, cli: Cli, tmp_path: Path) -> None:
    (result,) = find_results([next((job.folder / "runs").glob("sort-none-*"))])[0]
    folder = tmp_path / "runs" / result.experiment.address
    folder.mkdir(parents=True)
    (folder / "experiment.json").write_text(json.dumps(result.experiment.as_dict()))
    (folder / "result.json").write_text(result.to_json()[:-40])
    called = cli("report", "runs")
    assert called.code == 2
    assert f"{folder.name}/result.json holds no result" in called.err
    assert called.err.count("\n") == 1


# --- what a sweep can't do ------------------------------------------------------------


def fake(outcome: Callable[[list[Experiment]], Sweep], calls: list[Any] | None = None) -> Callable[..., Sweep]:
    def sweep_instead(experiments: list[Experiment], **given: Any) -> Sweep:
        if calls is not None:
            calls.append((experiments, given))
        return outcome(experiments)

    return sweep_instead


def test_runs_that_fail_are_told_with_their_number_and_the_first_message(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failures(experiments: list[Experiment]) -> Sweep:
        return Sweep([], [Failure(one, "disk full", "the traceback") for one in experiments], False)

    monkeypatch.setattr(compare_module, "sweep", fake(failures))
    called = cli("compare", "--tasks", "sort", "--encodings", "none", "alibi", *TINY)
    assert called.code == 2
    assert re.search(r"lengthwise: 2 of 2 runs failed; first sort-none-s0-\w+: disk full\n$", called.err)
    assert "the traceback" not in called.err
    assert "the traceback" in cli("compare", "--tasks", "sort", "--encodings", "none", *TINY, "-v").err


def test_ctrl_c_after_the_last_run_is_too_late_to_stop_anything(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    results = [result for result in find_results([job.folder / "runs"])[0] if result.metric == "exact_match"]
    monkeypatch.setattr(compare_module, "sweep", fake(lambda _: Sweep(results, [], True)))
    called = cli("compare", "--tasks", "sort", "--encodings", "none", "rotary", *TINY)
    assert called.code == 0
    assert "report: file://" in called.out


def test_a_killed_worker_leaves_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> Sweep:
        raise LengthwiseError("a worker process was killed")

    monkeypatch.setattr(compare_module, "sweep", killed)
    called = cli("compare", "--tasks", "sort", "--encodings", "none", *TINY)
    assert called.code == 2
    assert called.err.splitlines()[-1] == "lengthwise: a worker process was killed"


# --- what is asked for ------------------------------------------------------------


def experiments(**changes: Any) -> list[Experiment]:
    settings: dict[str, Any] = {"tasks": ("sort",), "encodings": ("none",), "seeds": 1}
    return Compare(**{**settings, **changes}).experiments()


def test_the_defaults_are_six_encodings_on_text_and_sort_with_two_seeds_tested_past_the_trained_length() -> None:
    made = Compare().experiments()
    assert len(made) == 6 * 2 * 2
    assert {one.encoding for one in made} == {"none", "learned", "sinusoidal", "t5", "alibi", "rotary"}
    lengths = {one.task.split("(")[0]: (one.train_length, one.test_lengths) for one in made}
    assert lengths.keys() == {"text", "sort"}
    for trained, tests in lengths.values():
        assert {trained, trained * 3 // 2, trained * 2, trained * 4} <= set(tests)
    # A sweep that is broken off has some of each encoding: the first seed of all comes first.
    assert [one.seed for one in made if one.task != "text"] == [0] * 6 + [1] * 6
    assert all(one.data for one in made)


def test_test_lengths_are_sorted_and_each_is_tested_once() -> None:
    (one,) = experiments(train_length=10, test_lengths=(40, 10, 20, 10))
    assert one.test_lengths == (10, 20, 40)


def test_test_lengths_below_the_trained_one_are_taken_as_given() -> None:
    (one,) = experiments(train_length=10, test_lengths=(20, 5))
    assert one.test_lengths == (5, 20)


def test_a_name_given_twice_is_run_once() -> None:
    made = experiments(tasks=("sort", "copy", "sort"), encodings=("none", " none", "alibi", "none"))
    assert [(one.task, one.encoding) for one in made] == [
        ("sort", "none"),
        ("sort", "alibi"),
        ("copy", "none"),
        ("copy", "alibi"),
    ]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_shortest_lengths_get_rising_test_lengths(length: int) -> None:
    (one,) = experiments(train_length=length)
    assert one.test_lengths[0] == length
    assert one.test_lengths[-1] == 4 * length


def test_one_step_is_enough_to_train_and_to_report(cli: Cli, monkeypatch: pytest.MonkeyPatch, book: Path) -> None:
    # In this process: starting another one takes longer than all of it.
    def here(given: list[Experiment], *, runs: Path, device: str, on_done: Any, **_: object) -> Sweep:
        results = [run(one, runs=runs, device=device) for one in given]
        for index, result in enumerate(results):
            on_done(index, result)
        return Sweep(results, [], False)

    monkeypatch.setattr(compare_module, "sweep", here)
    arguments = ("--encodings", "none", "learned", *TINY, "--steps", "1", "--data", book, "--train-length", "4")
    called = cli("compare", *arguments)
    assert called.code == 0
    assert "report: file://" in called.out
    assert called.err.count("\n") == 1 + 4
    # A run that diverged is reported too.
    called = cli("compare", *arguments, "--tasks", "text", "--learning-rate", "1e30", "--steps", "5")
    assert called.code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--encodings", "rotory"), "unknown encoding 'rotory': did you mean 'rotary'?"),
        (("--tasks", "srot"), "unknown task 'srot': did you mean 'sort'?"),
        (("--encodings", "rotary(base=)"), "the spec does not parse here: rotary(base=»)"),
        (("--encodings", "rotary(bse=3)"), "'rotary' has no parameter 'bse': did you mean 'base'?"),
        (("--encodings",), "name at least one encoding and one task; 'lengthwise list' shows them"),
        (("--heads", "3"), "3 heads do not divide dim 64: choose for example dim 48"),
        (("--dim", "12", "--heads", "4", "--encodings", "rotary"), "even"),
        (("--dim", "0"), "dim must be at least 1, not 0"),
        (("--layers", "0"), "layers must be at least 1, not 0"),
        (("--train-length", "0"), "train_length must be a whole number of at least 1, not 0"),
        (("--test-lengths", "0", "10"), "test_lengths must be positive whole numbers, at least one; not (0, 10)"),
        (("--tasks", "text", "--train-length", "1"), "must be a whole number of at least 2, not 1"),
        (("--tasks", "text", "--test-lengths", "1", "20"), "must be a whole number of at least 2, not 1"),
        (("--tasks", "text", "--data", "BOOK", "--test-lengths", "99999"), "give more text or choose a shorter length"),
        (("--tasks", "text", "--data", "BOOK", "--train-length", "99999"), "give more text or choose a shorter length"),
        (("--tasks", "text", "--data", "missing.txt"), "there is no file or folder '"),
        (("--tasks", "text", "--data", "empty.txt"), "empty.txt' is empty"),
        (("--tasks", "text", "--data", "binary"), "binary' is binary, not UTF-8 text"),
        (("--tasks", "text", "--data", "short.txt"), "gives 5 bytes of text, and at least 1000 are needed"),
        (("--tasks", "text", "--data", "folder"), "folder' holds no files (hidden ones are passed over)"),
        (("--tasks", "sort", "--data", "BOOK"), "--data is read by the task text: add it to --tasks"),
        (("--seeds", "0"), "--seeds must be at least 1, not 0"),
        (("--jobs", "-1"), "--jobs must be at least 0, not -1"),
        (("--steps", "0"), "steps must be a whole number of at least 1, not 0"),
        (("--batch", "0"), "batch must be a whole number of at least 1, not 0"),
        (("--learning-rate", "0"), "learning_rate must be above 0 and finite, not 0.0"),
        (("--learning-rate", "nan"), "learning_rate must be above 0 and finite, not nan"),
        (("--device", "nonsense"), "device 'nonsense' can't be used here"),
        (("--device", "cuda:77"), "device 'cuda:77' can't be used here"),
        (("--runs", "short.txt"), "can't write short.txt: Not a directory"),
        (("--runs", "short.txt/runs"), "can't write short.txt/runs: Not a directory"),
        (("--report", "short.txt/page.html"), "can't write short.txt/page.html: Not a directory"),
        (("--report", "folder"), "can't write folder: Is a directory"),
        (("--report", "/proc/page.html"), "can't write /proc/page.html: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_work_is_told_in_one_line_before_training_starts(
    cli: Cli, tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "short.txt").write_text("short")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "folder").mkdir()
    calls: list[Any] = []
    monkeypatch.setattr(compare_module, "sweep", fake(lambda _: Sweep([], [], False), calls))
    given = [str(book) if word == "BOOK" else word for word in arguments]
    defaults = [] if "--tasks" in given else ["--tasks", "sort"]
    called = cli("compare", *defaults, *given)
    assert called.code == 2
    assert message in called.err
    assert called.err.count("\n") == 1
    assert called.out == ""
    assert not calls


def test_progress_and_outcomes_are_counted_on_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    made = experiments(encodings=("none", "alibi"), steps=2000)
    with Live(made, torch.device("cpu")) as live:
        for step in range(1, 4):
            live.progress(0, Progress("train", step, 2000, 1.5))
        live.progress(0, Progress("test", 2000, 2000, 0.5))
        live.done(0, Failure(made[0], "it broke", "traceback"))
        live.done(1, Failure(made[1], "a very long message " * 20, "traceback"))
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "2 runs on cpu, 4000 steps in all"
    assert re.fullmatch(r"\[ 1/2 +0s\] sort   none +seed 0  failed: it broke", lines[1])
    assert len(lines) == 3


def test_a_folder_of_data_that_holds_the_runs_and_the_page_is_read_without_them(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("It was a dark and stormy night. " * 1000)
    verb = Compare(data=(tmp_path,), runs=tmp_path / "runs", report=tmp_path / "page.html", tasks=("text",))
    first = {one.address for one in verb.experiments()}
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "result.json").write_text("{}" * 1000)
    (tmp_path / "page.html").write_text("<p>" * 1000)
    assert {one.address for one in verb.experiments()} == first


def test_heads_that_do_not_fit_the_encoding_are_told_before_training() -> None:
    with pytest.raises(InvalidArgument, match="query heads"):
        Compare(encodings=("alibi(heads=7)",), tasks=("sort(symbols=8)",)).experiments()
