"""Events of live brokers as rows of Spark, and rows as events: the format "tidings".

    spark.readStream.format("tidings").option("url", "tidings://localhost").option("filter", "price > 100").load()

    source.py       the format itself: what Spark asks for first
    options.py      what can be said with `.option(...)`, and how a client comes in with it
    columns.py      which columns an event has; schemas given and inferred
    decoding.py     encoded events to Arrow columns          encoding.py    Arrow columns to encoded events
    offsets.py      positions in the network's history: pure arithmetic
    predicates.py   conditions of Spark as filters of ours
    reaching.py     one connection, used from code without a loop
    reading.py      what tasks do, and how the work is cut for them
    batch.py        the reader of what is stored             stream.py      the reader of a stream
    sink.py         the writers                              lag.py         how far behind a query is

Nothing of this is imported by a broker or by the command line; it needs pyspark and pyarrow.
"""
