// Checks an audit receipt in the browser (docs/protocol/receipts.md#check-of-a-receipt). proof.js loads this script when a receipt is chosen, and
// passes the functions of `tools`. Nothing leaves the browser.

const EVENTS_MAX = 2000;
const TIME_MAX = 253402300799999;
const LISTED_MAX = 100;
const MEMBERS = ["schema", "hash_alg", "server", "vkey", "checkpoint", "head", "markdown_digest", "events"];
const OF_EVENT = ["leaf", "leaf_index", "inclusion_path", "event_type", "failed", "session_uuid", "project_id"];

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const isWord = (text, most = 64) => typeof text === "string" && text.length <= most && /^[A-Za-z0-9_.:-]+$/.test(text);

function hasWordsOnly(value) {
  if (typeof value === "string") return isWord(value);
  if (value === null || typeof value !== "object") return true;
  return Object.entries(value).every(([name, inner]) => (Array.isArray(value) || isWord(name)) && hasWordsOnly(inner));
}

const isPublishable = (event) => event.consent_level === "metadata-only" && hasWordsOnly(event);

function counted(names) {
  const counts = {};
  for (const name of [...names].sort()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

const plural = (count) => (count === 1 ? "event" : "events");

/** Steps 1 to 5 of a receipt. */
export function checker({ sha256, toHex, canonical, eventOf, climb, opened, signature, only, Fault, Missing }) {
  const encode = (text) => new TextEncoder().encode(text);

  function equal(name, expected, found) {
    if (canonical(expected) !== canonical(found ?? null)) {
      throw new Fault(`${name} is ${canonical(found ?? null)}, but it must be ${canonical(expected)}.`);
    }
  }

  /** The content of an event, compared with its leaf and its members; null if the receipt leaves it out. */
  async function contentOf(event) {
    if (event.canonical_b64 === undefined) return null;
    const { leaf } = event;
    const [text, content, bytes] = eventOf(event);
    const hash = toHex(await sha256(bytes));
    if (hash !== leaf.self) throw new Fault(`its content was changed: the SHA-256 is ${hash}, but the leaf names ${leaf.self}.`);
    if (canonical(content) !== text) throw new Fault("its content is not in its canonical form (RFC 8785).");
    const scope = content.scope ?? {};
    equal("event_id", content.event_id, leaf.event_id);
    equal("machine_id", scope.machine_id, leaf.machine_id);
    equal("agent_id", scope.agent_id, leaf.agent_id);
    equal("chain_epoch", content.chain_epoch, leaf.chain_epoch);
    equal("seq", content.seq, leaf.seq);
    equal("prev", content.hash_chain?.prev, leaf.prev);
    equal("event_type", content.event_type, event.event_type);
    equal("failed", event.event_type.endsWith(".failed") || content.payload?.succeeded === false, event.failed);
    equal("session_uuid", scope.session_uuid ?? null, event.session_uuid);
    equal("project_id", isWord(scope.project_id) ? scope.project_id : null, event.project_id);
    return content;
  }

  /** Checks one event; returns whether it has content that may not be public. */
  async function one(event, receipt, tree) {
    only("An event", event, OF_EVENT, ["canonical_b64"]);
    const { leaf } = event;
    if (leaf?.v !== 1) throw new Fault("its leaf is not of version 1.");
    if (!Number.isSafeInteger(leaf.received_at_ms) || leaf.received_at_ms < 0 || leaf.received_at_ms > TIME_MAX) {
      throw new Fault("its time of receipt is not a time.");
    }
    const hash = toHex(await sha256([0], encode(canonical(leaf))));
    const { root } = await climb({ ...event, leaf_hash: hash, tree_size: tree.size });
    if (root !== tree.root) throw new Fault("its leaf does not lead to the signed root: the leaf, its index or its path was changed.");
    if (!isWord(leaf.agent_id) || !isWord(event.event_type, 128) || (event.project_id !== null && !isWord(event.project_id))) {
      throw new Fault("agent, type or project is not a word.");
    }
    if (event.session_uuid !== null && !UUID.test(event.session_uuid)) throw new Fault("session_uuid is not a UUIDv7.");
    if (typeof event.failed !== "boolean") throw new Fault("failed is not true or false.");
    const content = await contentOf(event);
    for (const name of ["session_uuid", "project_id"]) {
      if (receipt.head[name] !== null) equal(name, receipt.head[name], event[name]);
    }
    return content !== null && !isPublishable(content);
  }

  /** The head that the events require. */
  async function summary(receipt, checked) {
    const { events } = receipt;
    const received = events.map(({ leaf }) => leaf.received_at_ms);
    const chains = {};
    for (const { leaf } of events) {
      (chains[`${leaf.machine_id} ${leaf.agent_id} ${leaf.chain_epoch}`] ??= new Set()).add(leaf.seq);
    }
    const gaps = Object.values(chains).map((places) => Math.max(...places) - Math.min(...places) + 1 - places.size);
    return {
      session_uuid: receipt.head.session_uuid, project_id: receipt.head.project_id,
      received_from_ms: Math.min(...received), received_to_ms: Math.max(...received), events: events.length,
      proven: events.filter((event) => event.canonical_b64 !== undefined).length,
      content: checked.filter((hasContent) => hasContent).length,
      failures: events.filter(({ failed }) => failed).length,
      gaps: gaps.reduce((sum, count) => sum + count, 0),
      agents: counted(events.map(({ leaf }) => leaf.agent_id)), types: counted(events.map(({ event_type: type }) => type)),
      events_digest: toHex(await sha256(encode(events.map(({ leaf, event_type, failed, session_uuid, project_id }) =>
        canonical({ leaf, event_type, failed, session_uuid, project_id })).join("")))),
    };
  }

  function tree(receipt) {
    const note = opened(receipt.checkpoint);
    return { ...note, root_b64: note.text.split("\n")[2] };
  }

  /** The Markdown that the receipt requires. */
  function markdown(receipt) {
    const { head, server, vkey } = receipt;
    const listed = (counts) => Object.keys(counts).sort().map((name) => `\`${name}\` ${counts[name]}`).join(", ");
    const time = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");
    const { origin, size, root_b64: root } = tree(receipt);
    const rows = [
      ["Agents", listed(head.agents)],
      ...(head.session_uuid === null ? [] : [["Session", `\`${head.session_uuid}\``]]),
      ...(head.project_id === null ? [] : [["Project", `\`${head.project_id}\``]]),
      ["Received", `${time(head.received_from_ms)} to ${time(head.received_to_ms)} UTC`],
      ["Kinds", listed(head.types)],
      ["Kinds proven", `${head.proven} of ${head.events}`],
      ["Gaps in chains", `${head.gaps}`],
      ["Digest of events", `\`${head.events_digest}\``],
      ["Checkpoint", `\`${origin}\`, ${size} leaves, root \`${root}\``],
      ["Key of the log", `\`${vkey}\``],
    ];
    const content = head.content === 0
      ? "The receipt has ids, digests and metadata, no content."
      : `The receipt has the content of ${head.content} ${plural(head.content)}.`;
    return `<!-- audit-receipt/v1 -->\n**attache recorded ${head.events} ${plural(head.events)}, ${head.failures} failed**\n\n` +
      `| Receipt | |\n|---|---|\n${rows.map(([name, value]) => `| ${name} | ${value} |\n`).join("")}\n` +
      `${content} Check its file at <${server}/verify>, or offline: \`attache verify receipt FILE --key KEY\`.\n`;
  }

  /**
   * Computes every step: `{ results: [{ step, state, says }], faults: [{ id, text }], markdown }`. A step that fails names the first difference.
   * @param {object} receipt the receipt, parsed
   * @param {string[]} keys the trusted keys
   */
  return async function check(receipt, keys) {
    const results = [];
    const faults = [];
    const checked = [];
    let text = "";
    const steps = {
      form() {
        only("The file", receipt, MEMBERS);
        equal("hash_alg", "sha256-jcs-v1", receipt.hash_alg);
        if (!/^https?:\/\/[A-Za-z0-9\-._~:/[\]%]+$/.test(receipt.server)) throw new Fault("server is not the URL of a server.");
        if (receipt.head === null || typeof receipt.head !== "object") throw new Fault("The receipt has no head.");
        if (!Array.isArray(receipt.events) || receipt.events.length === 0) throw new Fault("The receipt has no events.");
        if (receipt.events.length > EVENTS_MAX) throw new Fault(`The receipt has more than ${EVENTS_MAX} events.`);
        return "The file has the form audit-receipt/v1.";
      },
      async events() {
        const note = tree(receipt);
        let previous = -1;
        for (const [place, event] of receipt.events.entries()) {
          try {
            checked.push(await one(event, receipt, note));
            if (event.leaf_index <= previous) throw new Fault(`its leaf_index is not more than ${previous}, the index of the event before.`);
          } catch (error) {
            if (error instanceof Missing) throw error;
            if (!(error instanceof Fault)) console.warn(error);
            const id = event?.leaf?.event_id;
            faults.push({ id, text: `Event ${place + 1} (${id ?? "without id"}): ${error instanceof Fault ? error.message : "it cannot be read."}` });
          }
          previous = event?.leaf_index ?? previous;
        }
        if (faults.length > 0) throw new Fault(`${faults.length} of ${receipt.events.length} ${plural(receipt.events.length)} fail. ${faults[0].text}`);
        return `The leaves of ${receipt.events.length} ${plural(receipt.events.length)} lead to the root of the checkpoint.`;
      },
      signature: () => signature(receipt),
      key() {
        if (keys.length === 0) throw new Missing("No key was given to compare with. Compare the key in the Markdown with the one that you wrote down.");
        if (!keys.includes(receipt.vkey)) throw new Fault(`The receipt names the key ${receipt.vkey}, which is not the one that you trust.`);
        return "The key is the one that you trust.";
      },
      async head() {
        if (faults.length > 0) throw new Missing("The totals are not compared while events fail.");
        const expected = await summary(receipt, checked);
        only("The head", receipt.head, Object.keys(expected));
        for (const [name, value] of Object.entries(expected)) {
          if (canonical(value) !== canonical(receipt.head[name])) {
            throw new Fault(`The head says ${canonical(receipt.head[name])} for ${name}, but the events say ${canonical(value)}: the head was changed, or events were removed or added.`);
          }
        }
        const { events, failures, gaps } = receipt.head;
        return `The totals fit the events: ${events} ${plural(events)}, ${failures} failed, ${gaps} ${gaps === 1 ? "gap" : "gaps"}.`;
      },
      async markdown() {
        if (faults.length > 0) throw new Missing("The Markdown is not compared while events fail.");
        text = markdown(receipt);
        const digest = toHex(await sha256(encode(text)));
        if (digest !== receipt.markdown_digest) {
          throw new Fault(`The Markdown of this receipt has the digest ${digest}, but the receipt names ${receipt.markdown_digest}.`);
        }
        return "Compare it with the description of the pull request: they must be equal.";
      },
    };
    for (const [step, compute] of Object.entries(steps)) {
      if (results[0]?.state === "fails") {
        results.push({ step, state: "unknown", says: "Not checked, because the file does not have the form of a receipt." });
        continue;
      }
      try {
        results.push({ step, state: "holds", says: await compute() });
      } catch (error) {
        if (!(error instanceof Fault || error instanceof Missing)) console.warn(error);
        const says = error instanceof Fault || error instanceof Missing ? error.message : "This step could not be computed.";
        results.push({ step, state: error instanceof Missing ? "unknown" : "fails", says });
      }
    }
    return { results, faults, markdown: text };
  };
}

function verdict(receipt, results) {
  const failed = results.filter(({ state }) => state === "fails");
  if (failed.length > 0) {
    return `This receipt does not hold: ${failed.length === 1 ? "one step fails" : `${failed.length} steps fail`}. Do not trust it, and ask its author for a new one.`;
  }
  const unknown = results.filter(({ state }) => state === "unknown");
  if (unknown.some(({ step }) => step !== "key")) return "No step fails, but this browser could not check all of them.";
  const stated = receipt.head.events - receipt.head.proven;
  const kinds = stated === 0 ? "" : ` The types of ${stated} ${plural(stated)} are only stated, because the receipt leaves out their content.`;
  const compare = unknown.length > 0 ? " Compare the key with the one that you wrote down." : "";
  const { events, failures, content } = receipt.head;
  const disclosed = content === 0 ? "" : ` The receipt has the content of ${content} ${plural(content)}.`;
  return `Everything was computed in this browser and holds: ${events} ${plural(events)}, ${failures} failed.${kinds}${disclosed}${compare}`;
}

function listed(event) {
  const item = document.createElement("li");
  const time = new Date(event.leaf.received_at_ms).toISOString().slice(0, 19).replace("T", " ");
  const { agent_id: agent, seq } = event.leaf;
  item.textContent = `${time} UTC: ${event.event_type}${event.failed ? ", failed" : ""}, ${agent}, position ${seq}`;
  return item;
}

/** Marks each event of a page with the result of its receipt, and returns the verdict in words. */
export function mark(rows, receipt, { results, faults }) {
  const known = new Map(receipt.events.map((event) => [event.leaf.event_id, event]));
  const failing = new Set(faults.map(({ id }) => id));
  const steps = Object.fromEntries(results.map(({ step, state }) => [step, state]));
  const isChecked = steps.events !== "unknown" && steps.signature !== "unknown";
  const isSound = steps.signature === "holds" && !["key", "head", "markdown"].some((step) => steps[step] === "fails");
  let held = 0;
  for (const row of rows) {
    const event = known.get(row.dataset.event);
    const badge = row.querySelector("[data-result]");
    const holds = isChecked && isSound && event !== undefined && !failing.has(row.dataset.event);
    held += holds ? 1 : 0;
    if (holds) [badge.textContent, badge.className] = [event.canonical_b64 === undefined ? "In the log" : "Proven", "badge is-good"];
    else if (isChecked) [badge.textContent, badge.className] = ["Fails", "badge is-bad"];
    row.dataset.state = holds ? "holds" : isChecked ? "fails" : "unknown";
  }
  const hidden = receipt.events.length - held;
  if (held === rows.length && hidden === 0) return verdict(receipt, results);
  return `${held} of ${rows.length} ${plural(rows.length)} on this page hold. The steps below say why the others do not.`;
}

/** Fills the section of the page with a checked receipt. */
export function show(section, receipt, { results, faults, markdown }, badges) {
  for (const { step, state, says } of results) {
    const item = section.querySelector(`[data-step="${step}"]`);
    const badge = item.querySelector(".badge");
    [badge.textContent, badge.className] = badges[state];
    item.dataset.state = state;
    item.querySelector("[data-says]").textContent = says;
  }
  const holds = results.every(({ state }) => state !== "fails");
  const list = section.querySelector("[data-events]");
  const shown = holds ? receipt.events.slice(0, LISTED_MAX).map(listed) : faults.slice(0, LISTED_MAX).map((fault) => {
    const item = document.createElement("li");
    item.textContent = fault.text;
    return item;
  });
  list.replaceChildren(...shown);
  list.closest("details").hidden = shown.length === 0;
  const all = holds ? receipt.events.length : faults.length;
  list.closest("details").querySelector("summary").textContent = (holds ? "The events" : "The events that fail") +
    (all > shown.length ? `, the first ${shown.length} of ${all}` : "");
  const text = section.querySelector("[data-markdown]");
  text.textContent = holds ? markdown : "";
  text.closest("details").hidden = !holds;
  section.dataset.state = holds ? "included" : "fails";
  section.querySelector("[role=status]").textContent = verdict(receipt, results);
  section.hidden = false;
}
