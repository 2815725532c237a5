// The client against a running server: registration to proof, lost answers, crashes, consent, and streams with cuts.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { BatchFailed, Client, Knowledge, ProofError, Refused, StateError, Unconfirmed, Unreachable, verify } from "attache-client";
import { fileState } from "attache-client/node";

import { KEY, ONCE, QUICK, URL_, ada, relay, stateFile, withServer } from "./support.mjs";

const server = URL_ === "" ? /** @type {Client} */ ({}) : new Client(URL_, QUICK);
const FULL = /** @type {const} */ ({ level: "full" });

/** @param {number} number */
const note = (number) => ({ memory_id: `m${number}`, content: `lesson ${number}` });

async function attached() {
  const computer = await server.registerComputer();
  const code = await server.deviceCode(computer);
  await ada.approve(code);
  await server.waitAttached(code);
  return computer;
}

/** Ids of the recorded events, oldest first. @param {import("attache-client").Computer} computer */
async function recorded(computer) {
  return (await server.asComputer(computer).activity()).events.map(({ event_id }) => event_id).reverse();
}

/** @param {import("attache-client").Outcome | undefined} outcome */
function eventOf(outcome) {
  assert.ok(outcome?.status === "recorded", JSON.stringify(outcome));
  return outcome.eventId;
}

async function vkey() {
  return (await server.logKeys()).find((key) => key.retired_at === null)?.vkey ?? "";
}

describe("agents and computers", withServer, () => {
  test("an anonymous agent is claimed and renews its token", async () => {
    const registration = await server.registerAgent();
    assert.equal((await server.exchangeAssertion(registration.identity_assertion ?? "")).scope, "svc.events");
    const claim = await server.startClaim(registration.claim_token);
    await ada.complete(claim);
    const tokens = await server.waitClaimed(registration.claim_token, claim);
    /** @type {unknown[]} */
    const renewed = [];
    const agent = server.asAgent(tokens, { onRefresh: (fresh) => renewed.push(fresh) });
    assert.equal((await agent.accountSummary()).sections.account?.email, "ada@example.com");
    assert.equal(renewed.length, 0);
    // The server ends the token: two requests share one exchange of the assertion.
    await agent.revokeToken(tokens.access_token);
    await Promise.all([agent.accountSummary(), agent.activity()]);
    assert.equal(renewed.length, 1);
    // A token that is about to expire is exchanged first.
    const stale = server.asAgent({ ...tokens, access_token: "at_stale", expires_in: 1 }, { onRefresh: (fresh) => renewed.push(fresh) });
    await stale.accountSummary();
    assert.equal(renewed.length, 2);
  });

  test("an agent for a person has its claim at once", async () => {
    const registration = await server.registerAgent({ loginHint: "ada@example.com" });
    const { claim, claim_token } = registration;
    assert.ok(claim);
    await assert.rejects(server.exchangeClaim(claim_token), (error) => error instanceof Refused && error.code === "authorization_pending");
    await ada.complete(claim);
    assert.equal((await server.waitClaimed(claim_token, claim)).scope, "svc.account");
  });

  test("a computer waits for its person", async () => {
    const code = await server.deviceCode(await server.registerComputer({ name: "build machine" }));
    /** @type {number[]} */
    const pauses = [];
    const account = await server.waitAttached(code, { waiting: (pause) => void (pauses.push(pause), ada.approve(code)) });
    assert.deepEqual(pauses, [5]);
    assert.match(account, /^[a-z0-9]+$/);
  });

  test("a wait ends with its signal", async () => {
    const code = await server.deviceCode(await server.registerComputer());
    const stop = new AbortController();
    await assert.rejects(server.waitAttached(code, { signal: stop.signal, waiting: () => stop.abort(new Error("enough")) }), /enough/);
  });

  test("refusals have their code", async () => {
    const code = await server.deviceCode(await server.registerComputer());
    await ada.deny(code);
    await assert.rejects(server.waitAttached(code), (error) => error instanceof Refused && error.code === "access_denied" && !error.retryable);
    const unknown = new Client(URL_, { ...ONCE, token: "msk_unknown" }).activity();
    await assert.rejects(unknown, (error) => error instanceof Refused && error.status === 401 && error.code === "machine_unknown");
    const invalid = server.registerComputer({ userCuid: "NOT A CUID" });
    await assert.rejects(invalid, (error) => error instanceof Refused && JSON.stringify(error.body).includes('"path":"user_cuid"'));
    await assert.rejects(new Client("http://127.0.0.1:9", ONCE).registerAgent(), Unreachable);
    assert.throws(() => new Client("ftp://127.0.0.1"), TypeError);
  });
});

