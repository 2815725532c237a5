"""Offline verification of audit proofs and checkpoints. Needs the extra ``verify``.

A proof leads from the bytes of an event over its seal, its leaf and the inclusion path to a signed checkpoint. The trusted input is the log's key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

from .canonical import canonical, parse_canonical
from .errors import CanonicalError, ProofError

EMPTY_ROOT = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """The signed size and root of the log."""

    origin: str
    size: int
    #: Lowercase hex.
    root: str
    #: The signed note, to store and compare with later ones.
    note: str


@dataclass(frozen=True)
class Verified:
    """The content of a verified proof."""

    event_id: str
    receipt_id: str
    #: The event as it was recorded, without ``hash_chain.self``.
    event: Dict[str, Any]
    seal: str
    #: Milliseconds since 1970 at which the server received the event.
    received_at_ms: int
    leaf_index: int
    checkpoint: Checkpoint


def verify(proof: Mapping[str, Any], vkey: Union[str, Sequence[str]]) -> Verified:
    """Verifies an audit proof against the log's key, or the keys of its parts, without any other input. Raises :class:`ProofError`."""
    if not isinstance(vkey, str):
        vkey = next((key for key in vkey if key == proof.get("vkey")), "")
    _same("schema", "audit-proof/v1", proof.get("schema"))
    _same("hash_alg", "sha256-jcs-v1", proof.get("hash_alg"))
    _same("vkey", vkey, proof.get("vkey"))
    content = _bytes("canonical_b64", proof.get("canonical_b64"))
    event = _canonical("canonical_b64", content)
    _same("self", hashlib.sha256(content).hexdigest(), proof.get("self"))
    chain = _object(proof, "chain")
    scope, link = _object(event, "scope"), _object(event, "hash_chain")
    named = {"machine_id": scope.get("machine_id"), "agent_id": scope.get("agent_id"), "prev": link.get("prev")}
    named.update(chain_epoch=event.get("chain_epoch"), seq=event.get("seq"))
    _same("event_id", event.get("event_id"), proof.get("event_id"))
    for name, value in named.items():
        _same(f"chain.{name}", value, chain.get(name))
    if (chain["prev"] == "GENESIS") != (chain.get("prev_event_id") is None):
        raise ProofError("chain.prev_event_id", "must be null at the beginning of a chain, and only there")
    leaf_bytes = _bytes("leaf_b64", proof.get("leaf_b64"))
    received = _canonical("leaf_b64", leaf_bytes).get("received_at_ms")
    leaf = {**named, "event_id": proof["event_id"], "receipt_id": proof.get("receipt_id"), "self": proof["self"], "v": 1}
    _same("leaf_b64", canonical({**leaf, "received_at_ms": _count("leaf_b64", received)}), leaf_bytes)
    _same("leaf_hash", leaf_hash(leaf_bytes), proof.get("leaf_hash"))
    if proof.get("status") != "included":
        raise ProofError("status", "the event is pending: no checkpoint includes it yet")
    checkpoint = open_checkpoint(str(proof.get("checkpoint")), vkey)
    _same("tree_size", checkpoint.size, proof.get("tree_size"))
    _same("root_hash", checkpoint.root, proof.get("root_hash"))
    index = _count("leaf_index", proof.get("leaf_index"))
    path = proof.get("inclusion_path")
    if not isinstance(path, list):
        raise ProofError("inclusion_path", "not a list")
    verify_inclusion(proof["leaf_hash"], index, checkpoint.size, path, checkpoint.root)
    return Verified(proof["event_id"], str(proof.get("receipt_id")), event, proof["self"], int(received or 0), index, checkpoint)


def open_checkpoint(note: str, vkey: str) -> Checkpoint:
    """Verifies the signature of a checkpoint (C2SP ``tlog-checkpoint`` in a ``signed-note``)."""
    name, key_id, key = _parse_key(vkey)
    text, separator, signatures = note.rpartition("\n\n")
    text += "\n"
    if not separator or not signatures.endswith("\n"):
        raise ProofError("checkpoint", "not a signed note")
    found = False
    for line in signatures[:-1].split("\n"):
        words = line.split(" ")
        if len(words) != 3 or words[0] != "—":
            raise ProofError("checkpoint", "not a signed note")
        signed = _bytes("checkpoint", words[2])
        if words[1] == name and signed[:4] == key_id:
            _verify_signature(key, signed[4:], text.encode())
            found = True
    if not found:
        raise ProofError("checkpoint", f"not signed by {name}")
    lines = text[:-1].split("\n")
    if len(lines) < 3 or "" in lines or not (lines[1].isascii() and lines[1].isdigit()) or str(int(lines[1])) != lines[1]:
        raise ProofError("checkpoint", "not a checkpoint")
    _same("checkpoint", name, lines[0])
    root = _bytes("checkpoint", lines[2])
    if len(root) != 32:
        raise ProofError("checkpoint", "the root is no hash")
    return Checkpoint(lines[0], int(lines[1]), root.hex(), note)


