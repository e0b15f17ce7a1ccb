"""The same without a loop: a thread that works off orders, and a program that places them."""

import sys
import threading

from tidings.blocking import connect

ORDERS = 5


def work(url: str, ready: threading.Event) -> None:
    with connect(url) as client:
        subscription = client.subscribe("type = 'order'")
        ready.set()
        for event in subscription:
            print("order", event.attributes["item"])
            client.publish({"type": "done", "item": event.attributes["item"]})
            if event.attributes["item"] == ORDERS - 1:
                return


def main(url: str) -> None:
    ready = threading.Event()
    worker = threading.Thread(target=work, args=(url, ready))
    with connect(url) as client:
        done = client.subscribe("type = 'done'")
        worker.start()
        ready.wait()
        for item in range(ORDERS):
            client.publish({"type": "order", "item": item})
        finished: list[object] = []
        while len(finished) < ORDERS:
            finished += [event.attributes["item"] for event in done.take()]
        print("finished", finished)
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "memory:without-asyncio")