describe("events", withServer, () => {
  test("chained events are proven, and tampered proofs are refused", async (t) => {
    const computer = await attached();
    const chain = server.chain(computer, { agentId: "claude-code", state: fileState(stateFile(t)) });
    const outcomes = await Promise.all([0, 1, 2].map((number) => chain.send("memory.stored", note(number), FULL)));
    const ids = outcomes.map(eventOf);
    assert.deepEqual(await recorded(computer), ids);
    const [acting, key] = [server.asComputer(computer), await vkey()];
    const proof = await acting.waitProof(ids[2] ?? "");
    const verified = await verify(proof, key);
    assert.deepEqual([verified.eventId, verified.event.seq, verified.event.payload], [ids[2], 2, note(2)]);
    const before = await verify(await acting.waitProof(ids[1] ?? ""), key);
    assert.deepEqual(verified.event.hash_chain, { prev: before.seal });

    const zeros = "0".repeat(64);
    /** @param {string} text @param {(text: string) => string} edit */
    const edited = (text, edit) => Buffer.from(edit(Buffer.from(text, "base64").toString())).toString("base64");
    const changes = [
      { schema: "audit-proof/v2" }, { status: "pending" }, { event_id: proof.receipt_id }, { receipt_id: proof.event_id }, { hash_alg: "md5" },
      { canonical_b64: edited(proof.canonical_b64, (text) => text.replace("lesson 2", "lesson 3")) },
      { canonical_b64: edited(proof.canonical_b64, (text) => `${text} `) }, { canonical_b64: null }, { self: zeros },
      { chain: { ...proof.chain, seq: 1 } }, { chain: { ...proof.chain, prev: zeros } }, { chain: { ...proof.chain, agent_id: "codex" } },
      { chain: { ...proof.chain, machine_id: proof.event_id } }, { chain: { ...proof.chain, prev_event_id: null } }, { chain: null },
      { leaf_b64: edited(proof.leaf_b64, (text) => text.replace('"v":1', '"v":2')) }, { leaf_hash: zeros },
      { leaf_index: (proof.leaf_index ?? 0) + 1 }, { leaf_index: null }, { tree_size: (proof.tree_size ?? 0) + 1 }, { root_hash: zeros },
      { inclusion_path: [...(proof.inclusion_path ?? []), zeros] }, { inclusion_path: null },
      { checkpoint: proof.checkpoint?.replace("\n—", "\n-") }, { checkpoint: null }, { vkey: "other+00000000+AA==" },
    ];
    for (const change of changes) {
      await assert.rejects(verify(/** @type {any} */ ({ ...proof, ...change }), key), ProofError, JSON.stringify(change));
    }
    await assert.rejects(verify(proof, `${key.slice(0, -2)}A=`), ProofError);
  });

  test("the log only grows", async () => {
    const computer = await attached();
    const [chain, acting, key] = [server.chain(computer), server.asComputer(computer), await vkey()];
    await acting.waitProof(eventOf(await chain.send("memory.stored", note(0), FULL)));
    const seen = await server.observe(key);
    await acting.waitProof(eventOf(await chain.send("memory.stored", note(1), FULL)));
    const newest = await server.observe(key, seen);
    assert.ok(newest.size > seen.size);
    await assert.rejects(server.observe(key, { ...seen, root: newest.root }), ProofError);
    await assert.rejects(server.observe(key, { ...seen, size: newest.size + 1000 }), ProofError);
  });

  test("an event whose answer is lost is recorded once", async (t) => {
    const [computer, cut] = [await attached(), await relay(t)];
    cut.lose = 2;
    const event = eventOf(await new Client(cut.url, QUICK).chain(computer).send("memory.stored", note(0), FULL));
    assert.deepEqual([cut.seen, await recorded(computer)], [3, [event]]);
  });

  test("a server that asks for a pause gets it", async (t) => {
    const [computer, cut] = [await attached(), await relay(t)];
    const chain = new Client(cut.url, QUICK).chain(computer);
    cut.refuse = [1, 0];
    const event = eventOf(await chain.send("memory.stored", note(0), FULL));
    assert.deepEqual([cut.seen, await recorded(computer)], [3, [event]]);
    // A pause of a day is for the caller to decide.
    cut.refuse = [86400];
    const later = await chain.send("memory.stored", note(1), FULL).catch((error) => error);
    assert.ok(later instanceof Unconfirmed && later.cause instanceof Refused, String(later));
    const { code, retryable, retryAfter, detail } = later.cause;
    assert.deepEqual([code, retryable, retryAfter, detail], ["temporarily_unavailable", true, 86400, "now"]);
    eventOf(await chain.resume());
  });

  test("an unconfirmed event is settled before the next one", async (t) => {
    const [computer, cut] = [await attached(), await relay(t)];
    const chain = new Client(cut.url, ONCE).chain(computer, { state: fileState(stateFile(t)) });
    cut.lose = 2;
    const lost = await chain.send("memory.stored", note(0), FULL).catch((error) => error);
    assert.ok(lost instanceof Unconfirmed && lost.cause instanceof Unreachable, String(lost));
    assert.equal(await chain.pending(), lost.eventId);
    const again = await chain.send("memory.stored", note(1), FULL).catch((error) => error);
    assert.ok(again instanceof Unconfirmed && again.eventId === lost.eventId, "the second event was not begun");
    assert.equal(eventOf(await chain.send("memory.stored", note(0), { ...FULL, eventId: lost.eventId })), lost.eventId);
    assert.deepEqual([await recorded(computer), await chain.pending()], [[lost.eventId], undefined]);
  });

  test("a chain resumes after its process was killed", async (t) => {
    const [computer, cut, state] = [await attached(), await relay(t), stateFile(t)];
    cut.withhold = true;
    const withheld = new Promise((resolve) => (cut.withheld = () => resolve(undefined)));
    const program = `
      import { Client } from "attache-client"; import { fileState } from "attache-client/node";
      const [url, state, computer] = process.argv.slice(1);
      await new Client(url).chain(JSON.parse(computer), { state: fileState(state) }).send("memory.stored", { memory_id: "m0" }, { level: "full" });`;
    const options = ["--input-type=module", "--eval", program, "--", cut.url, state, JSON.stringify(computer)];
    const sender = spawn(process.execPath, options, { cwd: new URL("..", import.meta.url), stdio: "inherit" });
    await withheld;
    sender.kill("SIGKILL");
    await once(sender, "exit");
    const chain = server.chain(computer, { state: fileState(state) });
    const pending = await chain.pending();
    assert.equal(eventOf(await chain.resume()), pending);
    assert.deepEqual(await recorded(computer), [pending]);
    const second = eventOf(await chain.send("memory.stored", note(1), FULL));
    assert.equal(await chain.resume(), undefined);
    assert.deepEqual(await recorded(computer), [pending, second]);
  });

  test("a chain without its state continues where the server expects it", async () => {
    const computer = await attached();
    for (const number of [0, 1, 2]) eventOf(await server.chain(computer).send("memory.stored", note(number), FULL));
    assert.equal((await recorded(computer)).length, 3);
  });

  test("an event with an id of the log is compared with it", async () => {
    const computer = await attached();
    const first = await server.chain(computer).send("memory.stored", note(0), FULL);
    const same = { ...FULL, eventId: eventOf(first) };
    assert.deepEqual(await server.chain(computer).send("memory.stored", note(0), same), first);
    const other = server.chain(computer).send("memory.stored", note(1), same);
    await assert.rejects(other, (error) => error instanceof Refused && error.code === "event_id_conflict");
    assert.deepEqual(await recorded(computer), [same.eventId]);
  });

  test("held events take no position", async () => {
    const computer = await attached();
    const chain = server.chain(computer);
    const held = await chain.send("memory.unheard_of", {}, { lane: "memory", level: "metadata-only" });
    assert.ok(held.status === "held" && held.reason === "unknown_event_type", JSON.stringify(held));
    await assert.rejects(chain.send("memory.unheard_of", {}), TypeError);
    eventOf(await chain.send("memory.stored", note(0), FULL));
    const page = await server.asComputer(computer).activity({ lane: "memory" });
    assert.deepEqual(page.events.map(({ seq }) => seq), [0]);
    assert.equal(page.unclassified?.[0]?.event_id, held.eventId);
  });

  test("sessions are listed with their costs", async () => {
    const computer = await attached();
    const [acting, sessionUuid] = [server.asComputer(computer), "019b76da-a800-7a67-8a14-94a3f41b0601"];
    const answer = { model: "claude-sonnet-4-5", input_tokens: 1_000_000, output_tokens: 0 };
    const sent = await server.chain(computer, { agentId: "codex" }).send("llm.completed", answer, { ...FULL, sessionUuid, projectId: "shop" });
    for (const end = Date.now() + 30_000; (await acting.sessions({ agent: "codex" })).sessions.length === 0 && Date.now() < end; ) await sleep(200);
    const [found] = (await acting.sessions({ project: "shop" })).sessions;
    assert.ok(found !== undefined);
    assert.deepEqual([found.session_uuid, found.model_calls, found.cost_microdollars], [sessionUuid, 1, 3_000_000]);
    const timeline = await acting.session(found.id, { limit: 5 });
    assert.deepEqual(timeline.events.map(({ event_id }) => event_id), [eventOf(sent)]);
    assert.equal((await acting.costs(7)).total_microdollars, 3_000_000);
  });

  test("consent is honoured before anything is sent", async (t) => {
    const [computer, cut] = [await attached(), await relay(t)];
    const acting = server.asComputer(computer);
    /** @param {string} eventId */
    const logged = async (eventId) => JSON.parse(Buffer.from((await acting.proof(eventId)).canonical_b64, "base64").toString());
    const metadata = await logged(eventOf(await new Client(cut.url).chain(computer).send("memory.stored", note(0))));
    assert.deepEqual([metadata.payload, metadata.redacted, metadata.consent_level], [{ memory_id: "m0" }, true, "metadata-only"]);
    await ada.post("/api/v1/consent", { machine_uuid: computer.machine_uuid, level: "full" });
    const full = await logged(eventOf(await server.chain(computer).send("memory.stored", note(1))));
    assert.deepEqual([full.payload, full.redacted], [note(1), false]);
    assert.equal(await acting.setConsent("off", { reason: "a test" }), "off");
    const before = cut.seen;
    assert.deepEqual(await new Client(cut.url).chain(computer).send("memory.stored", note(2)), { status: "withheld", lane: "memory" });
    assert.equal(cut.seen, before, "nothing was sent");
  });

  test("a state belongs to one chain", async (t) => {
    const [computer, path] = [await server.registerComputer(), stateFile(t)];
    await server.chain(computer, { agentId: "codex", state: fileState(path) }).send("memory.stored", {}, FULL);
    await assert.rejects(server.chain(computer, { agentId: "cursor", state: fileState(path) }).resume(), StateError);
    writeFileSync(path, "{");
    await assert.rejects(server.chain(computer, { agentId: "codex", state: fileState(path) }).resume(), StateError);
  });
});

