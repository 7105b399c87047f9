"""How machines are named in a run that was taken on several: by what decides whether their times may be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..host.machine import machine_identity

__all__ = ["machine_name"]


def machine_name(machine: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    """Return 12 hex digits that two machines share if they are of one kind and have the same software.

    `machine` is what `machine_record` returns, `versions` what `package_versions` does.
    """
    text = json.dumps([machine_identity(machine), dict(versions)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
