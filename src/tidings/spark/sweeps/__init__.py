"""Sweeps: one experiment under many parameters and seeds, one simulation for each row of a table.

    from tidings.spark.session import open_session
    from tidings.spark.sweeps import Run, sweep

    runs = [Run("gossip", f"{nodes} nodes", {"nodes": nodes}, seed) for nodes in (10, 20) for seed in range(20)]
    done = sweep(open_session(), runs, "out")
    done.results.where("status = 'ok'").select("variant", "seed", "measures.sent").show()
    done.traces.where("kind = 'deliver'").groupBy("run").count().show()

A *run* is all that decides a simulation: what is run, under which parameters, with which seed (`run.py`). A run that
nobody shares anything with needs no coordination, so a sweep is the simplest job there is: Spark hands one run to each
task, and the worker performs it as it would be performed without Spark (`performer.py`). What comes of it goes into
files that the run alone writes (`folder.py`): its trace, and when everything is done, one row of results. Nothing is
held back until the end of the job, so whatever ends a sweep, all that was finished is in the folder, and the next sweep
into the same folder does only what is missing (`sweep.py`).

A run that fails is a row too, with the error and a command that performs this one run again, in one process and without
Spark. That holds for exceptions, for checkers that find something, and for runs whose worker dies.

Everything a run knows comes from its row. So the results are the same on one core, on a cluster and in `run_here`.
"""

from tidings.spark.sweeps.folder import Progress, read_results, read_traces, runs_frame
from tidings.spark.sweeps.performer import run_here
from tidings.spark.sweeps.run import Outcome, Parameter, Run
from tidings.spark.sweeps.sweep import Sweep, sweep

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
