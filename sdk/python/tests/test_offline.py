"""Canonical JSON, chains, Merkle trees and checkpoints, with the vectors of the contract. Needs no server."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import unittest
from pathlib import Path

from attache_client import CanonicalError, ProofError, Refused, Retry, Unreachable, canonical, open_checkpoint, parse_canonical, seal
from attache_client._core import Pace, SseLines, retry_after, uuid7
from attache_client.canonical import canonical_event
from attache_client.proof import leaf_hash, verify_consistency, verify_inclusion

from support import vectors


class Canonical(unittest.TestCase):
    def test_vectors(self) -> None:
        for case in vectors("canonical")["cases"]:
            with self.subTest(case["name"]):
                built = case.get("build")
                if built is None:
                    raw = base64.b64decode(case["raw_b64"])
                else:
                    raw = (built["prefix"] + built["repeat"] * built["count"] + built["suffix"]).encode()
                if case.get("malformed") == "too_large":
                    continue
                if "malformed" in case:
                    with self.assertRaises(CanonicalError):
                        parse_canonical(raw)
                    continue
                found = canonical(json.loads(raw))
                self.assertEqual(len(found), case["canonical_length"])
                self.assertEqual(json.loads(found), parse_canonical(found))
                if "canonical" in case:
                    self.assertEqual(found.decode(), case["canonical"])

    def test_two_spellings_of_one_event_have_one_seal(self) -> None:
        envelope = vectors("canonical")["envelope"]
        for raw in envelope["raws"]:
            event = json.loads(raw)
            self.assertEqual((canonical_event(event).decode(), seal(event)), (envelope["canonical"], envelope["self"]))

    def test_values_without_a_form_are_refused(self) -> None:
        for value in (float("nan"), 2**53, 1e16, "\ud800", {"a": object()}, {1: 2}):
            with self.subTest(value), self.assertRaises(CanonicalError):
                canonical(value)

    def test_chain(self) -> None:
        for link in vectors("chain")["chain"]:
            self.assertEqual(canonical_event(link["event"]).decode(), link["canonical"])
            self.assertEqual(seal(link["event"]), link["self"])


class Trees(unittest.TestCase):
    def test_paths(self) -> None:
        tree = vectors("merkle")
        hashes = [leaf["leaf_hash"] for leaf in tree["leaves"]]
        self.assertEqual([leaf_hash(bytes.fromhex(leaf["data_hex"])) for leaf in tree["leaves"]], hashes)
        roots = {size["size"]: size["root"] for size in tree["sizes"]}
        for size in tree["sizes"]:
            for inclusion in size["inclusion"]:
                index, path = inclusion["index"], inclusion["path"]
                verify_inclusion(hashes[index], index, size["size"], path, size["root"])
                for wrong in (path + [hashes[0]], path[:-1], [hashes[0][::-1], *path[1:]]):
                    if wrong != path:
                        with self.assertRaises(ProofError):
                            verify_inclusion(hashes[index], index, size["size"], wrong, size["root"])
            for consistency in size["consistency"]:
                first, path = consistency["first"], consistency["path"]
                verify_consistency(first, size["size"], roots[first], size["root"], path)
                with self.assertRaises(ProofError):
                    verify_consistency(first, size["size"], roots[first], size["root"], path + [hashes[0]])
                with self.assertRaises(ProofError):
                    verify_consistency(first, size["size"], tree["empty_root"], size["root"], path)

    def test_checkpoints(self) -> None:
        signed = vectors("checkpoint")
        for accepted in signed["accepted"]:
            checkpoint = open_checkpoint(accepted["note"], signed["vkey"])
            self.assertEqual((checkpoint.size, checkpoint.root), (signed["tree"]["size"], signed["tree"]["root_hex"]))
        for refused in signed["refused"]:
            with self.subTest(refused["name"]), self.assertRaises(ProofError):
                open_checkpoint(refused["note"], signed["vkey"])
        with self.assertRaises(ProofError):
            open_checkpoint(signed["accepted"][0]["note"], signed["vkey"].replace("95f26541", "95f26542"))


class Delays(unittest.TestCase):
    def test_retries_follow_the_server_and_end(self) -> None:
        retry = Retry(attempts=3, delay_min=0.1, delay_max=10)
        later = Refused(424, {"error": "temporarily_unavailable"}, retry_after=2)
        self.assertEqual(retry.delay(1, later, True), 2)
        self.assertIsNone(retry.delay(3, later, True), "the last attempt")
        self.assertIsNone(retry.delay(1, later, False), "not idempotent")
        self.assertIsNone(retry.delay(1, Refused(424, {}, retry_after=11), True), "too long")
        self.assertIsNone(retry.delay(1, Refused(400, {"error": "invalid_request"}), True))
        backoff = retry.delay(2, Unreachable("gone"), True)
        assert backoff is not None
        self.assertTrue(0.1 <= backoff <= 0.2, backoff)
        self.assertIsNone(retry.delay(1, Unreachable("cut"), False))
        self.assertIsNotNone(retry.delay(1, Unreachable("refused", never_sent=True), False))
        self.assertEqual([retry_after(value) for value in ("3", None, "soon")], [3, None, None])

    def test_polls_slow_down_when_the_server_says_so(self) -> None:
        pace = Pace(5, 1800)
        self.assertEqual(pace.after(Refused(400, {"error": "authorization_pending"})), 5)
        self.assertEqual(pace.after(Refused(400, {"error": "slow_down", "interval": 10})), 10)
        self.assertEqual(pace.after(Refused(400, {"error": "slow_down"})), 15)
        self.assertEqual(pace.after(Unreachable("gone")), 15)
        with self.assertRaises(Refused):
            pace.after(Refused(400, {"error": "access_denied"}))
        with self.assertRaises(Unreachable):
            Pace(5, -1).after(Unreachable("gone"))

    def test_messages_of_a_stream(self) -> None:
        lines, found = SseLines(), []
        for line in (":", "id: b:0", 'data: {"type":', "data: 1}", "", "data:{}", "", ": beat", ""):
            found += list(lines.feed(line))
        self.assertEqual(found, [("b:0", {"type": 1}), (None, {})])

    def test_ids(self) -> None:
        self.assertRegex(uuid7(), "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


class Source(unittest.TestCase):
    def test_the_synchronous_client_is_current(self) -> None:
        script = Path(__file__).parents[1] / "scripts" / "unasync.py"
        subprocess.run([sys.executable, str(script), "--check"], check=True)
