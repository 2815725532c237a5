// The knowledge API of a server.

import { BatchFailed, Unreachable } from "./errors.js";
import { Http, type Options } from "./http.js";
import { sleep, uuid7 } from "./platform.js";
import type { BatchMessage, Imported, Memory, MemoryChange, MemoryEntry, MemoryType, Note, SearchResult, Space } from "./types.js";

/** Seconds without a byte after which a stream is interrupted. The server sends a comment at least every 15 s. */
const SILENCE_MAX = 60;
const KNOWN = ["progress", "success", "error", "skipped", "complete"];

/** The knowledge API of a server. `token` is an API key. */
export class Knowledge extends Http {
  constructor(baseUrl: string, options: Options & { token: string }) {
    super(baseUrl, options);
  }

  /** The spaces of the account, the default space first. */
  async spaces(): Promise<Space[]> {
    return (await this.json<{ spaces: Space[] }>("GET", "/v1/spaces")).spaces;
  }

  /** Creates a space. */
  async createSpace(name: string, { isPublic = false }: { isPublic?: boolean } = {}): Promise<Space> {
    return (await this.json<{ space: Space }>("POST", "/v1/spaces/create", { json: { spaceName: name, isPublic } })).space;
  }

  /** Changes name, publicity or mark of a space. */
  async updateSpace(spaceId: string, change: { spaceName?: string; isPublic?: boolean; isFavorite?: boolean }): Promise<Space> {
    const path = `/v1/spaces/${encodeURIComponent(spaceId)}`;
    return (await this.json<{ space: Space }>("PATCH", path, { json: change, idempotent: true })).space;
  }

  /** Deletes a space. Memories that are in no other space move to the default space, or are deleted too. Returns their numbers. */
  async deleteSpace(spaceId: string, { deleteMemories = false }: { deleteMemories?: boolean } = {}): Promise<{ moved: number; deleted: number }> {
    const query = deleteMemories ? { memories: "delete" } : {};
    return this.json("DELETE", `/v1/spaces/${encodeURIComponent(spaceId)}`, { query });
  }

  /** Memories that fit a query, most similar first. */
  async search(query: string, options: { limit?: number; threshold?: number; spaces?: string[] } = {}): Promise<SearchResult[]> {
    return (await this.json<{ results: SearchResult[] }>("POST", "/v1/search", { json: { query, ...options }, idempotent: true })).results;
  }

  /** A memory with its whole text. */
  memory(memoryId: string): Promise<Memory> {
    return this.json("GET", `/v1/memories/${encodeURIComponent(memoryId)}`);
  }

