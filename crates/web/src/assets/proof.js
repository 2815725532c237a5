// Checks an audit proof in the browser (docs/protocol/audit.md#verification) and draws it. Nothing leaves the browser.
//
// Every step is computed from the bytes of the proof: SHA-256 and Ed25519 by WebCrypto. A step that fails names the reason, and the others
// are still computed, so that the page shows where a proof was changed.

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

class Fault extends Error {}
/** The browser cannot compute this step. */
class Missing extends Error {}

function fromBase64(name, text) {
  if (typeof text !== "string") throw new Fault(`${name} is missing.`);
  let binary;
  try { binary = atob(text); } catch { throw new Fault(`${name} is not base64.`); }
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function fromHex(name, text) {
  if (typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) throw new Fault(`${name} is not a SHA-256 hash.`);
  return Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
}

const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const short = (hex) => `${hex.slice(0, 8)}…`;

function joined(...parts) {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => { bytes.set(part, at); return at + part.length; }, 0);
  return bytes;
}

async function sha256(...parts) {
  if (!globalThis.crypto?.subtle) {
    throw new Missing("This browser computes hashes only on pages with https. Use the command instead.");
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
}

/** The canonical text of a JSON value (RFC 8785). */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

function equal(name, expected, found) {
  if (expected !== found) throw new Fault(`${name} is ${found ?? "missing"}, but it must be ${expected}.`);
}

function decoded(name, bytes) {
  let text;
  try { text = decoder.decode(bytes); } catch { throw new Fault(`${name} is not UTF-8 text.`); }
  try { return [text, JSON.parse(text)]; } catch { throw new Fault(`${name} is not JSON.`); }
}

/** Throws if an object does not have exactly these members. */
function only(name, value, required, optional = []) {
  const members = value !== null && typeof value === "object" && !Array.isArray(value) ? Object.keys(value) : null;
  if (members === null) throw new Fault(`${name} is not an object.`);
  const absent = required.find((member) => !members.includes(member));
  if (absent !== undefined) throw new Fault(`${name} has no ${absent}.`);
  const other = members.find((member) => !required.includes(member) && !optional.includes(member));
  if (other !== undefined) throw new Fault(`${name} has the unknown member ${other}.`);
}

/** Text, value and bytes of the event in a proof. Throws if it cannot be read. */
function eventOf(proof) {
  const bytes = fromBase64("canonical_b64", proof.canonical_b64);
  return [...decoded("The content", bytes), bytes];
}

async function content(proof) {
  equal("schema", "audit-proof/v1", proof.schema);
  equal("hash_alg", "sha256-jcs-v1", proof.hash_alg);
  if (proof.status !== "pending") equal("status", "included", proof.status);
  const bytes = fromBase64("canonical_b64", proof.canonical_b64);
  const hash = toHex(await sha256(bytes));
  if (hash !== proof.self) {
    throw new Fault(`The content was changed: its SHA-256 is ${hash}, but the proof is about ${proof.self ?? "nothing"}.`);
  }
  const [text, event] = decoded("The content", bytes);
  if (canonical(event) !== text) throw new Fault("The content is not in its canonical form (RFC 8785).");
  const chain = proof.chain ?? {};
  equal("event_id", event.event_id, proof.event_id);
  equal("The computer", event.scope?.machine_id, chain.machine_id);
  equal("The agent", event.scope?.agent_id, chain.agent_id);
  equal("The epoch", event.chain_epoch, chain.chain_epoch);
  equal("The position", event.seq, chain.seq);
  equal("The hash of the event before", event.hash_chain?.prev, chain.prev);
  if ((chain.prev === "GENESIS") !== (chain.prev_event_id === null)) throw new Fault("The id of the event before does not fit its hash.");
  return "SHA-256 of the content is the hash that the proof is about.";
}

async function leaf(proof) {
  const bytes = fromBase64("leaf_b64", proof.leaf_b64);
  const [text, found] = decoded("The leaf", bytes);
  const chain = proof.chain ?? {};
  const expected = canonical({
    agent_id: chain.agent_id, chain_epoch: chain.chain_epoch, event_id: proof.event_id, machine_id: chain.machine_id,
    prev: chain.prev, receipt_id: proof.receipt_id, received_at_ms: found.received_at_ms, self: proof.self, seq: chain.seq, v: 1,
  });
  if (text !== expected) throw new Fault("The leaf does not name this event, its place in the chain and its hash.");
  const hash = toHex(await sha256([0], bytes));
  if (hash !== proof.leaf_hash) throw new Fault(`The leaf hashes to ${hash}, but the proof says ${proof.leaf_hash ?? "nothing"}.`);
  return "The leaf names this event and its hash, and hashes to the leaf of the tree.";
}

/** Hashes from the leaf to the root (RFC 9162, section 2.1.3.2): each with its sibling, and the side of the sibling. */
async function climb(proof) {
  const path = proof.inclusion_path;
  if (!Array.isArray(path)) throw new Fault("The path is missing.");
  if (!Number.isSafeInteger(proof.leaf_index) || !Number.isSafeInteger(proof.tree_size) || proof.leaf_index < 0 ||
      proof.leaf_index >= proof.tree_size) {
    throw new Fault(`The tree of ${proof.tree_size} leaves has no leaf ${proof.leaf_index}.`);
  }
  let place = BigInt(proof.leaf_index);
  let last = BigInt(proof.tree_size) - 1n;
  let node = fromHex("leaf_hash", proof.leaf_hash);
  const levels = [];
  for (const hash of path) {
    if (last === 0n) throw new Fault("The path is longer than the tree is high.");
    const sibling = fromHex("A hash of the path", hash);
    const isRight = (place & 1n) === 1n || place === last;
    node = isRight ? await sha256([1], sibling, node) : await sha256([1], node, sibling);
    levels.push({ sibling: hash, side: isRight ? "left" : "right", node: toHex(node) });
    if (isRight) while ((place & 1n) === 0n && place !== 0n) { place >>= 1n; last >>= 1n; }
    place >>= 1n;
    last >>= 1n;
  }
  if (last !== 0n) throw new Fault("The path ends before the root.");
  return { levels, root: toHex(node) };
}

/** Text, checkpoint and signature lines of a signed note (C2SP signed-note, tlog-checkpoint). */
function opened(note) {
  if (typeof note !== "string") throw new Fault("The checkpoint is missing.");
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || !note.endsWith("\n")) throw new Fault("The checkpoint is not a signed note.");
  const text = note.slice(0, end + 1);
  const [origin, size, root] = text.split("\n");
  if (!origin || !/^(0|[1-9][0-9]*)$/.test(size)) throw new Fault("The checkpoint names no log or no size.");
  const hash = toHex(fromBase64("The root in the checkpoint", root));
  const signatures = note.slice(end + 2, -1).split("\n").map((line) => {
    const parts = /^— (\S+) (\S+)$/.exec(line);
    if (!parts) throw new Fault("A signature line of the checkpoint cannot be read.");
    return { name: parts[1], bytes: fromBase64("A signature", parts[2]) };
  });
  return { text, origin, size: Number(size), root: hash, signatures };
}

