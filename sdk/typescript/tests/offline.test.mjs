// Canonical JSON, chains, Merkle trees and checkpoints, with the vectors of the contract. Needs no server.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import {
  CanonicalError, ProofError, Refused, Unreachable, canonical, canonicalEvent, leafHash, openCheckpoint, parseCanonical, seal, verifyConsistency,
  verifyInclusion,
} from "attache-client";

import { Pace, delayOf, retryAfter } from "../dist/http.js";
import { newCuid, sleep, uuid7 } from "../dist/platform.js";
import { vectors } from "./support.mjs";

test("canonical JSON has the bytes of the vectors", () => {
  for (const { name, build, raw_b64, malformed, canonical: expected, canonical_length } of vectors("canonical").cases) {
    const raw = build ? Buffer.from(build.prefix + build.repeat.repeat(build.count) + build.suffix) : Buffer.from(raw_b64, "base64");
    if (malformed === "too_large") continue;
    if (malformed !== undefined) {
      assert.throws(() => parseCanonical(raw), CanonicalError, name);
      continue;
    }
    const found = canonical(JSON.parse(raw.toString()));
    assert.equal(Buffer.byteLength(found), canonical_length, name);
    if (expected !== undefined) assert.equal(found, expected, name);
    assert.deepEqual(parseCanonical(Buffer.from(found)), JSON.parse(found), name);
  }
});

test("two spellings of one event have one seal", async () => {
  const { raws, canonical: expected, self } = vectors("canonical").envelope;
  for (const raw of raws) assert.deepEqual([canonicalEvent(JSON.parse(raw)), await seal(JSON.parse(raw))], [expected, self]);
});

test("values without a form are refused", () => {
  for (const value of [NaN, Infinity, 2 ** 53, 1e16, "\ud800", { "\udc00": 1 }, 1n, () => {}, undefined]) {
    assert.throws(() => canonical(value), CanonicalError, String(value));
  }
  assert.equal(canonical({ b: -0, a: undefined, c: 1e21 }), '{"b":0,"c":1e+21}');
});

test("a chain has the seals of the vectors", async () => {
  for (const { event, canonical: expected, self } of vectors("chain").chain) {
    assert.deepEqual([canonicalEvent(event), await seal(event)], [expected, self]);
  }
});

test("paths of Merkle trees are verified", async () => {
  const { leaves, sizes, empty_root } = vectors("merkle");
  const hashes = await Promise.all(leaves.map((/** @type {any} */ { data_hex }) => leafHash(Buffer.from(data_hex, "hex"))));
  assert.deepEqual(hashes, leaves.map((/** @type {any} */ { leaf_hash }) => leaf_hash));
  const roots = Object.fromEntries(sizes.map((/** @type {any} */ { size, root }) => [size, root]));
  for (const { size, root, inclusion, consistency } of sizes) {
    for (const { index, path } of inclusion) {
      await verifyInclusion(hashes[index], index, size, path, root);
      await assert.rejects(verifyInclusion(hashes[index], index, size, [...path, hashes[0]], root), ProofError);
      if (path.length > 0) await assert.rejects(verifyInclusion(hashes[index], index, size, path.slice(1), root), ProofError);
    }
    for (const { first, path } of consistency) {
      await verifyConsistency(first, size, roots[first], root, path);
      await assert.rejects(verifyConsistency(first, size, roots[first], root, [...path, hashes[0]]), ProofError);
      await assert.rejects(verifyConsistency(first, size, empty_root, root, path), ProofError);
    }
  }
});

test("signed checkpoints open, others do not", async () => {
  const { vkey, accepted, refused, tree } = vectors("checkpoint");
  for (const { note } of accepted) {
    const { size, root } = await openCheckpoint(note, vkey);
    assert.deepEqual([size, root], [tree.size, tree.root_hex]);
  }
  for (const { name, note } of refused) await assert.rejects(openCheckpoint(note, vkey), ProofError, name);
  await assert.rejects(openCheckpoint(accepted[0].note, vkey.replace("95f26541", "95f26542")), ProofError);
});

test("retries follow the server and end", () => {
  const retry = { attempts: 3, delayMin: 0.1, delayMax: 10 };
  const later = new Refused(424, { error: "temporarily_unavailable" }, 2);
  assert.equal(delayOf(retry, 1, later, true), 2);
  assert.equal(delayOf(retry, 3, later, true), undefined, "the last attempt");
  assert.equal(delayOf(retry, 1, later, false), undefined, "not idempotent");
  assert.equal(delayOf(retry, 1, new Refused(424, {}, 11), true), undefined, "too long");
  assert.equal(delayOf(retry, 1, new Refused(400, { error: "invalid_request" }), true), undefined);
  const backoff = delayOf(retry, 2, new Unreachable("x", new Error("cut")), true) ?? 0;
  assert.ok(backoff >= 0.1 && backoff <= 0.2, String(backoff));
  assert.equal(delayOf(retry, 1, new Unreachable("x", new Error("cut")), false), undefined);
  const neverSent = new Unreachable("x", Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } }));
  assert.notEqual(delayOf(retry, 1, neverSent, false), undefined);
  assert.deepEqual(["3", null, "soon"].map(retryAfter), [3, undefined, undefined]);
});

test("polls slow down when the server says so", () => {
  const pace = new Pace(5, 1800);
  assert.equal(pace.after(new Refused(400, { error: "authorization_pending" })), 5);
  assert.equal(pace.after(new Refused(400, { error: "slow_down", interval: 10 })), 10);
  assert.equal(pace.after(new Refused(400, { error: "slow_down" })), 15);
  assert.equal(pace.after(new Unreachable("x", new Error("gone"))), 15);
  assert.throws(() => pace.after(new Refused(400, { error: "access_denied" })), Refused);
  assert.throws(() => new Pace(5, -1).after(new Unreachable("x", new Error("gone"))), Unreachable);
});

test("a pause ends with its signal", async () => {
  const stop = new AbortController();
  const pause = sleep(60, stop.signal);
  stop.abort(new Error("enough"));
  await assert.rejects(pause, /enough/);
});

test("ids have their form", async () => {
  for (let count = 0; count < 20; count++) {
    assert.match(await uuid7(), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.match(await newCuid(), /^[a-z][0-9a-z]{23}$/);
  }
});

test("the platform's WebCrypto is found where it is not global", () => {
  const program = "delete globalThis.crypto; const { seal } = await import('attache-client'); console.log(await seal({ hash_chain: {} }));";
  const found = execFileSync(process.execPath, ["--input-type=module", "--eval", program], { cwd: new URL("..", import.meta.url), encoding: "utf8" });
  assert.match(found, /^[0-9a-f]{64}\n$/);
});
