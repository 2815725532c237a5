// Sends requests to one surface of a server, and retries them where that is safe.

import { AttacheError, Refused, Unreachable } from "./errors.js";
import { isObject } from "./canonical.js";
import { sleep } from "./platform.js";

export interface Options {
  /** The credential of requests: an access token, a machine secret, or an API key. */
  token?: string;
  /** Seconds until a request without an answer fails; default 30. */
  timeout?: number;
  /** Limits of repeated attempts. */
  retry?: Retry;
  /** Another `fetch`. */
  fetch?: typeof fetch;
}

/** Exponential backoff with jitter, or the server's `Retry-After`. */
export interface Retry {
  /** Number of attempts; default 6. */
  attempts?: number;
  /** Seconds; default 0.2. */
  delayMin?: number;
  /** Seconds; default 30. A longer `Retry-After` is not waited for. */
  delayMax?: number;
}

export interface Request {
  query?: object;
  json?: object;
  form?: Record<string, string>;
  /** A body as text: JSON, unless `headers` has another content type. */
  text?: string;
  headers?: Record<string, string>;
  token?: string | undefined;
  /** Whether the request may be sent again after an unknown outcome; default: reads only. */
  idempotent?: boolean;
  stream?: boolean;
}

export class Http {
  readonly baseUrl: string;
  /** @internal */
  readonly retry: Required<Retry>;
  protected readonly options: Options;

  constructor(baseUrl: string, options: Options = {}) {
    if (!/^https?:$/.test(new URL(baseUrl).protocol)) throw new TypeError(`not a base URL: ${baseUrl}`);
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.options = options;
    this.retry = { attempts: 6, delayMin: 0.2, delayMax: 30, ...options.retry };
  }

  protected async bearer(): Promise<string | undefined> {
    return this.options.token;
  }

  /** Replaces a token that the server refused; false if there is no other. */
  protected async renew(_token: string | undefined): Promise<boolean> {
    return false;
  }

  /** @internal Sends a request; repeats it if it is idempotent or was never sent. */
  async request(method: string, path: string, request: Request = {}): Promise<Response> {
    const idempotent = request.idempotent ?? method === "GET";
    let renewed = false;
    for (let attempt = 1; ; attempt++) {
      const token = request.token ?? (await this.bearer());
      try {
        return await this.once(method, path, request, token);
      } catch (error) {
        if (error instanceof Refused && error.status === 401 && !renewed && request.token === undefined && (await this.renew(token))) {
          renewed = true;
          continue;
        }
        const delay = delayOf(this.retry, attempt, error, idempotent);
        if (delay === undefined) throw error;
        await sleep(delay);
      }
    }
  }

  /** @internal */
  async json<T>(method: string, path: string, request: Request = {}): Promise<T> {
    return (await (await this.request(method, path, request)).json()) as T;
  }

  private async once(method: string, path: string, request: Request, token: string | undefined): Promise<Response> {
    const url = new URL(this.baseUrl + path);
    for (const [name, value] of Object.entries(request.query ?? {})) if (value !== undefined) url.searchParams.set(name, String(value));
    const headers = new Headers(request.headers);
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const text = request.text ?? (request.json && JSON.stringify(request.json));
    if (text !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
    const timeout = (this.options.timeout ?? 30) * 1000;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(new DOMException(`no answer within ${timeout / 1000} s`, "TimeoutError")), timeout);
    try {
      const init: RequestInit = { method, headers, signal: stop.signal, redirect: "manual" };
      const body = text ?? (request.form && new URLSearchParams(request.form));
      // Redirects are not followed, so that credentials reach only this server.
      const response = await (this.options.fetch ?? fetch)(url, body === undefined ? init : { ...init, body });
      if (request.stream && response.ok) return response;
      // The body is read within the timeout too.
      const content = await response.arrayBuffer();
      if (response.ok) return new Response(content.byteLength > 0 ? content : null, response);
      throw refused(response, new TextDecoder().decode(content));
    } catch (error) {
      throw error instanceof AttacheError ? error : new Unreachable(url.origin + url.pathname, error);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Seconds until the next attempt (the first is 1), or undefined if there is none. */
export function delayOf(retry: Required<Retry>, attempt: number, error: unknown, idempotent: boolean): number | undefined {
  const again = error instanceof Unreachable ? idempotent || error.neverSent : error instanceof Refused && error.retryable && idempotent;
  const asked = error instanceof Refused ? (error.retryAfter ?? 0) : 0;
  if (!again || attempt >= retry.attempts || asked > retry.delayMax) return undefined;
  const backoff = Math.min(retry.delayMin * 2 ** (attempt - 1), retry.delayMax);
  return Math.max(asked, backoff * (0.5 + Math.random() / 2));
}

/** The pace of polls (RFC 8628, section 3.5): the server's interval, longer after `slow_down`, until the code expires. */
export class Pace {
  private readonly expires: number;

  constructor(
    /** Seconds. */
    public interval: number,
    expiresIn: number,
  ) {
    this.interval = Math.min(Math.max(interval, 1), INTERVAL_MAX);
    this.expires = Date.now() + expiresIn * 1000;
  }

  /** Seconds until the next poll. Throws the error if it is final. */
  after(error: unknown): number {
    const code = error instanceof Refused ? error.code : undefined;
    if (code === "slow_down") {
      const asked = (error as Refused).body["interval"];
      this.interval = Math.min(Math.max(typeof asked === "number" ? asked : this.interval + 5, this.interval), INTERVAL_MAX);
    } else if (code !== "authorization_pending") {
      const passing = error instanceof Unreachable || (error instanceof Refused && error.retryable);
      if (!passing || Date.now() >= this.expires) throw error;
    }
    return this.interval;
  }
}

const INTERVAL_MAX = 60;

function refused(response: Response, text: string): Refused {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  return new Refused(response.status, isObject(body) ? body : {}, retryAfter(response.headers.get("retry-after")));
}

/** Seconds of a header `Retry-After`, which has a number or a date. */
export function retryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const seconds = /^\d+$/.test(value.trim()) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}
