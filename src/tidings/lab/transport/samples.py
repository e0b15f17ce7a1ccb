"""From traces to samples, with Spark; and from the samples of each run to figures, with numpy.

Spark selects: which deliveries, which pairs of them, how many in each span of time. What is left of a run is a few
thousand numbers, and those are measured in one piece by a plain function of arrays (`Measure`), wherever Spark has put
them, since fits and tests have no form in SQL. Rows come to it in no particular order.
"""

import json
from collections.abc import Callable
from typing import Any

from tidings.lab.experiment import DataFrame
from tidings.lab.figures import summarise
from tidings.lab.transport.substrate import WARM_UP
from tidings.model.identity import NodeId

Columns = dict[str, Any]
"""Arrays by name, all of one length."""

Figure = tuple[str, str, float]
"""Name, group and value."""

Measure = Callable[[Columns], list[Figure]]

DELIVERED = "accepted_at DOUBLE, publisher STRING, number BIGINT"


def subscriber_name(broker: NodeId, subscription: int) -> NodeId:
    return f"{broker}.c{subscription:02}"


def by_subscriber(traces: DataFrame) -> DataFrame:
    """What is delivered at a dispatcher is delivered at one of its subscribers, for metrics count nodes."""
    from pyspark.sql import functions as F

    subscription = F.get_json_object("detail", "$.subscription").cast("int")
    name = F.format_string("%s.c%02d", "node", subscription)
    return traces.withColumn("node", F.when(F.expr("kind = 'deliver'"), name).otherwise(F.col("node")))


def arrivals(traces: DataFrame) -> DataFrame:
    """One row for each delivery: run, node, publisher, number, sent_at, at (seconds from the beginning), delay."""
    from pyspark.sql import functions as F

    told = traces.where("kind = 'deliver' AND message = 'Event'").withColumn("said", F.from_json("detail", DELIVERED))
    return told.select(
        "run",
        "node",
        "said.publisher",
        "said.number",
        (F.col("said.accepted_at") - WARM_UP).alias("sent_at"),
        (F.col("time") - WARM_UP).alias("at"),
        (F.col("time") - F.col("said.accepted_at")).alias("delay"),
    )


def late(arrived: DataFrame) -> DataFrame:
    """Those that come after one of the same publisher with a higher number, as `fifo_violations` counts them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = Window.partitionBy("run", "node", "publisher").orderBy("at", "number")
    highest = F.max("number").over(before.rowsBetween(Window.unboundedPreceding, -1))
    return arrived.withColumn("highest", highest).where("number < highest")


def with_previous(arrived: DataFrame) -> DataFrame:
    """Besides, the delay of the one before it: of the same publisher to the same node, in the order of publication."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    pair = Window.partitionBy("run", "node", "publisher").orderBy("number")
    return arrived.withColumn("previous", F.lag("delay").over(pair)).where("previous IS NOT NULL")


def measured_by_run(results: DataFrame, samples: DataFrame, measure: Measure) -> DataFrame:
    """The figures of each run, averaged over runs: figure, group, value, low, high, runs. `measure` sees the columns of
    the samples, and variant and parameters of their run."""
    about = samples.join(results.select("run", "variant", "parameters"), on="run", how="inner")

    def apply(table: Any) -> Any:
        import pyarrow

        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        figures = [(name, group, float(value)) for name, group, value in measure(columns)]
        arrays = [list(cells) for cells in zip(*figures, strict=True)] or [[], [], []]
        types = (pyarrow.string(), pyarrow.string(), pyarrow.float64())
        made = [pyarrow.array(cells, type) for cells, type in zip(arrays, types, strict=True)]
        return pyarrow.table(made, names=["figure", "group", "value"])

    return summarise(about.groupBy("run").applyInArrow(apply, "figure string, group string, value double"))


def variant_of(columns: Columns) -> str:
    return str(columns["variant"][0])


def parameter_of(columns: Columns, name: str) -> Any:
    return json.loads(columns["parameters"][0])[name]
