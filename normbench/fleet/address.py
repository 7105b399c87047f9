"""Where a Ray cluster is, and whether it can be reached, found out within seconds: Ray itself tries for more than a minute."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

from ..errors import UsageError

__all__ = ["AUTO", "check_address", "parse_address"]

AUTO = "auto"
"""The address that means the cluster which this machine is a node of."""

_CONNECT_S = 5.0
_REACH_S = 20.0
"""With the connection before it that stays below 30 s. Reaching a cluster takes 2 s, most of it the import of Ray."""

_REACH = "import logging, ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)"


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port. Raises UsageError for what is no address of a cluster."""
    found = re.fullmatch(r"([^:/\[\]]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})", address)
    if found is None or not 0 < int(found[2]) < 2**16:
        raise UsageError(
            f"Ray address {address!r} is not of the form host:port, such as 10.0.0.1:6379, nor auto for the cluster of this machine "
            "(Ray Client's ray:// is not for measuring: start normbench on a machine of the cluster)"
        )
    return found[1].strip("[]"), int(found[2])


def check_address(address: str) -> None:
    """Raise UsageError when no Ray cluster answers at an address, within 30 s at the latest."""
    if address != AUTO:
        try:
            socket.create_connection(parse_address(address), timeout=_CONNECT_S).close()
        except OSError as error:
            raise _unreached(address, str(error)) from None
    # Whatever listens there may be something else, and Ray's own patience cannot be set: a process can be ended.
    try:
        done = subprocess.run([sys.executable, "-c", _REACH, address], capture_output=True, text=True, timeout=_REACH_S, check=False)
    except subprocess.TimeoutExpired:
        raise _unreached(address, f"nothing that speaks Ray answered within {_REACH_S:g} s") from None
    if done.returncode != 0:
        raise _unreached(address, (done.stderr.strip().splitlines() or ["no reason is given"])[-1])


def _unreached(address: str, why: str) -> UsageError:
    return UsageError(f"no Ray cluster is reached at {address!r}: {why}. `ray start --head` starts one, and tells its address")
