"""The clients against a running server: registration to proof, lost answers, crashes, consent, and streams with cuts."""

from __future__ import annotations

import asyncio
import base64
import copy
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

import httpx

import attache_client
from attache_client import (
    AsyncClient, AsyncKnowledge, BatchFailed, Checkpoint, Client, Complete, Computer, Held, ItemError, Knowledge, Progress, ProofError, Recorded,
    Refused, Retry, StateError, Success, Tokens, Unconfirmed, Unreachable, Withheld,
)  # fmt: skip

from attache_client.types import MESSAGES

from support import KEY, ONCE, QUICK, URL, Person, Relay

ADA = Person()


def note(number: int) -> Dict[str, Any]:
    return {"memory_id": f"m{number}", "content": f"lesson {number}"}


@unittest.skipUnless(URL, "ATTACHE_TEST_URL names no server")
class WithServer(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Client(URL, retry=QUICK)
        self.addCleanup(self.server.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = Path(folder.name) / "chain.json"

    def client(self, url: str, retry: Retry = QUICK, token: Optional[str] = None) -> Client:
        client = Client(url, token, retry=retry)
        self.addCleanup(client.close)
        return client

    def relay(self) -> Relay:
        relay = Relay()
        self.addCleanup(relay.__exit__)
        return relay

    def attached(self) -> Computer:
        computer = self.server.register_computer()
        code = self.server.device_code(computer)
        ADA.approve(code)
        self.server.wait_attached(code)
        return computer

    def recorded(self, computer: Computer) -> List[str]:
        """Ids of the recorded events, oldest first."""
        page = self.server.as_computer(computer).activity()
        return [event["event_id"] for event in reversed(page.events)]

    def vkey(self) -> str:
        return next(key.vkey for key in self.server.log_keys() if key.retired_at is None)


class Agents(WithServer):
    def test_an_anonymous_agent_is_claimed_and_renews_its_token(self) -> None:
        registration = self.server.register_agent()
        assert registration.identity_assertion is not None
        self.assertEqual(self.server.exchange_assertion(registration.identity_assertion).scope, "svc.events")
        claim = self.server.start_claim(registration.claim_token)
        ADA.complete(claim)
        tokens = self.server.wait_claimed(registration.claim_token, claim)
        renewed: List[Tokens] = []
        agent = self.server.as_agent(tokens, on_refresh=renewed.append)
        self.assertEqual(agent.account_summary()["sections"]["account"]["email"], "ada@example.com")
        self.assertEqual(renewed, [])
        # The server ends the token: the agent exchanges its assertion, once.
        agent.revoke_token(tokens.access_token)
        agent.account_summary()
        agent.account_summary()
        self.assertEqual(len(renewed), 1)
        self.assertNotIn(tokens.access_token, repr(tokens))

    def test_an_agent_for_a_person_has_its_claim_at_once(self) -> None:
        registration = self.server.register_agent("ada@example.com")
        assert registration.claim is not None
        with self.assertRaises(Refused) as pending:
            self.server.exchange_claim(registration.claim_token)
        self.assertEqual((pending.exception.code, pending.exception.retryable), ("authorization_pending", False))
        ADA.complete(registration.claim)
        self.assertEqual(self.server.wait_claimed(registration.claim_token, registration.claim).scope, "svc.account")

    def test_a_token_that_is_about_to_expire_is_exchanged_first(self) -> None:
        registration = self.server.register_agent("ada@example.com")
        assert registration.claim is not None
        ADA.complete(registration.claim)
        tokens = self.server.wait_claimed(registration.claim_token, registration.claim)
        renewed: List[Tokens] = []
        stale = Tokens("at_stale", 1, tokens.scope, tokens.identity_assertion)
        self.server.as_agent(stale, on_refresh=renewed.append).account_summary()
        self.assertEqual(len(renewed), 1)

    def test_a_computer_waits_for_its_person(self) -> None:
        computer = self.server.register_computer("build machine")
        code = self.server.device_code(computer)
        pauses: List[float] = []

        def approve(pause: float) -> None:
            pauses.append(pause)
            ADA.approve(code)

        account = self.server.wait_attached(code, waiting=approve)
        self.assertEqual(pauses, [5.0])
        self.assertRegex(account, "^[a-z0-9]+$")

    def test_refusals_have_their_code(self) -> None:
        computer = self.server.register_computer()
        code = self.server.device_code(computer)
        ADA.deny(code)
        with self.assertRaises(Refused) as denied:
            self.server.wait_attached(code)
        self.assertEqual(denied.exception.code, "access_denied")
        with self.assertRaises(Refused) as unknown:
            self.client(URL, ONCE, "msk_unknown").activity()
        self.assertEqual((unknown.exception.status, unknown.exception.code), (401, "machine_unknown"))
        with self.assertRaises(Refused) as invalid:
            self.server.register_computer(user_cuid="NOT A CUID")
        self.assertEqual(invalid.exception.body["issues"][0]["path"], "user_cuid")
        with self.assertRaises(Unreachable):
            self.client("http://127.0.0.1:9", ONCE).register_agent()


class Events(WithServer):
    def test_chained_events_are_proven_and_tampered_proofs_are_refused(self) -> None:
        computer = self.attached()
        chain = self.server.chain(computer, "claude-code", self.state)
        outcomes = [chain.send("memory.stored", note(number), level="full") for number in range(3)]
        ids = [outcome.event_id for outcome in outcomes if isinstance(outcome, Recorded)]
        self.assertEqual(self.recorded(computer), ids)
        acting, vkey = self.server.as_computer(computer), self.vkey()
        proof = acting.wait_proof(ids[2])
        verified = attache_client.verify(proof, vkey)
        self.assertEqual((verified.event_id, verified.event["seq"], verified.event["payload"]), (ids[2], 2, note(2)))
        self.assertEqual(attache_client.verify(acting.wait_proof(ids[1]), vkey).seal, verified.event["hash_chain"]["prev"])

        for member, value in tampered(proof):
            changed = copy.deepcopy(proof)
            at = changed
            *outer, last = member.split(".")
            for name in outer:
                at = at[name]
            at[last] = value
            with self.subTest(member), self.assertRaises(ProofError):
                attache_client.verify(changed, vkey)
        with self.assertRaises(ProofError):
            attache_client.verify(proof, vkey[:-2] + "A=")

    def test_the_log_only_grows(self) -> None:
        computer = self.attached()
        chain, vkey = self.server.chain(computer), self.vkey()
        first = chain.send("memory.stored", note(0), level="full")
        assert isinstance(first, Recorded)
        self.server.as_computer(computer).wait_proof(first.event_id)
        seen = self.server.observe(vkey)
        second = chain.send("memory.stored", note(1), level="full")
        assert isinstance(second, Recorded)
        self.server.as_computer(computer).wait_proof(second.event_id)
        newest = self.server.observe(vkey, seen)
        self.assertGreater(newest.size, seen.size)
        with self.assertRaises(ProofError):
            self.server.observe(vkey, Checkpoint(seen.origin, seen.size, newest.root, seen.note))
        with self.assertRaises(ProofError):
            self.server.observe(vkey, Checkpoint(seen.origin, newest.size + 1000, newest.root, seen.note))

    def test_an_event_whose_answer_is_lost_is_recorded_once(self) -> None:
        computer, relay = self.attached(), self.relay()
        chain = self.client(relay.url, QUICK).chain(computer, state=self.state)
        relay.lose = 2
        outcome = chain.send("memory.stored", note(0), level="full")
        assert isinstance(outcome, Recorded)
        self.assertEqual((relay.seen, self.recorded(computer)), (3, [outcome.event_id]))

    def test_a_server_that_asks_for_a_pause_gets_it(self) -> None:
        computer, relay = self.attached(), self.relay()
        chain = self.client(relay.url).chain(computer, state=self.state)
        relay.refuse = [1, 0]
        outcome = chain.send("memory.stored", note(0), level="full")
        assert isinstance(outcome, Recorded)
        self.assertEqual((relay.seen, self.recorded(computer)), (3, [outcome.event_id]))
        # A pause of a day is for the caller to decide.
        relay.refuse = [86400]
        with self.assertRaises(Unconfirmed) as later:
            chain.send("memory.stored", note(1), level="full")
        cause = later.exception.cause
        assert isinstance(cause, Refused)
        self.assertEqual((cause.code, cause.retryable, cause.retry_after, cause.detail), ("temporarily_unavailable", True, 86400, "now"))
        self.assertIsInstance(chain.resume(), Recorded)

    def test_an_unconfirmed_event_is_settled_before_the_next_one(self) -> None:
        computer, relay = self.attached(), self.relay()
        chain = self.client(relay.url, ONCE).chain(computer, state=self.state)
        relay.lose = 2
        with self.assertRaises(Unconfirmed) as lost:
            chain.send("memory.stored", note(0), level="full")
        self.assertEqual(chain.pending, lost.exception.event_id)
        with self.assertRaises(Unconfirmed) as again:
            chain.send("memory.stored", note(1), level="full")
        self.assertEqual(again.exception.event_id, lost.exception.event_id, "the second event was not begun")
        same = chain.send("memory.stored", note(0), level="full", event_id=lost.exception.event_id)
        assert isinstance(same, Recorded)
        self.assertEqual((self.recorded(computer), chain.pending), ([same.event_id], None))

    def test_a_chain_resumes_after_its_process_was_killed(self) -> None:
        computer, relay = self.attached(), self.relay()
        relay.withhold = True
        program = (
            "import sys; from attache_client import Client, Computer; url, state, *computer = sys.argv[1:];"
            "Client(url).chain(Computer(*computer), state=state).send('memory.stored', {'memory_id': 'm0'}, level='full')"
        )
        arguments = [relay.url, str(self.state), computer.user_cuid, computer.machine_uuid, computer.machine_secret]
        sender = subprocess.Popen([sys.executable, "-c", program, *arguments], env={**os.environ})
        self.assertTrue(relay.withheld.wait(60))
        sender.kill()
        sender.wait()
        chain = self.server.chain(computer, state=self.state)
        pending = chain.pending
        outcome = chain.resume()
        assert isinstance(outcome, Recorded)
        self.assertEqual((outcome.event_id, self.recorded(computer)), (pending, [pending]))
        second = chain.send("memory.stored", note(1), level="full")
        assert isinstance(second, Recorded)
        self.assertIsNone(chain.resume())
        self.assertEqual(self.recorded(computer), [pending, second.event_id])

    def test_a_chain_without_its_state_continues_where_the_server_expects_it(self) -> None:
        computer = self.attached()
        for number in range(3):
            outcome = self.server.chain(computer).send("memory.stored", note(number), level="full")
            self.assertIsInstance(outcome, Recorded)
        self.assertEqual(len(self.recorded(computer)), 3)

    def test_an_event_with_an_id_of_the_log_is_compared_with_it(self) -> None:
        computer = self.attached()
        first = self.server.chain(computer).send("memory.stored", note(0), level="full")
        assert isinstance(first, Recorded)
        # Another program sends the same event, without the state of the first one.
        again = self.server.chain(computer).send("memory.stored", note(0), level="full", event_id=first.event_id)
        self.assertEqual(again, first)
        with self.assertRaises(Refused) as other:
            self.server.chain(computer).send("memory.stored", note(1), level="full", event_id=first.event_id)
        self.assertEqual((other.exception.code, self.recorded(computer)), ("event_id_conflict", [first.event_id]))

    def test_held_events_take_no_position(self) -> None:
        computer = self.attached()
        chain = self.server.chain(computer, state=self.state)
        held = chain.send("memory.unheard_of", {}, lane="memory", level="metadata-only")
        assert isinstance(held, Held)
        self.assertEqual(held.reason, "unknown_event_type")
        with self.assertRaises(ValueError):
            chain.send("memory.unheard_of", {})
        self.assertIsInstance(chain.send("memory.stored", note(0), level="full"), Recorded)
        page = self.server.as_computer(computer).activity(lane="memory")
        self.assertEqual((len(page.events), page.events[0]["seq"]), (1, 0))
        self.assertEqual(page.unclassified[0]["event_id"], held.event_id)

    def test_sessions_are_listed_with_their_costs(self) -> None:
        computer = self.attached()
        acting, session = self.server.as_computer(computer), "019b76da-a800-7a67-8a14-94a3f41b0601"
        answer = {"model": "claude-sonnet-4-5", "input_tokens": 1_000_000, "output_tokens": 0}
        sent = self.server.chain(computer, "codex").send("llm.completed", answer, level="full", session_uuid=session, project_id="shop")
        assert isinstance(sent, Recorded)
        end = time.monotonic() + 30
        while not acting.sessions(agent="codex").sessions and time.monotonic() < end:
            time.sleep(0.2)
        (found,) = acting.sessions(project="shop").sessions
        self.assertEqual((found["session_uuid"], found["model_calls"], found["cost_microdollars"]), (session, 1, 3_000_000))
        self.assertEqual([event["event_id"] for event in acting.session(found["id"], limit=5).events], [sent.event_id])
        self.assertEqual(acting.costs(7).total_microdollars, 3_000_000)

    def test_consent_is_honoured_before_anything_is_sent(self) -> None:
        computer, relay = self.attached(), self.relay()
        sent = self.client(relay.url).chain(computer).send("memory.stored", note(0))
        assert isinstance(sent, Recorded)
        acting = self.server.as_computer(computer)
        event = json.loads(base64.b64decode(acting.proof(sent.event_id)["canonical_b64"]))
        self.assertEqual((event["payload"], event["redacted"], event["consent_level"]), ({"memory_id": "m0"}, True, "metadata-only"))
        ADA.consent(computer.machine_uuid, "full")
        full = self.server.chain(computer).send("memory.stored", note(1))
        assert isinstance(full, Recorded)
        event = json.loads(base64.b64decode(acting.proof(full.event_id)["canonical_b64"]))
        self.assertEqual((event["payload"], event["redacted"]), (note(1), False))
        self.assertEqual(acting.set_consent("off", reason="a test"), "off")
        before = relay.seen
        self.assertEqual(self.client(relay.url).chain(computer).send("memory.stored", note(2)), Withheld("memory"))
        self.assertEqual(relay.seen, before, "nothing was sent")

    def test_a_state_belongs_to_one_chain(self) -> None:
        computer = self.server.register_computer()
        self.server.chain(computer, "codex", self.state).send("memory.stored", {}, level="full")
        with self.assertRaises(StateError):
            self.server.chain(computer, "cursor", self.state)
        self.state.write_text("{")
        with self.assertRaises(StateError):
            self.server.chain(computer, "codex", self.state)

    def test_threads_share_a_chain(self) -> None:
        computer = self.attached()
        chain = self.server.chain(computer, state=self.state)
        threads = [threading.Thread(target=chain.send, args=("memory.stored", note(number)), kwargs={"level": "full"}) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([event["seq"] for event in self.server.as_computer(computer).activity().events], list(range(7, -1, -1)))


def tampered(proof: Dict[str, Any]) -> List[Any]:
    """Each member of a proof with another value that looks like it."""
    zeros = "0" * 64
    text = base64.b64decode(proof["canonical_b64"])
    changes: List[Any] = [
        ("schema", "audit-proof/v2"), ("status", "pending"), ("event_id", proof["receipt_id"]), ("receipt_id", proof["event_id"]),
        ("hash_alg", "md5"), ("canonical_b64", base64.b64encode(text.replace(b"lesson 2", b"lesson 3")).decode()),
        ("canonical_b64", base64.b64encode(text + b" ").decode()), ("self", zeros), ("chain.seq", 1), ("chain.prev", zeros),
        ("chain.agent_id", "codex"), ("chain.machine_id", proof["event_id"]), ("chain.prev_event_id", None), ("leaf_hash", zeros),
        ("leaf_b64", base64.b64encode(base64.b64decode(proof["leaf_b64"]).replace(b'"v":1', b'"v":2')).decode()),
        ("leaf_index", proof["leaf_index"] + 1), ("tree_size", proof["tree_size"] + 1), ("root_hash", zeros),
        ("inclusion_path", [*proof["inclusion_path"], zeros]), ("inclusion_path", None), ("checkpoint", proof["checkpoint"].replace("\n—", "\n-")),
        ("checkpoint", None), ("vkey", "other+00000000+AA=="),
    ]  # fmt: skip
    return changes


class Library(WithServer):
    def setUp(self) -> None:
        super().setUp()
        self.knowledge = Knowledge(URL, KEY, retry=QUICK)
        self.addCleanup(self.knowledge.close)

    def through(self, relay: Relay) -> Knowledge:
        knowledge = Knowledge(relay.url, KEY, retry=QUICK)
        self.addCleanup(knowledge.close)
        return knowledge

    def test_notes_are_added_found_read_exported_and_deleted(self) -> None:
        space = self.knowledge.create_space("python")
        self.assertIn(space, self.knowledge.spaces())
        contents: List[attache_client.Note] = [
            {"title": "Harbour", "content": "The harbour master keeps the tide tables of the north pier."},
            {"title": "Bakery", "content": "The bakery on the square sells rye bread on Thursdays."},
        ]
        messages = list(self.knowledge.add(contents=contents, urls=["ftp://example.com/"], spaces=[space.id]))
        self.assertEqual(messages[0], Progress(0, 3))
        self.assertIsInstance(messages[-1], Complete)
        failed = [message for message in messages if isinstance(message, ItemError)]
        self.assertEqual([(error.error, error.index) for error in failed], [("invalid_url", 0)])
        found = self.knowledge.search("When can I buy bread?", limit=1, spaces=[space.id])
        self.assertEqual([result.title for result in found], ["Bakery"])
        self.assertIn(found[0].id, [message.id for message in messages if isinstance(message, Success)])
        memory = self.knowledge.memory(found[0].id)
        self.assertEqual(memory.content, contents[1]["content"])
        self.assertIn(space.id, memory.spaces)
        self.assertIn(memory.id, [line["id"] for line in self.knowledge.export()])
        lines = [line for line in self.knowledge.export() if line["id"] == memory.id]
        changed = self.knowledge.update_memory(memory.id, title="Baker", tags=["Bread", "shop"])
        self.assertEqual((changed.title, changed.tags, changed.content), ("Baker", ["bread", "shop"], memory.content))
        listed = [entry.title for entry in self.knowledge.memories(space=space.id)]
        self.assertEqual((sorted(listed), [entry.id for entry in self.knowledge.memories(tag="shop")]), (["Baker", "Harbour"], [memory.id]))
        self.knowledge.delete_memory(memory.id)
        imported = self.knowledge.import_memories([*lines, {"id": "none"}])
        self.assertEqual((imported.created, imported.existing, imported.failed), (1, 0, 1))
        self.assertEqual([(error.error, error.index) for error in imported.errors], [("invalid_request", 1)])
        self.assertEqual(self.knowledge.import_memories(lines).existing, 1)
        self.assertEqual(self.knowledge.memory(memory.id).title, "Bakery")
        self.knowledge.delete_memory(memory.id)
        with self.assertRaises(Refused) as gone:
            self.knowledge.memory(memory.id)
        self.assertEqual(gone.exception.code, "not_found")
        self.assertTrue(self.knowledge.update_space(space.id, is_favorite=True).is_favorite)
        again = self.knowledge.create_space("python again")
        added = [self.knowledge.add(contents=contents[:1], spaces=[again.id], idempotency_key="of this test") for _ in range(2)]
        self.assertEqual(added[0].id, added[1].id)
        list(added[0])
        # Its memory is in the other space too.
        deleted = self.knowledge.delete_space(again.id, delete_memories=True)
        self.assertEqual((deleted.moved, deleted.deleted), (0, 0))
        self.assertNotIn(again.id, [other.id for other in self.knowledge.spaces()])
        with self.assertRaises(Refused) as forbidden:
            self.knowledge.search("bread", spaces=[self.server.register_computer().machine_uuid])
        self.assertEqual(forbidden.exception.code, "space_forbidden")
        assert forbidden.exception.detail is not None
        self.assertIn("space", forbidden.exception.detail)

    def test_a_stream_that_is_cut_is_resumed_without_gaps(self) -> None:
        relay = self.relay()
        relay.watched, relay.cut_after = b"", [3, 2, 0]
        contents: List[attache_client.Note] = [{"content": f"A note with the number {number} of the cut stream."} for number in range(6)]
        batch = self.through(relay).add(contents=contents)
        messages = list(batch)
        progress = [message.processed for message in messages if isinstance(message, Progress)]
        self.assertEqual((progress, relay.cut_after), (list(range(7)), []))
        self.assertEqual(len([message for message in messages if isinstance(message, Success)]), 6)
        # The whole stream again, and from its middle.
        whole = list(self.knowledge.join(batch.id))
        self.assertEqual(whole, messages)
        joined = self.knowledge.join(batch.id, f"{batch.id}:4")
        self.assertEqual(list(joined), messages[5:])
        self.assertEqual(joined.last_event_id, f"{batch.id}:13")

    def test_a_batch_whose_answer_is_lost_is_added_once(self) -> None:
        relay, space = self.relay(), self.knowledge.create_space("lost")
        relay.watched, relay.lose = b"POST /v1/batch-add ", 1
        batch = self.through(relay).add(contents=[{"title": "Lost", "content": "An answer that was lost on its way."}], spaces=[space.id])
        self.assertEqual([message.type for message in batch], ["progress", "success", "progress", "complete"])
        self.assertEqual((relay.seen, [found.title for found in self.knowledge.search("answer", spaces=[space.id])]), (2, ["Lost"]))

    def test_a_stream_that_always_breaks_is_given_up(self) -> None:
        relay = self.relay()
        relay.watched, relay.cut_after = b"", [1] + [0] * 20
        batch = self.through(relay).add(contents=[{"content": "A note of a stream that breaks."}])
        with self.assertRaises(BatchFailed) as broken:
            list(batch)
        self.assertEqual((broken.exception.code, broken.exception.last_event_id), ("interrupted", f"{batch.id}:0"))
        self.assertIsInstance(list(self.knowledge.join(batch.id, broken.exception.last_event_id))[-1], Complete)
        self.knowledge.cancel(batch.id)


class Described(WithServer):
    """The classes fit the server's description of its answers."""

    def test_each_class_has_members_that_the_server_promises(self) -> None:
        schemas = httpx.get(f"{URL}/openapi.json").json()["components"]["schemas"]

        def promised(schema: Dict[str, Any]) -> Tuple[Set[str], Set[str]]:
            """Names of the members: those that are always present, and all."""
            if "$ref" in schema:
                return promised(schemas[schema["$ref"].rsplit("/", 1)[1]])
            always, known = set(schema.get("required", [])), set(schema.get("properties", {}))
            parts = [promised(part) for part in schema.get("allOf", [])]
            for required, named in parts:
                always, known = always | required, known | named
            choices = [promised(choice) for choice in schema.get("oneOf", [])]
            if choices:
                always |= set.intersection(*(required for required, _ in choices))
                known |= set.union(*(named for _, named in choices))
            return always, known

        names: Dict[str, Any] = {
            "AgentClaim": attache_client.Claim, "RegistrationResult": attache_client.Registration, "TokenResult": Tokens, "MachineResult": Computer,
            "DeviceCodeResult": attache_client.DeviceCode, "LogKey": attache_client.LogKey, "Space": attache_client.Space,
            "SearchResult": attache_client.SearchResult, "Memory": attache_client.Memory, "MemoryEntry": attache_client.MemoryEntry,
        }  # fmt: skip
        described = {name: schemas[name] for name in names}
        for choice in schemas["BatchMessage"]["oneOf"]:
            kind = choice["properties"]["type"]["enum"][0]
            names[f"BatchMessage {kind}"], described[f"BatchMessage {kind}"] = MESSAGES[kind], choice
        self.assertEqual(len(names), 10 + len(MESSAGES))
        for name, kind in names.items():
            always, known = ({snake(member) for member in members} for members in promised(described[name]))
            for entry in dataclasses.fields(kind):
                optional = entry.default is not dataclasses.MISSING or entry.default_factory is not dataclasses.MISSING
                with self.subTest(f"{name}.{entry.name}"):
                    self.assertIn(entry.name, known if optional else always)
            if name in ("Space", "SearchResult", "Memory", "MemoryEntry"):
                self.assertEqual(known, {entry.name for entry in dataclasses.fields(kind)}, f"{name} has members that the client forgot")


def snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


@unittest.skipUnless(URL, "ATTACHE_TEST_URL names no server")
class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_from_registration_to_proof(self) -> None:
        async with AsyncClient(URL, retry=QUICK) as server:
            registration, computer = await asyncio.gather(server.register_agent(), server.register_computer())
            claim = await server.start_claim(registration.claim_token)
            code = await server.device_code(computer)
            ADA.complete(claim)
            ADA.approve(code)
            tokens, account = await asyncio.gather(server.wait_claimed(registration.claim_token, claim), server.wait_attached(code))
            renewed: List[Tokens] = []
            agent = server.as_agent(tokens, on_refresh=renewed.append)
            await agent.revoke_token(tokens.access_token)
            summary, _ = await asyncio.gather(agent.account_summary(), agent.activity())
            self.assertEqual(len(renewed), 1)
            self.assertEqual(summary["sections"]["account"]["id"], account)
            chain = server.chain(computer, "opencode")
            outcomes = await asyncio.gather(*(chain.send("memory.stored", note(number), level="full") for number in range(3)))
            last: Optional[Recorded] = None
            for outcome in outcomes:
                assert isinstance(outcome, Recorded)
                last = outcome
            assert last is not None
            proof = await server.as_computer(computer).wait_proof(last.event_id)
            self.assertEqual(attache_client.verify(proof, (await server.log_keys())[0].vkey).event["seq"], 2)

    async def test_a_batch_with_a_cut_stream(self) -> None:
        with Relay() as relay:
            relay.watched, relay.cut_after = b"", [2]
            async with AsyncKnowledge(relay.url, KEY, retry=QUICK) as knowledge:
                space = await knowledge.create_space("asyncio")
                relay.cut_after = [2]
                batch = await knowledge.add(contents=[{"content": "Tea is made with leaves.", "title": "Tea"}], spaces=[space.id])
                types = [message.type async for message in batch]
                self.assertEqual(types, ["progress", "success", "progress", "complete"])
                found = await knowledge.search("tea leaves", spaces=[space.id])
                self.assertEqual([result.title for result in found], ["Tea"])
                self.assertGreaterEqual(len([line async for line in knowledge.export()]), 1)
