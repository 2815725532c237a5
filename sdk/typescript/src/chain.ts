// The chain of one agent kind on a computer.

import { canonical, canonicalEvent, isObject, seal, type JsonObject } from "./canonical.js";
import type { Client } from "./client.js";
import { Refused, StateError, Unconfirmed, Unreachable } from "./errors.js";
import { fromBase64, uuid7 } from "./platform.js";
import type { AuditProof, Computer, EventType, Lane, Level, Outcome } from "./types.js";

/** Milliseconds for which a level of consent is believed. */
const CONSENT_KEPT = 30_000;

/** Where a chain keeps its state. `save` replaces the text as a whole. One process at a time may use it. */
export interface ChainStorage {
  load(): Promise<string | undefined>;
  save(text: string): Promise<void>;
}

export interface ChainOptions {
  /** Agent kind, such as `claude-code`; default `svc-cli`. */
  agentId?: string;
  /** Storage that belongs to this chain alone, such as `fileState("chain.json")`. Without it a restart cannot resume. */
  state?: ChainStorage;
}

export interface SendOptions {
  /** Sends the event as it is, at this level. By default the person's consent decides. */
  level?: Level;
  /** Lane of a type that the registry does not have. */
  lane?: Lane;
  /** UUIDv7. With the id of the pending event, that event is sent again. */
  eventId?: string;
  projectId?: string;
  sessionUuid?: string;
  redacted?: boolean;
}

interface State {
  version: 1;
  machine_uuid: string;
  agent_id: string;
  next: { chain_epoch: number; seq: number; prev: string };
  pending: { event_id: string; body: string } | null;
}

/**
 * Records events on one chain, each exactly once.
 *
 * An event is sealed, stored in the state and sent until the server has answered. After {@link Unconfirmed}, or a crash, the next call of `send` or
 * `resume` sends the same bytes first.
 */
export class Chain {
  readonly agentId: string;
  private state: State | undefined;
  private registry: Promise<Map<string, EventType>> | undefined;
  private readonly levels = new Map<Lane, { level: Level; read: number }>();
  private last: Promise<unknown> = Promise.resolve();
  private readonly storage: ChainStorage | undefined;

  /** @internal Use {@link Client.chain}. */
  constructor(
    private readonly client: Client,
    readonly computer: Computer,
    options: ChainOptions = {},
  ) {
    this.agentId = options.agentId ?? "svc-cli";
    this.storage = options.state;
  }

  /**
   * Records an event. By default the person's consent decides what leaves this computer: at `off` nothing, at `metadata-only` the event without the
   * content fields of its type.
   */
  send(eventType: string, payload: JsonObject, options: SendOptions = {}): Promise<Outcome> {
    return this.alone(() => this.record(eventType, payload, options));
  }

  /** Sends the pending event of an earlier call or process again; undefined if there is none. */
  resume(): Promise<Outcome | undefined> {
    return this.alone(async () => this.deliver(await this.opened()));
  }

  /** Id of the event whose outcome is unknown, if there is one. */
  pending(): Promise<string | undefined> {
    return this.alone(async () => (await this.opened()).pending?.event_id);
  }

  /** Runs one action after the other. */
  private alone<T>(action: () => Promise<T>): Promise<T> {
    const done = this.last.then(action, action);
    this.last = done.catch(() => undefined);
    return done;
  }

  private async record(eventType: string, payload: JsonObject, options: SendOptions): Promise<Outcome> {
    const state = await this.opened();
    const settled = await this.deliver(state);
    if (options.eventId !== undefined && settled !== undefined && settled.status !== "withheld" && settled.eventId === options.eventId) return settled;
    const known = (await this.types()).get(eventType);
    const lane = options.lane ?? known?.lane;
    if (lane === undefined) throw new TypeError(`${eventType} is not a registered event type; with a lane it is sent anyway, and held`);
    const level = options.level ?? (await this.level(lane));
    let [kept, redacted] = [payload, options.redacted ?? false];
    if (options.level === undefined) {
      if (level === "off") return { status: "withheld", lane };
      if (level !== "full") {
        const content = known?.content_fields ?? [];
        kept = Object.fromEntries(Object.entries(payload).filter(([name]) => !content.includes(name)));
        redacted ||= content.some((name) => payload[name] !== undefined);
      }
    }
    const { user_cuid, machine_uuid } = this.computer;
    const scope = { user_id: user_cuid, machine_id: machine_uuid, agent_id: this.agentId, project_id: options.projectId, session_uuid: options.sessionUuid };
    const event_id = options.eventId ?? (await uuid7());
    const named = { schema_version: "v1", event_id, event_type: eventType, lane, ts_edge_ms: Date.now() };
    await this.put(state, { ...named, consent_level: level, redacted, scope, payload: kept });
    return (await this.deliver(state)) as Outcome;
  }

