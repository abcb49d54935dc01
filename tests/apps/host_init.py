"""First process of a test host: gives it its name and its disk, starts what runs there, and reaps what it has left.

``python host_init.py NAME DISK MOUNT_POINT COMMAND...``, in UTS, mount and PID namespaces that only it has.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys


def main() -> None:
    name, disk, mount_point, *command = sys.argv[1:]
    socket.sethostname(name)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", disk, mount_point], check=True)
    if command:
        subprocess.Popen(command, start_new_session=True)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:  # a host lives on when its worker has ended
        try:
            os.wait()
        except ChildProcessError:
            signal.pause()


if __name__ == "__main__":
    main()