  /** The memories of a space, type, tag or day (UTC, `2026-01-31`), newest first, read in pages. */
  async *memories(filter: { space?: string; type?: MemoryType; tag?: string; day?: string } = {}): AsyncGenerator<MemoryEntry, void, undefined> {
    let cursor: string | undefined;
    do {
      const query = { ...filter, limit: 100, cursor };
      const page = await this.json<{ memories: MemoryEntry[]; nextCursor: string | null }>("GET", "/v1/memories", { query });
      yield* page.memories;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Changes the given members of a memory. */
  updateMemory(memoryId: string, change: MemoryChange): Promise<Memory> {
    return this.json("PATCH", `/v1/memories/${encodeURIComponent(memoryId)}`, { json: change, idempotent: true });
  }

  /** Deletes a memory, or removes it from the spaces of a limited key. */
  async deleteMemory(memoryId: string): Promise<void> {
    await this.request("DELETE", `/v1/memories/${encodeURIComponent(memoryId)}`);
  }

  /** All memories, oldest first. An error means that the export is incomplete. */
  async *export(): AsyncGenerator<Memory, void, undefined> {
    const response = await this.request("GET", "/v1/export", { stream: true });
    try {
      for await (const line of lines(response)) if (line !== "") yield JSON.parse(line) as Memory;
    } catch (error) {
      throw new Unreachable(`${this.baseUrl}/v1/export`, error);
    }
  }

  /** Stores lines of an export, at most 10,000 at once. A memory that the account has remains as it is, so an import may be repeated. */
  async importMemories(memories: object[]): Promise<Imported> {
    const text = memories.map((memory) => `${JSON.stringify(memory)}\n`).join("");
    const headers = { "content-type": "application/x-ndjson" };
    const response = await this.request("POST", "/v1/import", { text, headers, idempotent: true, stream: true });
    const errors: Imported["errors"] = [];
    let cause: unknown = new Error("the answer to an import is incomplete");
    try {
      for await (const line of lines(response)) {
        const { type, ...message } = JSON.parse(line === "" ? "{}" : line) as { type?: string } & Imported & Imported["errors"][number];
        if (type === "error") errors.push({ index: message.index, error: message.error, message: message.message });
        if (type === "complete") return { created: message.created, existing: message.existing, failed: message.failed, errors };
      }
    } catch (error) {
      cause = error;
    }
    throw new Unreachable(`${this.baseUrl}/v1/import`, cause);
  }

  /**
   * Adds pages and notes. Returns once the server has stored the batch, which continues if this program ends. Another request with the same
   * `idempotencyKey` and the same items within 24 hours joins the same batch.
   */
  async add(items: { urls?: string[]; contents?: Note[]; spaces?: string[] }, { idempotencyKey }: { idempotencyKey?: string } = {}): Promise<Batch> {
    // A request whose answer was lost is repeated with its key, and joins the same batch.
    const headers = { "idempotency-key": idempotencyKey ?? (await uuid7()) };
    const response = await this.request("POST", "/v1/batch-add", { json: items, headers, stream: true, idempotent: true });
    return new Batch(this, response.headers.get("x-batch-id") ?? "", undefined, response);
  }

  /** The stream of a batch, from its beginning or after a message. */
  join(batchId: string, lastEventId?: string): Batch {
    return new Batch(this, batchId, lastEventId, undefined);
  }

  /** Cancels a batch: items without an outcome get the error `cancelled`. */
  async cancel(batchId: string): Promise<void> {
    await this.request("DELETE", `/v1/batch-add/${encodeURIComponent(batchId)}`, { idempotent: true });
  }
}

/** The messages of a batch, for `for await`. An interrupted stream is resumed after the last message, without gaps and duplicates. */
export class Batch implements AsyncIterable<BatchMessage> {
  /** @internal Use {@link Knowledge.add} and {@link Knowledge.join}. */
  constructor(
    private readonly knowledge: Knowledge,
    readonly id: string,
    /** Id of the last message, after which the stream can be joined. */
    public lastEventId: string | undefined,
    private response: Response | undefined,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<BatchMessage, void, undefined> {
    const { attempts, delayMin } = this.knowledge.retry;
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const response = this.response ?? (await this.joined());
      this.response = undefined;
      // The last message was read before.
      if (response.status === 204) return;
      for await (const { id, data } of messages(response)) {
        this.lastEventId = id ?? this.lastEventId;
        const message = JSON.parse(data) as BatchMessage & { fatal?: boolean };
        if (message.type === "error" && message.fatal) throw new BatchFailed(this.id, this.lastEventId, message.error, message.message);
        attempt = 0;
        if (KNOWN.includes(message.type)) yield message;
        if (message.type === "complete") return;
      }
      await sleep(Math.min(delayMin * (attempt + 1), 1));
    }
    throw new BatchFailed(this.id, this.lastEventId, "interrupted", "the stream ends again and again");
  }

  private async joined(): Promise<Response> {
    const headers: Record<string, string> = this.lastEventId === undefined ? {} : { "last-event-id": this.lastEventId };
    try {
      return await this.knowledge.request("GET", `/v1/batch-add/${encodeURIComponent(this.id)}`, { headers, stream: true });
    } catch (error) {
      throw error instanceof Unreachable ? new BatchFailed(this.id, this.lastEventId, "unreachable", error.message) : error;
    }
  }
}

/** Server-sent events (WHATWG HTML) until the stream ends or breaks. */
async function* messages(response: Response): AsyncGenerator<{ id: string | undefined; data: string }, void, undefined> {
  let [id, data]: [string | undefined, string | undefined] = [undefined, undefined];
  const source = lines(response);
  try {
    for (;;) {
      let next: IteratorResult<string, void>;
      try {
        next = await source.next();
      } catch {
        return; // The connection broke.
      }
      if (next.done) return;
      const [, name = "", value = ""] = /^([^:]*):? ?(.*)$/.exec(next.value) ?? [];
      if (name === "data") data = data === undefined ? value : `${data}\n${value}`;
      else if (name === "id") id = value;
      else if (next.value === "") {
        if (data !== undefined) yield { id, data };
        [id, data] = [undefined, undefined];
      }
    }
  } finally {
    await source.return();
  }
}

/** The complete lines of a body. Throws if the connection breaks, or is silent for too long. */
async function* lines(response: Response): AsyncGenerator<string, void, undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      let silent = false;
      const timer = setTimeout(() => {
        silent = true;
        void reader.cancel().catch(() => undefined);
      }, SILENCE_MAX * 1000);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (silent) throw new Error(`nothing for ${SILENCE_MAX} s`);
      if (done) return;
      const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = parts.pop() ?? "";
      yield* parts.map((line) => line.replace(/\r$/, ""));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
