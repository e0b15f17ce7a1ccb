"""Sweeps: one simulation for each row, the same with Spark and without, whatever becomes of a run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sweep_experiments import HERE
from tidings.cli.program import run as run_program
from tidings.cli.sweep import combinations
from tidings.model.errors import UsageError
from tidings.sim.library import find
from tidings.sim.order import replay
from tidings.spark.sweeps import Outcome, Progress, Run, read_results, run_here, runs_frame, sweep
from tidings.spark.sweeps.death import SILENT, WorkerDied, last_words, meaning
from tidings.spark.sweeps.pace import WAVE_GROWTH_MAX, WAVE_SECONDS, Pace, SweepTally
from tidings.spark.sweeps.provenance import definition_digest
from tidings.spark.sweeps.run import distinct_runs, parse_run, run_of_row
from tidings.trace.reader import read_trace
from tidings.trace.record import Record

TOSSES, KINDS, FAILS, WAITS, ENDS_ALL = (f"{HERE}:{name}" for name in ("tosses", "kinds", "fails", "waits", "ends_all"))

PARAMETERS = st.dictionaries(
    st.text(max_size=5), st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
RUNS = st.builds(Run, st.text(min_size=1), st.text(), PARAMETERS, st.integers(-(2**63), 2**63 - 1))


def small_runs() -> list[Run]:
    gossip = [
        Run("gossip", f"{nodes} nodes", {"nodes": nodes, "events": 3}, seed) for nodes in (3, 4) for seed in (0, 7)
    ]
    return [
        *gossip,
        *[Run(TOSSES, "fair", {"tosses": tosses}, 1) for tosses in (20, 21)],
        Run(TOSSES, "fair"),
        Run("ping"),
    ]


def perform_here(runs: list[Run], folder: Path) -> list[Outcome]:
    folder.mkdir()
    return [run_here(run, trace_of(folder, run)) for run in runs]


def trace_of(folder: Path, run: Run) -> Path:
    return folder / f"{run.id}.parquet"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def records_of(rows: DataFrame) -> dict[str, list[Record]]:
    """Of each run, in the order in which they stand in the table."""
    found: dict[str, list[Record]] = {}
    for row in rows.collect():
        found.setdefault(row.run, []).append(Record(**row.asDict()))
    return found


def writing_times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}


def without_time(outcome: Outcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in outcome.__struct_fields__ if name != "seconds"}


@pytest.fixture(autouse=True)
def started_in_the_repository(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Which is where experiments are looked for."""
    monkeypatch.chdir(root)


# What a run is.


@given(RUNS)
def test_a_run_is_told_and_read_in_the_same_way(run: Run) -> None:
    assert parse_run(run.text()) == run
    assert run_of_row(run.experiment, run.variant, run.parameters_text, run.seed) == run


@given(RUNS)
def test_an_identity_is_a_short_name_of_a_folder(run: Run) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,150}", run.id)


def test_runs_that_differ_in_anything_have_different_identities() -> None:
    runs = [
        *(Run("a"), Run("b"), Run("a", "b"), Run("a", "", {}, 1), Run("a/b", "c"), Run("a", "b/c"), Run("a b", "c")),
        *[Run("a", "", {"x": value}) for value in (1, 1.0, True, "1", "true", "", 2, -1, "01")],
        *(Run("a", "", {"y": 1}), Run("a", "", {"x": 1, "y": 1}), Run("a", "", {"x": 1}, 1), Run("a", "", {}, -1)),
    ]
    assert len({run.id for run in runs}) == len(runs)
    assert len(distinct_runs([*runs, *runs])) == len(runs)


