"""What a run achieved and what it cost, computed from its trace.

    from tidings.spark.metrics.traces import read_traces
    from tidings.spark.metrics.registry import FAMILIES, METRICS

    trace = read_traces(spark, ["run.parquet"])
    METRICS["latency"](trace).show()
    METRICS["delivery_ratio"](trace, expected, by=["node"]).show()
    FAMILIES["traffic"].summary(trace).show()

A metric takes the table of a trace and gives a table with one row for each run, or, with `by`, one for each run and
group. Metrics that look at the same rows form a *family*. A family first turns the trace into its *facts*, one row for
each thing that is counted (an event at a subscriber, a node, a plan), and then aggregates them once; so all metrics of
a family come from one scan (`family.py`), and one more for each table of notes that is joined with deliveries. A run in
which a family finds no facts has no row.

**What is due** cannot be seen in a trace. Metrics that compare with it take a table `expected` with the columns run,
key and node: this event is owed to this node. `tidings.spark.matching` makes it from publications and subscriptions.

**The same answer however the rows are spread.** Times are whole microseconds, and quantities with a fraction whole
millionths; so sums are sums of integers. Percentiles are exact, of values cut to four significant digits: at most a
thousandth too small, and interpolated, so that the median of 1 and 2 is 1.5 (`tables.py`). What is averaged over groups
and then over runs is rounded to millionths in between.

**For each family there is a reference**, a few lines of plain Python over a list of records, in
`tests/spark/references`; tests compare both on traces drawn at random.
"""
