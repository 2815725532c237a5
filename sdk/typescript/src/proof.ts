// Offline verification of audit proofs and checkpoints, with WebCrypto's Ed25519.
//
// A proof leads from the bytes of an event over its seal, its leaf and the inclusion path to a signed checkpoint. The trusted input is the log's key.

import { canonical, isObject, parseCanonical, type JsonObject } from "./canonical.js";
import { ProofError } from "./errors.js";
import { concat, fromBase64, fromHex, hex, sha256, utf8, webCrypto, type Bytes } from "./platform.js";
import type { AuditProof, Checkpoint, Verified } from "./types.js";

/** The root of a tree without leaves. */
const EMPTY_ROOT = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** Verifies an audit proof against the log's key, or the keys of its parts, without any other input. Throws {@link ProofError}. */
export async function verify(proof: AuditProof, trusted: string | readonly string[]): Promise<Verified> {
  const vkey = typeof trusted === "string" ? trusted : (trusted.find((key) => key === proof.vkey) ?? "");
  same("schema", "audit-proof/v1", proof.schema);
  same("hash_alg", "sha256-jcs-v1", proof.hash_alg);
  same("vkey", vkey, proof.vkey);
  const content = bytes("canonical_b64", proof.canonical_b64);
  const event = canonicalObject("canonical_b64", content);
  same("self", hex(await sha256(content)), proof.self);
  const [scope, link, chain] = [event["scope"], event["hash_chain"], proof.chain];
  if (!isObject(scope) || !isObject(link) || !isObject(chain)) throw new ProofError("chain", "the event names no chain");
  same("event_id", event["event_id"], proof.event_id);
  same("chain.machine_id", scope["machine_id"], chain.machine_id);
  same("chain.agent_id", scope["agent_id"], chain.agent_id);
  same("chain.chain_epoch", event["chain_epoch"], chain.chain_epoch);
  same("chain.seq", event["seq"], chain.seq);
  same("chain.prev", link["prev"], chain.prev);
  if ((chain.prev === "GENESIS") !== (chain.prev_event_id === null)) {
    throw new ProofError("chain.prev_event_id", "must be null at the beginning of a chain, and only there");
  }
  const leafBytes = bytes("leaf_b64", proof.leaf_b64);
  const received = canonicalObject("leaf_b64", leafBytes)["received_at_ms"];
  if (!Number.isInteger(received)) throw new ProofError("leaf_b64", "has no time");
  const { prev_event_id: _, ...position } = chain;
  const { event_id, receipt_id, self } = proof;
  const leaf = canonical({ ...position, event_id, receipt_id, self, received_at_ms: received, v: 1 });
  same("leaf_b64", leaf, new TextDecoder().decode(leafBytes));
  same("leaf_hash", await leafHash(leafBytes), proof.leaf_hash);
  if (proof.status !== "included") throw new ProofError("status", "the event is pending: no checkpoint includes it yet");
  const checkpoint = await openCheckpoint(String(proof.checkpoint), vkey);
  same("tree_size", checkpoint.size, proof.tree_size);
  same("root_hash", checkpoint.root, proof.root_hash);
  if (!Array.isArray(proof.inclusion_path)) throw new ProofError("inclusion_path", "not a list");
  await verifyInclusion(proof.leaf_hash, Number(proof.leaf_index), checkpoint.size, proof.inclusion_path, checkpoint.root);
  return { eventId: event_id, receiptId: receipt_id, event, seal: self, receivedAtMs: received as number, leafIndex: Number(proof.leaf_index), checkpoint };
}

/** Verifies the signature of a checkpoint (C2SP `tlog-checkpoint` in a `signed-note`). */
export async function openCheckpoint(note: string, vkey: string): Promise<Checkpoint> {
  const { name, id, key } = await parseKey(vkey);
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || !note.endsWith("\n")) throw new ProofError("checkpoint", "not a signed note");
  const text = note.slice(0, end + 1);
  let found = false;
  for (const line of note.slice(end + 2, -1).split("\n")) {
    const [dash, signer, encoded, ...rest] = line.split(" ");
    if (dash !== "—" || encoded === undefined || rest.length > 0) throw new ProofError("checkpoint", "not a signed note");
    const signed = bytes("checkpoint", encoded);
    if (signer !== name || hex(signed.slice(0, 4)) !== id) continue;
    if (!(await isSigned(key, signed.slice(4), utf8(text)))) throw new ProofError("checkpoint", "the signature does not fit the text");
    found = true;
  }
  if (!found) throw new ProofError("checkpoint", `not signed by ${name}`);
  const lines = text.slice(0, -1).split("\n");
  const [origin = "", size = "", encoded = ""] = lines;
  const root = bytes("checkpoint", encoded);
  if (lines.includes("") || !/^(0|[1-9][0-9]*)$/.test(size) || !Number.isSafeInteger(Number(size)) || root.length !== 32) {
    throw new ProofError("checkpoint", "not a checkpoint");
  }
  same("checkpoint", name, origin);
  return { origin, size: Number(size), root: hex(root), note };
}

