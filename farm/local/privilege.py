"""Running PostgreSQL, which refuses to be root, from a farm that is started by root.

No user is added and no permission outside the farm's folder is changed. The server runs under a user id that no
account has, chosen from a range that Linux distributions leave free, and owns nothing but its data and socket folders.
Where that id cannot pass a folder above them or above the programs (a checkout in /root, say), the process is given
one capability: CAP_DAC_READ_SEARCH (pass and read), or CAP_DAC_OVERRIDE where a container has only that one. The
program `setpriv` of util-linux does this; it is part of every Debian, Ubuntu, Fedora and Alpine-with-glibc image.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from farm.errors import InfrastructureError

# systemd's table of user ids marks 60706 to 61183 as unused; being below 65536 they exist in user namespaces too.
_FIRST, _COUNT = 60_706, 478
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2  # bits, linux/capability.h


@dataclass(frozen=True, slots=True)
class RunAs:
    """A user and group id, with the one capability that the process needs to reach its files, or none."""

    uid: int
    capability: str | None = None


def private_uid(folder: Path) -> int:
    """A user id for the server whose data lies in `folder`: the data's owner, or one that no account has."""
    if folder.exists() and (owner := folder.stat().st_uid) != 0:
        return owner
    start = int.from_bytes(hashlib.sha256(str(folder).encode()).digest()[:4], "big")
    for step in range(_COUNT):
        uid = _FIRST + (start + step) % _COUNT
        if not _has_account(uid):
            return uid
    raise InfrastructureError(
        f"Every user id from {_FIRST} to {_FIRST + _COUNT - 1} has an account.",
        where="PostgreSQL",
        do="Run the farm as an ordinary user.",
    )


def account_uid() -> int:
    """An unprivileged user id that has an account, which `initdb` insists on: nobody, or the last one there is."""
    ids = [entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid != 0]
    if not ids:
        raise InfrastructureError(
            "PostgreSQL cannot make its data folder as root, and this system has no other account.",
            where="/etc/passwd",
            do="Add the usual `nobody` account, or run the farm as an ordinary user.",
        )
    return 65_534 if 65_534 in ids else max(ids)


def run_as(uid: int, program: Path, *folders: Path) -> RunAs:
    """How a process of root's becomes `uid`, executes `program` and reaches `folders`."""
    executable = bool(program.stat().st_mode & stat.S_IXOTH)
    blocked = [path for path in (program, *folders) if not passable(path, uid)]
    if executable and not blocked:
        return RunAs(uid)
    held = _bounding_set()
    # CAP_DAC_READ_SEARCH is the smaller right, but does not let a process execute what it may not.
    for name, bit in (("dac_read_search", _DAC_READ_SEARCH), ("dac_override", _DAC_OVERRIDE)):
        if held >> bit & 1 and (executable or bit == _DAC_OVERRIDE):
            return RunAs(uid, name)
    raise InfrastructureError(
        "PostgreSQL does not run as root, and other users cannot reach its files here.",
        where=str((blocked or [program])[0]),
        do="Run the farm as an ordinary user, or put the folder where others may pass (chmod o+x on those above it).",
    )


def passable(path: Path, uid: int) -> bool:
    """Whether a process of `uid` without groups may pass every folder above `path`."""
    for folder in path.absolute().parents:
        state = folder.stat()
        if not state.st_mode & (stat.S_IXUSR if state.st_uid == uid else stat.S_IXOTH):
            return False
    return True


def prefixed(argv: tuple[str, ...], become: RunAs | None) -> tuple[str, ...]:
    """`argv`, run as another user id; None leaves it as it is."""
    if become is None:
        return argv
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise InfrastructureError(
            "The program `setpriv`, with which root starts PostgreSQL as another user, is missing.",
            where="PATH",
            do="Install util-linux, or run the farm as an ordinary user.",
        )
    caps = f"-all,+{become.capability}" if become.capability else "-all"
    # PostgreSQL asks access(2) for its own files, which leaves capabilities out of account without this secure bit.
    bits = ("--securebits=+no_setuid_fixup",) if become.capability else ()
    return (
        setpriv,
        *(f"--reuid={become.uid}", f"--regid={become.uid}", "--clear-groups", "--no-new-privs"),
        *(f"--inh-caps={caps}", f"--ambient-caps={caps}", *bits),
        "--",
        *argv,
    )


def give(folder: Path, uid: int) -> None:
    """Make `uid` the owner of a folder of the farm's and of all in it."""
    for root, _, names in os.walk(folder):
        for path in (root, *(os.path.join(root, name) for name in names)):  # noqa: PTH118
            os.chown(path, uid, uid, follow_symlinks=False)


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _bounding_set() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0
