"""Events of live brokers as rows of Spark, and rows as events: the format "tidings".

    spark.readStream.format("tidings").option("url", "tidings://localhost").option("filter", "price > 100").load()

    source.py       the format itself, and its reader of what is stored
    stream.py       its reader of a stream
    options.py      what can be said with `.option(...)`
    table.py        the options of a table in SQL
    starts.py       where a read begins and ends
    connection.py   one connection, used from code without a loop
    columns.py      which columns an event has; schemas given and inferred; conditions of Spark as filters of ours
    offsets.py      positions in the network's history: pure arithmetic
    progress.py     how far behind a query is, and whom it cannot ask
    pieces.py       what tasks do, and how the work is cut for them
    decoder.py      pages of history to Arrow columns; attributes head by head (readings.py), or a page at once
                    (scan.py) by what is compiled (kernel.py)
    sink.py         the writers: once each, whatever is repeated
    encoder.py      Arrow columns to encoded events

Nothing of this is imported by a broker or by the command line; it needs pyspark and pyarrow.
"""