def test_an_identity_is_always_the_same_whatever_the_order_of_parameters() -> None:
    run = Run("path/to/outage.toml", "two nodes", {"b": 2, "a": "x"}, 7)
    assert run.id == Run("path/to/outage.toml", "two nodes", {"a": "x", "b": 2}, 7).id
    assert run.id == "path-to-outage-toml-two-nodes-84fee036556d-7"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("",), "without an experiment"),
        (("a", "", {}, 2**63), "seed"),
        (("a", "", {}, True), "seed"),
        (("a", "", {"x": float("nan")}), "parameter x is nan"),
        (("a", "", {"x": [1]}), "parameter x"),
    ],
)
def test_a_run_that_a_row_cannot_hold_is_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Run(*arguments)


def test_parameters_of_a_row_that_are_no_object_are_refused() -> None:
    with pytest.raises(UsageError, match="JSON object"):
        run_of_row("a", None, "[1]", 0)
    assert run_of_row("a", None, None, 0) == Run("a")


# One run, without Spark.


def test_a_run_is_the_same_wherever_and_whenever_it_is_performed(tmp_path: Path) -> None:
    first = perform_here(small_runs(), tmp_path / "one")
    again = perform_here(small_runs()[::-1], tmp_path / "other")
    assert [without_time(each) for each in first] == [without_time(each) for each in reversed(again)]
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "other")
    assert all(each.status == "ok" and each.measures for each in first)


def test_the_order_of_parameters_does_not_matter(tmp_path: Path) -> None:
    run_here(Run("gossip", "", {"nodes": 3, "events": 2}), tmp_path / "one.parquet")
    run_here(Run("gossip", "", {"events": 2, "nodes": 3}), tmp_path / "other.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "other.parquet").read_bytes()


def test_the_trace_of_a_scenario_can_be_replayed_and_names_the_run(tmp_path: Path) -> None:
    run = Run("gossip", "", {"nodes": 3, "events": 2}, 5)
    outcome = run_here(run, tmp_path / "trace.parquet")
    replayed = replay(tmp_path / "trace.parquet")
    assert replayed.is_same and replayed.result.counters.delivered == outcome.measures["delivered"]
    assert {record.run for record in read_trace(tmp_path / "trace.parquet")} == {run.id}


def test_without_traces_the_measures_are_the_same(tmp_path: Path) -> None:
    traced = perform_here(small_runs(), tmp_path / "traced")
    for run, outcome in zip(small_runs(), traced, strict=True):
        assert {**without_time(run_here(run)), "traced": True} == without_time(outcome)


def test_text_that_looks_like_a_number_stays_text() -> None:
    outcome = run_here(Run(KINDS, "", {"a": "007", "b": 7, "c": "1e3", "d": "true", "e": True}))
    assert outcome.measures == {"a": 1, "b": 0, "c": 1, "d": 1, "e": 0}


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (Run(FAILS, "raises"), r"KeyError: 'a' \(sweep_experiments.py, line \d+, in fails\)"),
        (Run(FAILS, "leaves"), "SystemExit: enough"),
        (Run(FAILS, "cancels"), "BaseException: not even an exception"),
        (Run(FAILS, "text"), "measure 'heads' is 'many'"),
        (Run(FAILS, "nothing"), "numbers by name, this one with None"),
        (Run("gosip"), "there is no scenario 'gosip'; built in are"),
        (Run("nowhere.to.be:found"), "there is no module 'nowhere' .* start in the folder that it is in"),
        (Run(f"{HERE}:nothing"), "has no function 'nothing'"),
        (Run("nowhere.toml"), "there is no file .*nowhere.toml"),
        (Run("nowhere.py:scenario"), "there is no file .*nowhere.py"),
        (Run("gossip", "", {"nods": 3}), "has no setting 'nods'"),
        (Run("gossip", "", {"nodes": "three"}), "nodes|three|TypeError"),
        (Run("tests/scenarios/broken.py:gossip_that_asks_once", "", {"nodes": 4}), r"convergence: event .* \(t="),
    ],
    ids=lambda value: value.variant or value.experiment if isinstance(value, Run) else "",
)
def test_a_run_that_fails_says_why(run: Run, words: str) -> None:
    outcome = run_here(run)
    assert (outcome.status, outcome.measures, outcome.seed) == ("failed", {}, 0)
    assert re.search(words, outcome.error), outcome.error


