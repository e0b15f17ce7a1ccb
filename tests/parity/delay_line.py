"""A cable with a delay between two network namespaces: `python delay_line.py NAMESPACE NAMESPACE SECONDS`.

For kernels without netem. In each namespace it makes a TUN device, an interface whose packets come to this process, and
hands every packet that leaves one to the other after the delay. The kernels' TCP and UDP see a link like any other. It
says "ready" when the interfaces are there, and ends when its input is closed.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKET_BYTES_MAX = 65536
INTERFACE = "delayed"
STDIN = 0


def enter(namespace: str) -> None:
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    os.close(handle)


def open_interface(namespace: str) -> int:
    enter(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), IFF_TUN | IFF_NO_PI))
    return device


def carry(devices: tuple[int, int], delay: float) -> None:
    other = {devices[0]: devices[1], devices[1]: devices[0]}
    under_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select([*devices, STDIN], [], [], wait)
        if STDIN in ready:
            return
        for device in ready:
            under_way.append((time.monotonic() + delay, other[device], os.read(device, PACKET_BYTES_MAX)))
        while under_way and under_way[0][0] <= time.monotonic():
            _, device, packet = under_way.popleft()
            # Where the interface is not up yet, the packet is lost, as on any cable whose other end is not plugged in.
            with contextlib.suppress(OSError):
                os.write(device, packet)


def main() -> None:
    one, two, delay = sys.argv[1:]
    devices = open_interface(one), open_interface(two)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    carry(devices, float(delay))


if __name__ == "__main__":
    main()
