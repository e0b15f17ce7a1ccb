"""Whatever makes, moves or analyses data in bulk, on Spark: workloads, sweeps, metrics, matching, streams of events.

Nothing is imported here, so that each part can be used without the others and brokers never load Spark.
"""
