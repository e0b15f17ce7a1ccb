"""The compiled heart of the fast engine: records in clusters, sifted by rows of bits.

**Finding records.** Each record is filed under one of its conditions, the one that is rarest among events: an atom it
asks for, or an interval (`choice.py`). Records filed together are a *cluster* (`clusters.py`); an event looks only
into the clusters of the atoms it satisfies and of the dimensions it has. Clusters of intervals are kept apart by how
wide the intervals are.

**Sifting.** Large clusters are cut into *chunks* of up to 512 records (`chunks.py`). A chunk has rows of bits, from
which an event picks one per dimension; their AND leaves few candidates, whose records are tested exactly
(`search.py`).

**Learning.** Buckets end at learned edges. Each dimension has two sets of edges, and a row code says which one the
rows were built with. So new edges take effect at once for new chunks, while `renewal.py` rebuilds the old ones little
by little.

`layout.py` draws the memory, `changes.py` adds and removes. The idea of filing by the rarest condition is Fabret et
al.'s (SIGMOD 2001); the rows of bits are bit-sliced signatures, cut into chunks so that they stay in the cache.
"""