def test_the_trace_of_a_run_that_failed_is_kept(tmp_path: Path) -> None:
    run_here(Run(FAILS, "raises"), tmp_path / "trace.parquet")
    assert [record.message for record in read_trace(tmp_path / "trace.parquet")] == ["so far so good"]


def test_a_long_error_loses_its_middle() -> None:
    error = run_here(Run("x" * 10_000)).error
    assert len(error) < 5000 and error.startswith("there is no scenario") and error.endswith("mine.py:function")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As a person types it whose python is ours."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_command_of_a_run_performs_it_again_to_the_byte(tmp_path: Path, root: Path) -> None:
    run = Run(TOSSES, 'it\'s "quoted" $HOME;', {"note": "a 'b' \\", "tosses": 12}, -4)
    outcome = run_here(run, tmp_path / "trace.parquet")
    done = shell(f"{outcome.replay} --trace {tmp_path / 'again.parquet'}", root)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  heads = {outcome.measures['heads']}" in done.stdout and f"run        {run.id}" in done.stdout
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "trace.parquet").read_bytes()


def test_the_command_of_a_run_that_failed_fails_again(root: Path) -> None:
    outcome = run_here(Run("gossip", "", {"nods": 3}, 5))
    done = shell(outcome.replay, root)
    assert done.returncode == 1
    assert f"error      {outcome.error}" in done.stdout and "seed       5" in done.stdout


def test_a_command_without_a_run_says_so(root: Path) -> None:
    done = shell("python -m tidings.spark.sweeps.replay gossip", root)
    assert (done.returncode, done.stdout) == (2, "") and "'gossip' is no run" in done.stderr


def test_progress_counts_what_is_done() -> None:
    tally = SweepTally(["a", "b", "c"])
    assert tally.progress() == Progress(total=3, done=0, failed=0, seconds_left=None)
    tally.done("a", "ok")
    tally.done("b", "failed")
    told = tally.progress()
    assert (told.done, told.failed, list(tally.waiting)) == (2, 1, ["c"])
    assert told.seconds_left is not None and told.seconds_left > 0


# How much a wave and a task have of a sweep.


def test_the_first_wave_has_a_run_for_each_core_and_later_ones_take_some_seconds() -> None:
    pace = Pace(cores=4)
    assert pace.wave() == 4
    pace.learn([0.01] * 4)
    assert pace.wave() == 4 * WAVE_GROWTH_MAX, "a few quick ones do not tell of all"
    pace.learn([0.01] * 256)
    assert pace.wave() == int(WAVE_SECONDS * 4 / 0.01)
    pace.learn([1000.0] * 10)
    assert pace.wave() == 4, "no core is left without a run"


def test_quick_runs_are_many_to_a_task_and_every_core_has_one() -> None:
    pace, runs = Pace(cores=2), [Run("a", "", {}, seed) for seed in range(100)]
    assert [len(task) for task in pace.tasks(runs)] == [1] * 100, "nothing is known"
    pace.learn([0.1] * 10)
    assert [len(task) for task in pace.tasks(runs)] == [10] * 10
    pace.learn([0.0001] * 1000)
    assert [len(task) for task in pace.tasks(runs)] == [50, 50]
    assert [len(task) for task in Pace(cores=2, runs_per_task=40).tasks(runs)] == [40, 40, 20]
    assert [run for task in pace.tasks(runs) for run in task] == runs


# What Spark says of workers that died.

CRASH = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 2 times, most recent failure: Lost task 0.1 in \
stage 1.0 (TID 3) (localhost executor driver): org.apache.spark.SparkException: Python worker exited unexpectedly \
(crashed): Fatal Python error: Segmentation fault

