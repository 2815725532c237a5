// The account and agent API of a server.

import { Chain, type ChainOptions } from "./chain.js";
import { ProofError } from "./errors.js";
import { Http, Pace, type Options } from "./http.js";
import { newCuid, sleep, uuid7 } from "./platform.js";
import { openCheckpoint, verifyConsistency } from "./proof.js";
import type {
  AccountSummary, ActivityPage, AgentSessions, AgentSessionTimeline, AuditProof, Checkpoint, Claim, Computer, Costs, DeviceCode, EventType, Lane, Level,
  LogKey, Registration, SessionQuery, Tokens,
} from "./types.js";

/** An access token is exchanged this many milliseconds before it expires. */
const REFRESH_AHEAD = 60_000;

export interface WaitOptions {
  /** Called with the length of each pause, in seconds. */
  waiting?: (seconds: number) => void;
  signal?: AbortSignal;
}

export interface AgentOptions {
  /** Receives the new tokens of an exchange, to store their identity assertion. */
  onRefresh?: (tokens: Tokens) => void;
}

/**
 * The account and agent API of a server. `token` is the credential of requests; see {@link Client.asComputer} and {@link Client.asAgent}.
 */
export class Client extends Http {
  private agent: { tokens: Tokens; expires: number; renewal?: Promise<void> | undefined; onRefresh?: AgentOptions["onRefresh"] } | undefined;

  constructor(baseUrl: string, options: Options = {}) {
    super(baseUrl, options);
  }

  /** A client that acts as a computer. */
  asComputer(computer: Computer): Client {
    return new Client(this.baseUrl, { ...this.options, token: computer.machine_secret });
  }

  /** A client that acts as an agent, and exchanges its identity assertion before the access token expires. */
  asAgent(tokens: Tokens, { onRefresh }: AgentOptions = {}): Client {
    const client = new Client(this.baseUrl, this.options);
    client.agent = { tokens, expires: Date.now() + tokens.expires_in * 1000, onRefresh };
    return client;
  }

  protected override async bearer(): Promise<string | undefined> {
    if (this.agent === undefined) return super.bearer();
    if (Date.now() > this.agent.expires - REFRESH_AHEAD) await this.renew(this.agent.tokens.access_token);
    return this.agent.tokens.access_token;
  }

  protected override async renew(token: string | undefined): Promise<boolean> {
    const agent = this.agent;
    if (agent?.tokens.identity_assertion === undefined) return false;
    if (agent.tokens.access_token === token) {
      // Concurrent requests share one exchange.
      agent.renewal ??= this.exchanged(agent).finally(() => (agent.renewal = undefined));
      await agent.renewal;
    }
    return true;
  }

  private async exchanged(agent: NonNullable<Client["agent"]>): Promise<void> {
    const { token: _, ...options } = this.options;
    agent.tokens = await new Client(this.baseUrl, options).exchangeAssertion(agent.tokens.identity_assertion ?? "");
    agent.expires = Date.now() + agent.tokens.expires_in * 1000;
    agent.onRefresh?.(agent.tokens);
  }

  /** Registers an agent: for the person with an e-mail address, whose claim then starts, or anonymously. */
  registerAgent({ loginHint }: { loginHint?: string } = {}): Promise<Registration> {
    const json = loginHint === undefined ? { type: "anonymous" } : { type: "service_auth", login_hint: loginHint };
    return this.json("POST", "/api/v1/agent-auth/identity", { json });
  }

  /** Starts a claim, or starts it again with a new link and code. `email` binds it to one person. */
  async startClaim(claimToken: string, { email }: { email?: string } = {}): Promise<Claim> {
    const json = { claim_token: claimToken, email };
    return (await this.json<{ claim: Claim }>("POST", "/api/v1/agent-auth/claim", { json })).claim;
  }

  /** Polls until a person completes the claim. Throws `Refused` with `expired_token` after its end, and `invalid_grant` if the agent was revoked. */
  waitClaimed(claimToken: string, claim: Claim, options: WaitOptions = {}): Promise<Tokens> {
    return polled(() => this.exchangeClaim(claimToken), claim, options);
  }

  /** Exchanges a claim token once. Throws `Refused` with `authorization_pending` before the claim. */
  exchangeClaim(claimToken: string): Promise<Tokens> {
    return this.tokens({ grant_type: "urn:svc:agent-auth:grant-type:claim", claim_token: claimToken });
  }

  /** Exchanges an identity assertion for an access token and, after the claim, a new assertion. */
  exchangeAssertion(identityAssertion: string): Promise<Tokens> {
    return this.tokens({ grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion: identityAssertion });
  }

  private tokens(form: Record<string, string>): Promise<Tokens> {
    return this.json("POST", "/api/v1/agent-auth/token", { form, idempotent: true });
  }

  /** Ends an access token. The identity assertion remains valid. */
  async revokeToken(accessToken: string): Promise<void> {
    await this.request("POST", "/api/v1/agent-auth/revoke", { form: { token: accessToken }, idempotent: true });
  }

  /** Registers a computer, by default with fresh ids. Its secret is part of this response only: store it. */
  async registerComputer(options: { name?: string; userCuid?: string; machineUuid?: string; enrolmentKey?: string } = {}): Promise<Computer> {
    const { name, userCuid = await newCuid(), machineUuid = await uuid7(), enrolmentKey } = options;
    return this.json("POST", "/api/v1/machines", { json: { user_cuid: userCuid, machine_uuid: machineUuid, name }, token: enrolmentKey });
  }

  /** Requests the code with which a person attaches the computer to their account. */
  deviceCode({ user_cuid, machine_uuid, machine_secret }: Computer): Promise<DeviceCode> {
    return this.json("POST", "/api/v1/device/code", { json: { user_cuid, machine_uuid }, token: machine_secret });
  }