/** Hash of a leaf (RFC 6962, section 2.1). */
export async function leafHash(data: Uint8Array): Promise<string> {
  return hex(await sha256(concat(Uint8Array.of(0), data)));
}

/** Verifies that a path leads from a leaf hash to the root of a tree (RFC 9162, section 2.1.3.2). */
export async function verifyInclusion(leaf: string, index: number, size: number, path: readonly string[], root: string): Promise<void> {
  if (!(Number.isSafeInteger(index) && index >= 0 && index < size)) throw new ProofError("leaf_index", `${index} is beyond the tree of ${size} leaves`);
  let hashed = hash("leaf_hash", leaf);
  const walk = new Walk(index, size - 1, "inclusion_path");
  for (const sibling of path.map((step) => hash("inclusion_path", step))) {
    hashed = walk.climb() ? await node(sibling, hashed) : await node(hashed, sibling);
  }
  walk.end();
  same("inclusion_path", root, hex(hashed));
}

/** Verifies that the tree of `first` leaves is a prefix of the tree of `size` leaves (RFC 9162, section 2.1.4.2). */
export async function verifyConsistency(first: number, size: number, firstRoot: string, root: string, path: readonly string[]): Promise<void> {
  const steps = path.map((step) => hash("proof", step));
  if (!(first >= 0 && first <= size)) throw new ProofError("proof", `${first} is beyond the tree of ${size} leaves`);
  if (first === 0 || first === size) {
    if (steps.length > 0) throw new ProofError("proof", "too long");
    return same("proof", firstRoot, first === 0 ? EMPTY_ROOT : root);
  }
  let [below, last] = [first - 1, size - 1];
  while (below % 2 === 1) [below, last] = [(below - 1) / 2, Math.floor(last / 2)];
  // Below is 0 if the first tree is a perfect subtree of the second; its root then is the first hash of the path.
  const start = below === 0 ? hash("proof", firstRoot) : steps.shift();
  if (start === undefined) throw new ProofError("proof", "too short");
  let [older, newer] = [start, start];
  const walk = new Walk(below, last, "proof");
  for (const step of steps) {
    if (walk.climb()) {
      older = await node(step, older);
      newer = await node(step, newer);
    } else {
      newer = await node(newer, step);
    }
  }
  walk.end();
  same("proof", firstRoot, hex(older));
  same("proof", root, hex(newer));
}

/** The way from a node to the root. Divisions, since bit operations of numbers have 32 bits. */
class Walk {
  constructor(
    private at: number,
    private last: number,
    private readonly member: string,
  ) {}

  /** Climbs one level of the path. True if the sibling is at the left. */
  climb(): boolean {
    if (this.last === 0) throw new ProofError(this.member, "too long");
    const left = this.at % 2 === 1 || this.at === this.last;
    // A node without a right sibling is its own parent on the levels above.
    while (left && this.at % 2 === 0 && this.at !== 0) this.halve();
    this.halve();
    return left;
  }

  end(): void {
    if (this.last !== 0) throw new ProofError(this.member, "too short");
  }

  private halve(): void {
    [this.at, this.last] = [Math.floor(this.at / 2), Math.floor(this.last / 2)];
  }
}

function node(left: Bytes, right: Bytes): Promise<Bytes> {
  return sha256(concat(Uint8Array.of(1), left, right));
}

async function parseKey(vkey: string): Promise<{ name: string; id: string; key: Bytes }> {
  const [, name = "", id = "", encoded = ""] = /^([^+]+)\+([^+]+)\+(.+)$/.exec(vkey) ?? [];
  const key = bytes("vkey", encoded);
  if (key.length !== 33 || key[0] !== 1) throw new ProofError("vkey", "expected name+key id+key of Ed25519");
  same("vkey", hex(await sha256(concat(utf8(`${name}\n`), key))).slice(0, 8), id);
  return { name, id, key: key.slice(1) };
}

async function isSigned(key: Bytes, signature: Bytes, text: Bytes): Promise<boolean> {
  const { subtle } = await webCrypto();
  const imported = await subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  return subtle.verify({ name: "Ed25519" }, imported, signature, text);
}

function same(member: string, expected: unknown, found: unknown): void {
  if (expected !== found) throw new ProofError(member, `expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`);
}

function bytes(member: string, text: unknown): Bytes {
  const decoded = typeof text === "string" ? fromBase64(text) : undefined;
  if (decoded === undefined) throw new ProofError(member, "not base64");
  return decoded;
}

function hash(member: string, text: unknown): Bytes {
  const decoded = typeof text === "string" ? fromHex(text) : undefined;
  if (decoded?.length !== 32) throw new ProofError(member, "not a hash in lowercase hex");
  return decoded;
}

function canonicalObject(member: string, text: Uint8Array): JsonObject {
  try {
    return parseCanonical(text);
  } catch (error) {
    throw new ProofError(member, error instanceof Error ? error.message : String(error));
  }
}