  private types(): Promise<Map<string, EventType>> {
    const read = (this.registry ??= this.client.eventRegistry());
    read.catch(() => (this.registry = undefined));
    return read;
  }

  private async level(lane: Lane): Promise<Level> {
    const known = this.levels.get(lane);
    if (known !== undefined && Date.now() < known.read + CONSENT_KEPT) return known.level;
    const level = await this.client.consent(lane);
    this.levels.set(lane, { level, read: Date.now() });
    return level;
  }

  /** Sends the pending event until it is settled. */
  private async deliver(state: State): Promise<Outcome | undefined> {
    for (let moved = false; state.pending !== null; ) {
      const { event_id: eventId, body } = state.pending;
      let answer: { receipt_id: string } | { held: true; warning: string };
      try {
        answer = await this.client.json("POST", "/api/v1/events", { text: body, idempotent: true });
      } catch (error) {
        if (!(error instanceof Refused)) throw error instanceof Unreachable ? new Unconfirmed(eventId, error) : error;
        const expected = error.body["expected"];
        if (["chain_conflict", "chain_broken"].includes(error.code) && isObject(expected) && !moved) {
          moved = true;
          state.next = expected as State["next"];
          await this.put(state, JSON.parse(body) as JsonObject);
          continue;
        }
        if (error.code === "event_id_conflict") return this.compared(state, eventId, body, error);
        if (error.status !== 413) throw new Unconfirmed(eventId, error);
        await this.settle(state);
        throw error;
      }
      if ("held" in answer) {
        await this.settle(state);
        return { status: "held", eventId, reason: answer.warning.split(":")[0] ?? "", warning: answer.warning };
      }
      const sealed = JSON.parse(body) as { chain_epoch: number; seq: number; hash_chain: { self: string } };
      state.next = { chain_epoch: sealed.chain_epoch, seq: sealed.seq + 1, prev: sealed.hash_chain.self };
      await this.settle(state);
      return { status: "recorded", eventId, receiptId: answer.receipt_id };
    }
    return undefined;
  }

  /** The log has an event with this id: the same one at an earlier position, or another. */
  private async compared(state: State, eventId: string, body: string, conflict: Refused): Promise<Outcome> {
    let proof: AuditProof;
    try {
      proof = await this.client.proof(eventId);
    } catch (error) {
      if (!(error instanceof Refused) || error.retryable) throw new Unconfirmed(eventId, error);
      await this.settle(state);
      throw conflict;
    }
    await this.settle(state);
    const logged = JSON.parse(new TextDecoder().decode(fromBase64(proof.canonical_b64))) as JsonObject;
    if (content(logged) !== content(JSON.parse(body) as JsonObject)) throw conflict;
    return { status: "recorded", eventId, receiptId: proof.receipt_id };
  }

  private async opened(): Promise<State> {
    if (this.state !== undefined) return this.state;
    const { machine_uuid } = this.computer;
    const fresh: State = { version: 1, machine_uuid, agent_id: this.agentId, next: { chain_epoch: 0, seq: 0, prev: "GENESIS" }, pending: null };
    const text = await this.storage?.load();
    if (text === undefined) return (this.state = fresh);
    let stored: State;
    try {
      stored = JSON.parse(text) as State;
    } catch (error) {
      throw new StateError("the state is not JSON", { cause: error });
    }
    if (!isObject(stored) || stored.machine_uuid !== machine_uuid || stored.agent_id !== this.agentId || !isObject(stored.next)) {
      throw new StateError(`the state is not that of computer ${machine_uuid}, agent ${this.agentId}`);
    }
    return (this.state = stored);
  }

  /** Seals an event for the next position and stores it as pending. */
  private async put(state: State, event: JsonObject): Promise<void> {
    const { chain_epoch, seq, prev } = state.next;
    const draft = { ...event, chain_epoch, seq, hash_chain: { prev } };
    const body = canonical({ ...draft, hash_chain: { prev, self: await seal(draft) } });
    state.pending = { event_id: String(event["event_id"]), body };
    await this.storage?.save(JSON.stringify(state));
  }

  private async settle(state: State): Promise<void> {
    state.pending = null;
    await this.storage?.save(JSON.stringify(state));
  }
}

/** An event without its position and its time. */
function content(event: JsonObject): string {
  return canonicalEvent({ ...event, chain_epoch: 0, seq: 0, ts_edge_ms: 0, hash_chain: {} });
}