  /**
   * Polls until a person approves the computer, at the server's pace. Returns the account's id. Throws `Refused` with `access_denied` or
   * `expired_token`.
   */
  async waitAttached(code: DeviceCode, options: WaitOptions = {}): Promise<string> {
    const json = { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code: code.device_code };
    const poll = (): Promise<{ user_account_id: string }> => this.json("POST", "/api/v1/device/token", { json });
    return (await polled(poll, code, options)).user_account_id;
  }

  /** The chain of one agent kind on a computer. */
  chain(computer: Computer, options: ChainOptions = {}): Chain {
    return new Chain(this.asComputer(computer), computer, options);
  }

  /** Account, usage, computers and agents. For agents. */
  accountSummary(): Promise<AccountSummary> {
    return this.json("GET", "/api/v1/account/summary");
  }

  /** A page of recorded events, newest first. */
  activity(query: { limit?: number; cursor?: string; since?: string; lane?: Lane } = {}): Promise<ActivityPage> {
    return this.json("GET", "/api/v1/activity", { query });
  }

  /** A page of sessions of agents, the one with the newest event first. */
  sessions(query: SessionQuery = {}): Promise<AgentSessions> {
    return this.json("GET", "/api/v1/activity/sessions", { query });
  }

  /** Tokens and costs of models in the last days, 1 to 400. */
  costs(days = 30): Promise<Costs> {
    return this.json("GET", "/api/v1/usage/costs", { query: { days } });
  }

  /** A session of an agent, and a page of its events, newest first. */
  session(id: string, query: { limit?: number; cursor?: string } = {}): Promise<AgentSessionTimeline> {
    return this.json("GET", `/api/v1/activity/sessions/${encodeURIComponent(id)}`, { query });
  }

  /** The effective level of a computer: its own with a machine secret, `machineUuid` as an agent. */
  async consent(lane: Lane, machineUuid?: string): Promise<Level> {
    return (await this.json<{ level: Level }>("GET", "/api/v1/consent", { query: { lane, machine_uuid: machineUuid } })).level;
  }

  /** Sets a level; returns the level in force. */
  async setConsent(level: Level, options: { lane?: Lane; machineUuid?: string; reason?: string } = {}): Promise<Level> {
    const json = { level, lane: options.lane, machine_uuid: options.machineUuid, reason: options.reason };
    return (await this.json<{ level: Level }>("POST", "/api/v1/consent", { json, idempotent: true })).level;
  }

  /** Pauses recording, on this computer or as an agent on all; returns the time at which the pause ends by itself. */
  async pauseRecording(seconds: number, machineUuid?: string): Promise<string> {
    const json = { seconds, machine_uuid: machineUuid };
    return (await this.json<{ paused_until: string }>("POST", "/api/v1/consent/pause", { json, idempotent: true })).paused_until;
  }

  /** Ends a pause early that this computer began; the pause of another party only a person ends. */
  async endPause(machineUuid?: string): Promise<void> {
    await this.json("DELETE", "/api/v1/consent/pause", { query: { machine_uuid: machineUuid } });
  }

  /** Event types by name. */
  async eventRegistry(): Promise<Map<string, EventType>> {
    const { event_types } = await this.json<{ event_types: EventType[] }>("GET", "/api/v1/events/registry");
    return new Map(event_types.map((entry) => [entry.event_type, entry]));
  }

  /** The audit proof of an event as it is now: `included`, or `pending` until a checkpoint covers the event. */
  proof(eventId: string): Promise<AuditProof> {
    return this.json("GET", "/api/v1/audit/verify", { query: { event_id: eventId } });
  }

  /** The audit proof of an event, once a checkpoint covers it, or after the timeout in seconds as it is then. */
  async waitProof(eventId: string, { timeout = 30, signal }: { timeout?: number; signal?: AbortSignal } = {}): Promise<AuditProof> {
    for (const end = Date.now() + timeout * 1000; ; ) {
      const proof = await this.proof(eventId);
      if (proof.status === "included" || Date.now() > end) return proof;
      await sleep(0.25, signal);
    }
  }

  /** The keys of the log. Pin the active one (`retired_at` is null) from a source that you trust. */
  async logKeys(): Promise<LogKey[]> {
    return (await this.json<{ keys: LogKey[] }>("GET", "/api/v1/audit/keys")).keys;
  }

  /** The newest checkpoint, verified: signed by the key, and of a log that only grew since `seen`. Store it for the next call. `log` is the part with this key, as in {@link LogKey}. */
  async observe(vkey: string, seen?: Checkpoint, log?: number): Promise<Checkpoint> {
    const part = log ? { log } : {};
    const newest = await openCheckpoint(await (await this.request("GET", "/api/v1/audit/checkpoint", { query: part })).text(), vkey);
    if (seen === undefined || seen.size === 0) return newest;
    if (newest.size < seen.size) throw new ProofError("checkpoint", `the log was rolled back from ${seen.size} to ${newest.size} events`);
    const query = { ...part, from: seen.size, to: newest.size };
    const grown = newest.size > seen.size ? await this.json<{ proof: string[] }>("GET", "/api/v1/audit/consistency", { query }) : { proof: [] };
    await verifyConsistency(seen.size, newest.size, seen.root, newest.root, grown.proof);
    return newest;
  }
}

async function polled<T>(poll: () => Promise<T>, code: { interval: number; expires_in: number }, { waiting, signal }: WaitOptions): Promise<T> {
  const pace = new Pace(code.interval, code.expires_in);
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await poll();
    } catch (error) {
      const pause = pace.after(error);
      waiting?.(pause);
      await sleep(pause, signal);
    }
  }
}
