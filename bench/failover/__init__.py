"""Two brokers of twenty are killed under load: who gets what, and when. Ours with and without failover, beside NATS.

Twenty servers, each a process of its own on this machine, are linked as a tree (`shape.py`). At each of the ten leaves
a client publishes and another subscribes. After a while two inner servers, one below the other, get SIGKILL at once;
ten seconds later they are started again. All clients are at servers that live, so everything has a living way: nothing
but the tree keeps events from anybody. Publications and deliveries are timed by one clock, that of the process in which
all clients are.

    tree               our brokers on the links of the tree, `failover = "none"`
    gossip             the same, `failover = "gossip"`, all else by default
    NATS, leaf nodes   servers that are leaf nodes of the one above: the same tree
    NATS, cluster      servers of one cluster that are given the routes of the tree. NATS makes a full mesh of any
                       routes: each server is one hop from every other, and nobody needs those that are killed

Each of our subscribers has two subscriptions with one filter: a plain one (`guarantee="none"`), which gets what comes
around a failure at once, and one with the guarantee that is the default, which gets all in order and once. NATS has no
second kind (its streams are another product); what it does not deliver at once is lost.

What is told, for events that are published while the two are dead, and in all:

    within 1 s         share of what is owed that came within a second of its publication
    p50, p99           delay of those that came; beside it stands how many never did
    longest gap        of each subscription: the longest time between two deliveries; p99 and the longest of all
    lost, twice        by the end, when all servers are back and nothing has come for a while

The load is small (`--rate`), since twenty servers and all clients share the cores of one machine; before the outage the
same figures are told, which says whether the machine carries it. Besides, the CPU time of an idle broker is measured
before anything is published, with failover and without.
"""