Current thread 0x00007f640edfeb80 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/me/mine.py", line 7 in <module>

Extension modules: numpy (total: 1)
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:550)
"""
LOST = (
    "Lost task 0.3 in stage 0.0 (TID 6): ExecutorLostFailure (executor 1 exited caused by one of "
    "the running tasks) Reason: Command exited with code 137\nDriver stacktrace:"
)


def test_last_words_of_a_worker_are_short() -> None:
    assert (
        last_words(CRASH) == "Segmentation fault <- __init__.py, line 519, in string_at <- mine.py, line 7, in <module>"
    )
    assert last_words(LOST) == "Command exited with code 137"
    assert last_words("Python worker exited unexpectedly (crashed)") == SILENT
    dead = meaning(RuntimeError(CRASH))
    assert isinstance(dead, WorkerDied) and dead.task == 0


def test_a_death_a_refusal_and_a_problem_of_spark_are_told_apart() -> None:
    own = ValueError("no more slots")
    assert isinstance(meaning(RuntimeError(CRASH)), WorkerDied) and meaning(own) is own
    refused = meaning(RuntimeError("Traceback:\ntidings.model.errors.UsageError: name another folder\n\tat java"))
    assert isinstance(refused, UsageError) and str(refused) == "name another folder"


# On Spark.


@pytest.mark.spark
@pytest.mark.parametrize("runs_per_task", [8, 3, None])
def test_a_sweep_is_the_same_as_its_runs_alone_however_it_is_cut(
    spark: SparkSession, tmp_path: Path, runs_per_task: int | None
) -> None:
    alone = perform_here(small_runs(), tmp_path / "alone")
    done = sweep(spark, [*small_runs(), *small_runs()[::3]], tmp_path / "out", runs_per_task=runs_per_task)
    assert (done.runs, done.failed, done.skipped, done.outdated) == (8, 0, 0, 0)
    rows = {row.run: row.asDict() for row in done.results.drop("seconds").collect()}
    assert rows == {outcome.run: without_time(outcome) for outcome in alone}
    assert records_of(done.traces) == {
        run.id: list(read_trace(trace_of(tmp_path / "alone", run))) for run in small_runs()
    }


@pytest.mark.spark
def test_runs_come_as_a_table_and_results_and_traces_go_as_tables(spark: SparkSession, tmp_path: Path) -> None:
    runs = [Run(TOSSES, "fair", {"tosses": tosses, "note": "7"}, seed) for tosses in (3, 5) for seed in (9, 8)]
    table = runs_frame(spark, [*runs, runs[0]])
    assert table.columns == ["experiment", "variant", "parameters", "seed"]
    assert table.first().parameters == '{"note":"7","tosses":3}'
    told: list[Progress] = []
    done = sweep(spark, table.repartition(3), tmp_path, progress=told.append)
    rows = done.results.collect()
    assert [(row.parameters, row.seed) for row in rows] == sorted((run.parameters_text, run.seed) for run in runs)
    assert dict(done.results.dtypes) == {
        **dict.fromkeys(["run", "experiment", "variant", "parameters", "status", "error", "replay"], "string"),
        **{"seed": "bigint", "seconds": "double", "measures": "map<string,double>", "traced": "boolean"},
        **dict.fromkeys(["definition", "version", "commit", "pyspark", "numpy"], "string"),
    }
    assert sorted(
        (row.run, row.seed, row["count"]) for row in done.traces.groupBy("run", "seed").count().collect()
    ) == (sorted((run.id, run.seed, run.parameters["tosses"]) for run in runs))
    assert (told[0].done, told[-1].done, told[-1].total, told[-1].seconds_left) == (0, 4, 4, 0)


@pytest.mark.spark
def test_runs_that_fail_and_workers_that_die_are_rows_of_a_sweep_that_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    variants = ["raises", "leaves", "exits", "cancels", "crashes"]
    failing = [Run(FAILS, variant, {}, 3) for variant in variants]
    fine = [Run(TOSSES, "", {}, seed) for seed in range(4)]
    done = sweep(spark, [*failing, Run("gosip"), *fine], tmp_path, runs_per_task=2)
    rows = {row.run: row for row in done.results.collect()}
    assert (done.runs, done.failed, len(rows)) == (10, 6, 10)
    assert [rows[run.id].status for run in fine] == ["ok"] * 4
    errors = {run.variant: rows[run.id].error for run in failing}
    assert errors["raises"].startswith("KeyError") and errors["leaves"] == run_here(failing[1]).error
    assert errors["exits"] == f"the worker died, also with nothing else to do: {SILENT}"
    assert re.search("died.*Segmentation fault <- .*sweep_experiments.py, line", errors["crashes"])
    assert all(rows[run.id].replay == run.replay and rows[run.id].seed == 3 for run in failing)
    kept = {row.run for row in done.traces.where("message = 'so far so good'").collect()}
    assert kept == {run.id for run in failing if run.variant not in ("exits", "crashes")}

    untouched = writing_times(tmp_path)
    again = sweep(spark, [*failing, *fine], tmp_path, retry_failed=False)
    assert (again.failed, again.skipped) == (5, 9) and again.results.count() == 9
    assert writing_times(tmp_path) == untouched


@pytest.mark.spark
def test_what_is_finished_is_not_performed_again(spark: SparkSession, tmp_path: Path) -> None:
    finished = [Run(TOSSES, "", {}, seed) for seed in range(3)]
    assert sweep(spark, finished[:2], tmp_path).skipped == 0
    assert sweep(spark, [finished[2], Run(FAILS, "raises")], tmp_path, traces=False).failed == 1
    before = writing_times(tmp_path)
    done = sweep(spark, [*finished, Run(TOSSES, "", {}, 9), Run(FAILS, "raises")], tmp_path)
    assert (done.runs, done.failed, done.skipped) == (5, 1, 2)
    assert before.items() < writing_times(tmp_path).items()
    traced = [row.run for row in done.traces.where("message <> 'so far so good'").select("run").distinct().collect()]
    assert sorted(traced) == sorted(run.id for run in [*finished, Run(TOSSES, "", {}, 9)])
    assert done.results.count() == 5, "a run that was performed twice counts once"
    assert done.traces.where(f"run = '{finished[2].id}'").count() == 20


@pytest.mark.spark
def test_runs_of_an_experiment_that_was_changed_are_performed_anew_and_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    head = "def answer(variant, parameters, seed, trace):\n"
    module = tmp_path / "changing_experiment.py"
    runs = [Run("changing_experiment:answer", "", {}, seed) for seed in (1, 2)]

    def swept(text: str) -> tuple[int, int, set[float]]:
        module.write_text(text)
        done = sweep(spark, runs, tmp_path / "out")
        definitions = {row.definition for row in done.results.collect()}
        assert definitions == {definition_digest(runs[0].experiment, tmp_path)}
        return done.skipped, done.outdated, definitions

    assert swept(f"{head}    return {{'answer': 1}}\n")[:2] == (0, 0)
    commented = f"# A remark.\n{head}    'A sentence.'\n    return {{'answer': 1}}\n"
    assert swept(commented)[:2] == (2, 0), "a remark changes nothing"
    assert swept(f"{head}    return {{'answer': 2}}\n")[:2] == (0, 2)


@pytest.mark.spark
def test_an_interrupted_sweep_ends_its_jobs_and_goes_on_later(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    free = [Run(WAITS, "", {"gate": ""}, seed) for seed in range(spark.sparkContext.defaultParallelism)]
    runs = [*free, *[Run(WAITS, "", {"gate": str(gate)}, seed) for seed in range(4)]]

    def interrupt(told: Progress) -> None:
        if told.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(spark, runs, tmp_path / "out", progress=interrupt)
    assert {row.run for row in read_results(spark, tmp_path / "out").collect()} == {run.id for run in free}
    gate.unlink()
    gate.touch()
    done = sweep(spark, runs, tmp_path / "out")
    assert (done.runs, done.failed, done.results.count(), done.skipped) == (len(runs), 0, len(runs), len(free))


SWEEP_SCRIPT = f"""
import sys
from tidings.spark.session import open_session
from tidings.spark.sweeps import Run, sweep
spark = open_session("local[1]", java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
sweep(spark, [Run({ENDS_ALL!r}, "", {{"mark": sys.argv[2]}}, seed) for seed in range(6)], sys.argv[1])
"""


@pytest.mark.spark
def test_a_sweep_that_is_killed_keeps_the_waves_that_were_finished(
    spark: SparkSession, tmp_path: Path, root: Path
) -> None:
    mark, folder = tmp_path / "mark", tmp_path / "out"
    killed = subprocess.run(
        [sys.executable, "-c", SWEEP_SCRIPT, str(folder), str(mark)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}"},
        start_new_session=True,
        capture_output=True,
    )
    assert killed.returncode == -9, killed.stderr.decode()
    runs = [Run(ENDS_ALL, "", {"mark": str(mark)}, seed) for seed in range(6)]
    before, kept = writing_times(folder), {row.run for row in read_results(spark, folder).collect()}
    assert {runs[0].id} <= kept <= {run.id for run in runs[:3]}, "whole waves"
    done = sweep(spark, runs, folder)
    assert (done.failed, done.skipped, done.results.where("status = 'ok'").count()) == (0, len(kept), 6)
    assert before.items() < writing_times(folder).items()


# The command.


def test_settings_are_combined_and_variants_named_by_what_differs() -> None:
    found = combinations(find("gossip"), {"events": 5}, ["nodes=3,4,3", "loss=0,0.5"])
    assert [variant for variant, _ in found] == [f"nodes={n} loss={loss}" for n in (3, 4) for loss in (0.0, 0.5)]
    assert found[1][1] == {"events": 5, "nodes": 3, "loss": 0.5}
    assert combinations(find("gossip"), {}, []) == [("", {})]


@pytest.mark.parametrize("vary", ["nodes", "nods=1,2", "nodes=1,x", "events=2"])
def test_what_cannot_be_varied_is_refused_before_spark_starts(vary: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["sim", "sweep", "gossip", "--folder", "out", "--set", "events=1", "--vary", vary]) == 2
    assert vary.partition("=")[0] in capsys.readouterr().err


@pytest.mark.spark
def test_the_command_prints_means_failures_and_how_to_have_them_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sim", "sweep", "gossip", "--seeds", "2", "--set", "events=3", "--vary", "nodes=3,4"]
    words += ["--folder", str(tmp_path / "out")]
    assert run_program([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(each["variant"], each["runs"], each["failed"]) for each in answer["variants"]] == [
        *(("nodes=3", 2, 0), ("nodes=4", 2, 0))
    ]
    alone = [run_here(Run("gossip", "nodes=3", {"events": 3, "nodes": 3}, seed)) for seed in (0, 1)]
    assert answer["variants"][0]["measures"]["sent"] == sum(each.measures["sent"] for each in alone) / 2
    assert run_program(words) == 0
    text = capsys.readouterr().out
    assert "runs       4, none failed, 4 finished before" in text
    assert re.search(r"^variant +runs +failed +delivered", text, re.MULTILINE)

    broken = "tests/scenarios/broken.py:gossip_that_asks_once"
    assert (
        run_program(["sim", "sweep", broken, "--seeds", "1", "--set", "nodes=4", "--folder", str(tmp_path / "b")]) == 1
    )
    text = capsys.readouterr().out
    assert "failed      seed 0: convergence" in text and f"again      {Run(broken, '', {'nodes': 4}).replay}" in text