def leaf_hash(data: bytes) -> str:
    """Hash of a leaf (RFC 6962, section 2.1)."""
    return hashlib.sha256(b"\0" + data).hexdigest()


def verify_inclusion(leaf: str, index: int, size: int, path: Sequence[str], root: str) -> None:
    """Verifies that a path leads from a leaf hash to the root of a tree (RFC 9162, section 2.1.3.2)."""
    if not 0 <= index < size:
        raise ProofError("leaf_index", f"{index} is beyond the tree of {size} leaves")
    node, last, hashed = index, size - 1, _hash("leaf_hash", leaf)
    for sibling in (_hash("inclusion_path", step) for step in path):
        if last == 0:
            raise ProofError("inclusion_path", "too long")
        if node & 1 or node == last:
            hashed = _node(sibling, hashed)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            hashed = _node(hashed, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise ProofError("inclusion_path", "too short")
    _same("inclusion_path", root, hashed.hex())


def verify_consistency(first: int, size: int, first_root: str, root: str, path: Sequence[str]) -> None:
    """Verifies that the tree of ``first`` leaves is a prefix of the tree of ``size`` leaves (RFC 9162, section 2.1.4.2)."""
    steps = [_hash("proof", step) for step in path]
    if not 0 <= first <= size:
        raise ProofError("proof", f"{first} is beyond the tree of {size} leaves")
    if first in (0, size):
        if steps:
            raise ProofError("proof", "too long")
        return _same("proof", first_root, root if first else EMPTY_ROOT)
    if first & (first - 1) == 0:
        # The first tree is a perfect subtree of the second, and its root the first hash of the path.
        steps.insert(0, _hash("proof", first_root))
    if not steps:
        raise ProofError("proof", "too short")
    node, last = first - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            raise ProofError("proof", "too long")
        if node & 1 or node == last:
            old, new = _node(step, old), _node(step, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = _node(new, step)
        node, last = node >> 1, last >> 1
    if last:
        raise ProofError("proof", "too short")
    _same("proof", first_root, old.hex())
    _same("proof", root, new.hex())


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _parse_key(vkey: str) -> Tuple[str, bytes, bytes]:
    parts = vkey.split("+", 2)
    key = _bytes("vkey", parts[2]) if len(parts) == 3 else b""
    if len(key) != 33 or key[0] != 1:
        raise ProofError("vkey", "expected name+key id+key of Ed25519")
    key_id = hashlib.sha256(parts[0].encode() + b"\n" + key).digest()[:4]
    _same("vkey", key_id.hex(), parts[1])
    return parts[0], key_id, key[1:]


def _verify_signature(key: bytes, signature: bytes, text: bytes) -> None:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ImportError("verification needs cryptography: pip install cryptography") from error
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError) as error:
        raise ProofError("checkpoint", "the signature does not fit the text") from error


def _same(member: str, expected: object, found: object) -> None:
    # `True == 1` in Python, but not in JSON.
    if type(expected) is not type(found) or expected != found:
        raise ProofError(member, f"expected {expected!r}, found {found!r}")


def _object(value: Mapping[str, Any], name: str) -> Dict[str, Any]:
    inner = value.get(name)
    if not isinstance(inner, dict):
        raise ProofError(name, "not an object")
    return inner


def _count(member: str, value: object) -> int:
    if type(value) is not int:
        raise ProofError(member, "not a whole number")
    return value


def _bytes(member: str, text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProofError(member, "not base64") from error


def _hash(member: str, text: object) -> bytes:
    try:
        hashed = bytes.fromhex(text) if isinstance(text, str) and text == text.lower() else b""
    except ValueError:
        hashed = b""
    if len(hashed) != 32:
        raise ProofError(member, "not a hash in lowercase hex")
    return hashed


def _canonical(member: str, text: bytes) -> Dict[str, Any]:
    try:
        return parse_canonical(text)
    except CanonicalError as error:
        raise ProofError(member, str(error)) from error


__all__: List[str] = ["Checkpoint", "Verified", "leaf_hash", "open_checkpoint", "verify", "verify_consistency", "verify_inclusion"]