async function path(proof) {
  const { levels, root } = await climb(proof);
  const signed = opened(proof.checkpoint).root;
  if (root !== signed) {
    throw new Fault(`The path leads from the leaf to ${short(root)}, but the root of the checkpoint is ${short(signed)}: the leaf is not there.`);
  }
  return `${levels.length} ${levels.length === 1 ? "hash leads" : "hashes lead"} from the leaf to the root of the checkpoint.`;
}

async function checkpoint(proof) {
  const note = opened(proof.checkpoint);
  if (note.size !== proof.tree_size) {
    throw new Fault(`The proof is about a tree of ${proof.tree_size} leaves, but the checkpoint is of ${note.size}.`);
  }
  if (note.root !== proof.root_hash) {
    throw new Fault(`The proof names the root ${short(String(proof.root_hash))}, but the checkpoint has ${short(note.root)}.`);
  }
  return `The checkpoint of ${note.origin} covers ${note.size} ${note.size === 1 ? "event" : "events"} and has this root.`;
}

async function verifierKey(vkey) {
  const parts = /^([^+\s]+)\+([0-9a-f]{8})\+(\S+)$/.exec(typeof vkey === "string" ? vkey.trim() : "");
  if (!parts) throw new Fault("The key of the log cannot be read.");
  const bytes = fromBase64("The key of the log", parts[3]);
  if (bytes.length !== 33 || bytes[0] !== 1) throw new Fault("The key of the log is not an Ed25519 key.");
  const id = (await sha256(encoder.encode(`${parts[1]}\n`), bytes)).slice(0, 4);
  if (toHex(id) !== parts[2]) throw new Fault("The id of the key does not fit its name and its bytes.");
  return { name: parts[1], id: parts[2], key: bytes.slice(1) };
}