describe("knowledge", withServer, () => {
  const knowledge = URL_ === "" ? /** @type {Knowledge} */ ({}) : new Knowledge(URL_, { token: KEY, ...QUICK });
  /** @param {string} url */
  const through = (url) => new Knowledge(url, { token: KEY, ...QUICK });
  /** @template T @param {AsyncIterable<T>} source */
  const all = async (source) => {
    /** @type {T[]} */
    const found = [];
    for await (const one of source) found.push(one);
    return found;
  };

  test("notes are added, found, read, exported and deleted", async () => {
    const space = await knowledge.createSpace("typescript");
    assert.ok((await knowledge.spaces()).some(({ id }) => id === space.id));
    const contents = [
      { title: "Harbour", content: "The harbour master keeps the tide tables of the north pier." },
      { title: "Bakery", content: "The bakery on the square sells rye bread on Thursdays." },
    ];
    const messages = await all(await knowledge.add({ contents, urls: ["ftp://example.com/"], spaces: [space.id] }));
    assert.deepEqual(messages[0], { type: "progress", processed: 0, total: 3 });
    assert.deepEqual(messages.at(-1), { type: "complete" });
    assert.deepEqual(messages.flatMap((message) => (message.type === "error" ? [[message.error, message.index]] : [])), [["invalid_url", 0]]);
    const [found, ...others] = await knowledge.search("When can I buy bread?", { limit: 1, spaces: [space.id] });
    assert.deepEqual([found?.title, others], ["Bakery", []]);
    const memory = await knowledge.memory(found?.id ?? "");
    assert.ok(memory.content === contents[1]?.content && memory.spaces.includes(space.id));
    assert.ok((await all(knowledge.export())).some(({ id }) => id === memory.id));
    const lines = (await all(knowledge.export())).filter(({ id }) => id === memory.id);
    const changed = await knowledge.updateMemory(memory.id, { title: "Baker", tags: ["Bread", "shop"] });
    assert.deepEqual([changed.title, changed.tags, changed.content], ["Baker", ["bread", "shop"], memory.content]);
    assert.deepEqual((await all(knowledge.memories({ space: space.id, tag: "shop" }))).map(({ id }) => id), [memory.id]);
    await knowledge.deleteMemory(memory.id);
    const imported = await knowledge.importMemories([...lines, { id: "none" }]);
    assert.deepEqual([imported.created, imported.existing, imported.errors.map(({ index, error }) => [index, error])], [1, 0, [[1, "invalid_request"]]]);
    assert.equal((await knowledge.importMemories(lines)).existing, 1);
    await knowledge.deleteMemory(memory.id);
    await assert.rejects(knowledge.memory(memory.id), (error) => error instanceof Refused && error.code === "not_found");
    assert.equal((await knowledge.updateSpace(space.id, { isFavorite: true })).isFavorite, true);
    const again = await knowledge.createSpace("typescript again");
    const added = [1, 2].map(() => knowledge.add({ contents: contents.slice(0, 1), spaces: [again.id] }, { idempotencyKey: "of that test" }));
    const [one, two] = await Promise.all(added);
    assert.equal(one?.id, two?.id);
    if (one !== undefined) await all(one);
    const gone = await knowledge.deleteSpace(again.id);
    assert.deepEqual([gone.moved, gone.deleted], [0, 0]);
    const forbidden = knowledge.search("bread", { spaces: [(await server.registerComputer()).machine_uuid] });
    await assert.rejects(forbidden, (error) => error instanceof Refused && error.code === "space_forbidden" && /space/.test(error.detail ?? ""));
  });

  test("a stream that is cut is resumed without gaps", async (t) => {
    const cut = Object.assign(await relay(t), { watched: "", cutAfter: [3, 2, 0] });
    const contents = [0, 1, 2, 3, 4, 5].map((number) => ({ content: `Note ${number} of the stream that was cut for the client.` }));
    const batch = await through(cut.url).add({ contents });
    const messages = await all(batch);
    const processed = messages.flatMap((message) => (message.type === "progress" ? [message.processed] : []));
    assert.deepEqual([processed, cut.cutAfter], [[0, 1, 2, 3, 4, 5, 6], []]);
    assert.equal(messages.filter(({ type }) => type === "success").length, 6);
    // The whole stream again, and from its middle.
    assert.deepEqual(await all(knowledge.join(batch.id)), messages);
    const joined = knowledge.join(batch.id, `${batch.id}:4`);
    assert.deepEqual(await all(joined), messages.slice(5));
    assert.equal(joined.lastEventId, `${batch.id}:13`);
  });

  test("a batch whose answer is lost is added once", async (t) => {
    const [cut, space] = [Object.assign(await relay(t), { watched: "POST /v1/batch-add ", lose: 1 }), await knowledge.createSpace("lost")];
    const contents = [{ title: "Lost", content: "An answer that was lost on its way." }];
    const messages = await all(await through(cut.url).add({ contents, spaces: [space.id] }));
    assert.deepEqual(messages.map(({ type }) => type), ["progress", "success", "progress", "complete"]);
    const found = await knowledge.search("answer", { spaces: [space.id] });
    assert.deepEqual([cut.seen, found.map(({ title }) => title)], [2, ["Lost"]]);
  });

  test("a stream that always breaks is given up", async (t) => {
    const cut = Object.assign(await relay(t), { watched: "", cutAfter: [1, ...Array(20).fill(0)] });
    const batch = await through(cut.url).add({ contents: [{ content: "A note of a stream that always breaks." }] });
    const broken = await all(batch).catch((error) => error);
    assert.ok(broken instanceof BatchFailed && broken.code === "interrupted" && broken.lastEventId === `${batch.id}:0`, String(broken));
    assert.deepEqual((await all(knowledge.join(batch.id, broken.lastEventId))).at(-1), { type: "complete" });
    await knowledge.cancel(batch.id);
  });
});
