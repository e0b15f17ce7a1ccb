"""Sweeps: one experiment under many parameters and seeds, one simulation for each row of a table.

    from tidings.spark.session import open_session
    from tidings.spark.sweeps import Run, sweep

    runs = [Run("gossip", f"{nodes} nodes", {"nodes": nodes}, seed) for nodes in (10, 20) for seed in range(20)]
    done = sweep(open_session(), runs, "out")
    done.results.where("status = 'ok'").select("variant", "seed", "measures.sent").show()
    done.traces.where("kind = 'deliver'").groupBy("run").count().show()

A *run* is all that decides a simulation: what is run, under which parameters, with which seed (`run.py`). A run that
nobody shares anything with needs no coordination, so a sweep is the simplest job there is: Spark hands one run to each
task, and the worker performs it as it would be performed without Spark (`performer.py`). What comes of it are rows,
those of its trace and one of results, which Spark writes into one table wherever it can write (`table.py`). A sweep is
cut into waves of some seconds, so whatever ends it, all but the last waves are in the folder, and the next sweep into
the same folder does only what is missing (`sweep.py`). Each result says what it was made with, and results of another
definition of the experiment are not taken for results of this one (`provenance.py`).

A run that fails is a row too, with the error and a command that performs this one run again, in one process and without
Spark. That holds for exceptions, for checkers that find something, and for runs whose worker dies.

Everything a run knows comes from its row. So the results are the same on one core, on a cluster and in `run_here`.
"""

from tidings.spark.sweeps.pace import Progress
from tidings.spark.sweeps.performer import run_here
from tidings.spark.sweeps.run import Outcome, Parameter, Run
from tidings.spark.sweeps.sweep import Sweep, sweep
from tidings.spark.sweeps.table import read_results, read_traces, runs_frame

__all__ = [
    "Outcome",
    "Parameter",
    "Progress",
    "Run",
    "Sweep",
    "read_results",
    "read_traces",
    "run_here",
    "runs_frame",
    "sweep",
]