async function signature(proof) {
  const note = opened(proof.checkpoint);
  const key = await verifierKey(proof.vkey);
  const own = note.signatures.filter(({ name, bytes }) => name === key.name && toHex(bytes.slice(0, 4)) === key.id);
  if (own.length === 0) throw new Fault(`The checkpoint has no signature by the key ${key.name}+${key.id}.`);
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key.key, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if (error?.name !== "NotSupportedError") throw new Fault("The key of the log is not a valid Ed25519 key.");
    throw new Missing("This browser cannot check Ed25519 signatures: Chrome 137, Firefox 129 and Safari 17 can. Use the command instead.");
  }
  for (const { bytes } of own) {
    if (!await crypto.subtle.verify({ name: "Ed25519" }, imported, bytes.slice(4), encoder.encode(note.text))) {
      throw new Fault("The signature does not fit the checkpoint: it was not made by this key, or one of them was changed.");
    }
  }
  if (note.origin !== key.name) throw new Fault(`The checkpoint is of ${note.origin}, but the key is of ${key.name}.`);
  return `The checkpoint is signed by the key ${key.name}+${key.id}.`;
}

function trusted(proof, keys, own) {
  if (keys.length === 0) throw new Missing("No key was given to compare with. Compare the key below with the one that you wrote down.");
  if (!keys.includes(proof.vkey)) throw new Fault(`The proof names the key ${proof.vkey}, which is not ${own ? "one of this server" : "the one that you trust"}.`);
  return own ? "The key is one of this server. Compare it with the one that you wrote down." : "The key is the one that you trust.";
}

/** The steps after which the checkpoint covers the event; a proof that is pending has none of them. */
const OF_TREE = ["path", "checkpoint", "signature"];

/**
 * Computes every step of a proof: `[{ step, state, says }]`, where state is `holds`, `fails`, `unknown` or `pending`.
 * @param {object} proof the proof, parsed
 * @param {string[]} keys the trusted keys
 * @param {boolean} own whether the keys are those that the server names
 */
export async function check(proof, keys, own = false) {
  const steps = { content, leaf, path, checkpoint, signature, key: async () => trusted(proof, keys, own) };
  const results = [];
  for (const [step, compute] of Object.entries(steps)) {
    if (proof.status === "pending" && OF_TREE.includes(step)) {
      results.push({ step, state: "pending", says: "The next checkpoint will include this event, usually within a second." });
      continue;
    }
    try {
      results.push({ step, state: "holds", says: await compute(proof) });
    } catch (error) {
      if (!(error instanceof Fault || error instanceof Missing)) console.warn(error);
      const says = error instanceof Fault || error instanceof Missing ? error.message : "This step could not be computed.";
      results.push({ step, state: error instanceof Missing ? "unknown" : "fails", says });
    }
  }
  return results;
}

// The picture.

const SVG = "http://www.w3.org/2000/svg";
const MARKS = { holds: "✓", fails: "✗", unknown: "?", pending: "…" };

