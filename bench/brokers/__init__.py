"""Our broker beside NATS, Mosquitto, Redis and zenoh, on loopback, in one run.

What is compared is the broker, so the load comes from one light process that speaks each protocol by hand: frames are
encoded beforehand, and deliveries are counted by a mark in their payload and not decoded (`load.py`, `dialects.py`).
Speed is deliveries per second of *broker CPU time*, taken from /proc: on a machine with two cores the wall rate tells
mostly how the scheduler shared them. What a client library costs is measured apart (`receivers.py`).

    forwarding     one publisher, one subscriber or ten, who want everything
    content        one publisher, a hundred subscribers who want 1 % each (`content.py`). A topic broker has to send
                   everything to all of them; beside it stands the case in which it need not, because one attribute was
                   cut into a hundred subjects
    latency        one event at a time

Our broker runs as `tidings broker`, with receipts, bounds, history and accounting as they are by default. zenoh has no
protocol that one would write by hand; its library is on both sides, and only the router's CPU time counts. A broker
that is not installed is reported as missing.
"""
