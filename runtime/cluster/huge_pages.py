"""An anonymous file with huge pages, if this machine allows one.

Linux gives anonymous files 4 KB pages unless its administrator configures otherwise. With these, page faults
cost as much as the computation over the rows. A tmpfs chooses its own page size. This file runs as a
helper process: it mounts a tmpfs with huge pages in its own namespace, sends back an unlinked file, and
exits.
The mount ends when the file is closed.

The helper runs without site packages, so this module imports only the standard library.
"""

import ctypes
import os
import socket
import subprocess
import sys
import tempfile

NEW_MOUNTS = 0x20000
NEW_USER = 0x10000000
PRIVATE, RECURSIVE = 1 << 18, 1 << 14
SECONDS = 10
OPTIONS = b"huge=always,size=0"


def open_huge_page_file() -> int | None:
    """Return the descriptor of a new file with huge pages; None if the system does not allow one."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-I", "-S", __file__, str(theirs.fileno())]
        try:
            result = subprocess.run(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        if result.returncode:
            return None
        _, files, _, _ = socket.recv_fds(ours, 1, 1)
        return files[0] if files else None


def main() -> None:
    """Mount a tmpfs and send a file through the socket whose descriptor is the first argument."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEW_MOUNTS):
        if libc.unshare(NEW_MOUNTS | NEW_USER):
            sys.exit("no namespace")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    null = ctypes.c_void_p()
    libc.mount(b"none", b"/", null, ctypes.c_ulong(PRIVATE | RECURSIVE), null)
    where = tempfile.mkdtemp()
    try:
        if libc.mount(b"kpg", where.encode(), b"tmpfs", ctypes.c_ulong(0), OPTIONS):
            sys.exit("no file system")
        file_ = os.open(where, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        libc.umount2(where.encode(), 2)
    finally:
        os.rmdir(where)
    with socket.socket(fileno=int(sys.argv[1])) as end:
        socket.send_fds(end, [b"f"], [file_])


if __name__ == "__main__":
    main()
