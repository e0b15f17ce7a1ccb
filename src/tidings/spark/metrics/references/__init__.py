"""What each family means, in plain Python: from the records of one run to the values of its metrics.

They read a trace the way its definition is worded, without regard to speed, and are what the metrics on Spark are
tested against. Each takes the records of one run and the set of (key, node) that is due, and returns rows (mostly one),
or none where there is nothing to count.
"""