function drawn(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A picture of the way from the content to the key. The list of steps says the same in words. */
async function picture(proof, results) {
  const state = Object.fromEntries(results.map((result) => [result.step, result.state]));
  let levels = [];
  try { ({ levels } = await climb(proof)); } catch { /* The step of the path says why. */ }
  const rows = [
    { label: "content", hash: proof.self, state: state.content },
    { label: "leaf", hash: proof.leaf_hash, state: state.leaf },
    ...levels.slice(0, -1).map(({ node, sibling, side }) => ({ label: "", hash: node, state: state.path, sibling, side })),
  ];
  const last = levels.at(-1);
  if (proof.status !== "pending") {
    rows.push({ label: "root", hash: last?.node ?? proof.root_hash, state: state.path, sibling: last?.sibling, side: last?.side });
    rows.push({ label: "checkpoint", hash: `${proof.tree_size} leaves`, state: state.checkpoint });
    rows.push({ label: "signature", hash: "Ed25519", state: state.signature });
    rows.push({ label: "key", hash: String(proof.vkey).split("+")[1] ?? "", state: state.key });
  }
  const [height, middle] = [62, 180];
  const svg = drawn("svg", { viewBox: `0 0 360 ${rows.length * height}`, role: "img", class: "proof-svg" });
  svg.append(drawn("title", {}, `From the content over ${levels.length} hashes to the signed root: ${results.filter(({ state }) => state === "holds").length} of ${results.length} steps hold`));
  rows.forEach((row, number) => {
    const y = number * height + 10;
    const kind = row.state ?? "unknown";
    if (number > 0) svg.append(drawn("path", { d: `M${middle} ${y - height + 40}V${y}`, class: `p-line p-${kind}` }));
    if (row.sibling) {
      const x = row.side === "left" ? 42 : 318;
      svg.append(drawn("path", { d: `M${x} ${y - 12}V${y + 19}H${middle}`, class: "p-line p-side" }));
      svg.append(drawn("rect", { x: x - 38, y: y - height + 26, width: 76, height: 26, rx: 6, class: "p-box p-side" }));
      svg.append(drawn("text", { x, y: y - height + 43, class: "p-hash" }, short(row.sibling)));
    }
    const wide = row.label ? 190 : 110;
    svg.append(drawn("rect", { x: middle - wide / 2, y, width: wide, height: 40, rx: 8, class: `p-box p-${kind}` }));
    const hash = /^[0-9a-f]{64}$/.test(row.hash ?? "") ? short(row.hash) : row.hash ?? "";
    svg.append(drawn("text", { x: middle - 8, y: y + 25, class: "p-hash" }, row.label ? `${row.label} ${hash}` : hash));
    svg.append(drawn("text", { x: middle + wide / 2 - 14, y: y + 26, class: `p-mark p-${kind}` }, MARKS[kind]));
  });
  return svg;
}

// The page.

const BADGES = {
  holds: ["Holds", "badge is-good"], fails: ["Fails", "badge is-bad"],
  unknown: ["Not checked", "badge is-warn"], pending: ["Soon", "badge is-warn"],
};

function verdict(proof, results) {
  const failed = results.filter(({ state }) => state === "fails");
  if (failed.length > 0) return `This proof does not hold: ${failed.length === 1 ? "one step fails" : `${failed.length} steps fail`}.`;
  if (proof.status === "pending") return "This event is recorded, but not yet in a signed checkpoint. This page looks again by itself.";
  const unknown = results.filter(({ state }) => state === "unknown");
  if (unknown.some(({ step }) => step !== "key")) return "No step fails, but this browser could not check all of them.";
  if (unknown.length > 0) return "Everything was computed in this browser and holds. Compare the key with the one that you wrote down.";
  return "Everything was computed in this browser and holds: the event has not changed since it was signed.";
}

/** Fills the section with the values and the results of a proof. */
async function show(section, proof, keys, further = []) {
  const results = [...await check(proof, keys, "proof" in section.dataset), ...further.map((compute) => compute(proof))];
  for (const element of section.querySelectorAll("[data-value]")) {
    const value = proof[element.dataset.value];
    element.textContent = value ?? "–";
  }
  for (const { step, state, says } of results) {
    const item = section.querySelector(`[data-step="${step}"]`);
    if (!item) continue;
    const badge = item.querySelector(".badge");
    [badge.textContent, badge.className] = BADGES[state];
    item.dataset.state = state;
    item.querySelector("[data-says]").textContent = says;
  }
  const figure = section.querySelector("figure");
  figure.replaceChildren(await picture(proof, results));
  figure.hidden = false;
  section.dataset.state = results.some(({ state }) => state === "fails") ? "fails" : proof.status;
  section.querySelector("[role=status]").textContent = verdict(proof, results);
  section.hidden = false;
  return results;
}

function at(value, pointer) {
  return pointer.split("/").slice(1).reduce(
    (inner, name) => inner?.[name.replaceAll("~1", "/").replaceAll("~0", "~")], value);
}

function leaves(value) {
  if (value === null || typeof value !== "object" || Object.keys(value).length === 0) return 1;
  return Object.values(value).reduce((sum, inner) => sum + leaves(inner), 0);
}

/** Whether what the page shows as content is the content of the proof. */
function shown(proof) {
  try {
    const [, event] = eventOf(proof);
    const members = [...document.querySelectorAll("[data-pointer]")];
    for (const element of members) {
      const [value, text] = [at(event, element.dataset.pointer), element.textContent];
      const whole = value === text || (() => { try { return canonical(JSON.parse(text)) === canonical(value); } catch { return false; } })();
      const isCut = "cut" in element.dataset && typeof value === "string" && value.startsWith(text);
      if (value === undefined || !(whole || isCut)) {
        return { step: "shown", state: "fails", says: `This page shows another value for ${element.dataset.pointer} than the proof has.` };
      }
    }
    const hidden = leaves(event) - members.length;
    const more = document.querySelector("[data-left-out]");
    if (hidden > 0 && !more) return { step: "shown", state: "fails", says: "The proof has members that this page does not show." };
    return { step: "shown", state: "holds", says: "What this page shows above is what the proof contains." };
  } catch (error) {
    return { step: "shown", state: "fails", says: error.message };
  }
}

const words = (text) => (text ?? "").split(/\s+/).filter(Boolean);

/** Fetches the proof of an event page and shows it; asks again while no checkpoint covers the event. */
async function fetched(section, delay) {
  let proof;
  try {
    const answer = await fetch(section.dataset.proof, { headers: { Accept: "application/json" }, cache: "no-store" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    proof = await answer.json();
  } catch {
    section.querySelector("[role=status]").textContent = "The proof could not be loaded. Reload this page to try again.";
    return;
  }
  await show(section, proof, words(section.dataset.keys), [shown]);
  if (proof.status === "pending") setTimeout(() => fetched(section, Math.min(delay * 2, 15000)), delay);
}

for (const section of document.querySelectorAll("#proof[data-proof]")) fetched(section, 1000);

/** What a receipt is checked with. */
const receiptTools = { sha256, toHex, canonical, eventOf, climb, opened, signature, only, Fault, Missing };

/** The page that checks a file. */
const form = document.querySelector("form[data-verify]");
if (form) {
  const [file, key] = [form.querySelector("input[type=file]"), form.querySelector("textarea")];
  const [section, fault] = [document.querySelector("#proof"), form.querySelector("[role=alert]")];
  const BYTES_MAX = 8 * 1024 * 1024;
  const receipts = document.querySelector("#receipt");
  const receipt = async (value) => {
    const { checker, show: showReceipt } = await import(form.dataset.receipt);
    const check = checker(receiptTools);
    showReceipt(receipts, value, await check(value, words(key.value)), BADGES);
    receipts.querySelector("h2").focus();
  };
  const run = async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    fault.textContent = "";
    section.hidden = true;
    receipts.hidden = true;
    try {
      if (chosen.size > BYTES_MAX) throw new Fault("This file is too large to be a proof.");
      let proof;
      try { proof = JSON.parse(await chosen.text()); } catch { throw new Fault("This file is not JSON."); }
      if (proof?.schema === "audit-receipt/v1") return await receipt(proof);
      if (proof?.schema !== "audit-proof/v1") throw new Fault("This file is not a proof of the form audit-proof/v1, and not a receipt of the form audit-receipt/v1.");
      equal("hash_alg", "sha256-jcs-v1", proof.hash_alg);
      await show(section, proof, words(key.value));
      section.querySelector("h2").focus();
    } catch (error) {
      fault.textContent = error.message;
    }
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  file.addEventListener("change", run);
  key.addEventListener("change", run);
}

/** The page of an audit link: checks the receipt that the page has, and marks each of its events. */
const audit = document.querySelector("[data-audit]");
if (audit) {
  const receipt = JSON.parse(document.querySelector("#receipt-data").textContent);
  const [key, verdictOf] = [audit.querySelector("textarea"), audit.querySelector("[role=status]")];
  let turn = 0;
  const run = async () => {
    const mine = ++turn;
    const { checker, mark, show: showReceipt } = await import(audit.dataset.audit);
    const check = checker(receiptTools);
    const checked = await check(receipt, words(key.value));
    if (mine !== turn) return;
    showReceipt(document.querySelector("#receipt"), receipt, checked, BADGES);
    verdictOf.textContent = mark(document.querySelectorAll("[data-event]"), receipt, checked);
  };
  key.addEventListener("input", run);
  run();
}
