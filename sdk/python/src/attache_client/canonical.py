"""Canonical JSON (RFC 8785) within the limits of an event, and the seal of an event."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, Dict, List, Mapping, Tuple, cast

import rfc8785

from .errors import CanonicalError

INTEGER_MAX = 2**53 - 1
DEPTH_MAX = 32


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a value.

    Refuses the values that the server refuses: whole numbers beyond ±(2^53 - 1) and nesting deeper than 32.
    """
    _check(value, 0)
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise CanonicalError(str(error)) from error


def parse_canonical(text: bytes) -> Dict[str, Any]:
    """Parses an object and refuses every text that is not its own canonical form."""
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise CanonicalError(str(error)) from error
    if not isinstance(value, dict):
        raise CanonicalError("not an object")
    if canonical(value) != text:
        raise CanonicalError("not in canonical form")
    return cast(Dict[str, Any], value)


def seal(event: Mapping[str, Any]) -> str:
    """The seal: SHA-256 of the canonical bytes of an event without ``hash_chain.self``."""
    return hashlib.sha256(canonical_event(event)).hexdigest()


def canonical_event(event: Mapping[str, Any]) -> bytes:
    """The canonical bytes of an event: RFC 8785 without ``hash_chain.self``."""
    return canonical({**event, "hash_chain": {name: value for name, value in event["hash_chain"].items() if name != "self"}})


def _check(value: Any, depth: int) -> None:
    if isinstance(value, (dict, list, tuple)):
        if depth >= DEPTH_MAX:
            raise CanonicalError(f"nested deeper than {DEPTH_MAX}")
        for inner in value.values() if isinstance(value, dict) else value:
            _check(inner, depth + 1)
    elif isinstance(value, float):
        # From 10^21 on, RFC 8785 writes an exponent, which the server reads as a double.
        if math.isfinite(value) and value.is_integer() and INTEGER_MAX < abs(value) < 1e21:
            raise CanonicalError(f"{value} is beyond the whole numbers that a double represents")


def _members(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
