// An agent: registers, shows its code, waits until it is claimed, and reads the account that it acts for.
// Everything that it knows of the server are the types that were generated from the description.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: {
  argv: string[];
  exitCode: number;
  stdin: AsyncIterable<unknown>;
};

type TokenRequest = components["schemas"]["TokenRequest"];

const form = {
  headers: { "Content-Type": "application/x-www-form-urlencoded" },
  bodySerializer: (body: TokenRequest) => new URLSearchParams(body as Record<string, string>).toString(),
};

async function act(baseUrl: string): Promise<void> {
  const server = createClient<paths>({ baseUrl });

  const registered = await server.POST("/api/v1/agent-auth/identity", { body: { type: "anonymous" } });
  if (!registered.data) throw new Error(registered.error.error);
  if (registered.data.registration_type !== "anonymous") throw new Error("the server took us for somebody else");

  const claim_token = registered.data.claim_token;
  const started = await server.POST("/api/v1/agent-auth/claim", { body: { claim_token } });
  if (!started.data) throw new Error(started.error.error);

  const grant: TokenRequest = { grant_type: "urn:svc:agent-auth:grant-type:claim", claim_token };
  const early = await server.POST("/api/v1/agent-auth/token", { body: grant, ...form });
  // The compiler knows the codes: a word that is none of them would not compile here.
  if (early.error?.error !== "authorization_pending") throw new Error(`not pending: ${JSON.stringify(early.error)}`);

  console.log(JSON.stringify(started.data.claim));
  for await (const _said of process.stdin) break;
  const exchanged = await server.POST("/api/v1/agent-auth/token", { body: grant, ...form });
  if (!exchanged.data) throw new Error(exchanged.error.error);
  if (exchanged.data.scope !== "svc.account") throw new Error("the token is not for an account");
  const assertion: string = exchanged.data.identity_assertion;
  if (assertion.split(".").length !== 3) throw new Error("the assertion is no JWT");

  const headers = { Authorization: `${exchanged.data.token_type} ${exchanged.data.access_token}` };
  const summary = await server.GET("/api/v1/account/summary", { headers });
  if (!summary.data) throw new Error(summary.error.error);
  console.log(JSON.stringify(summary.data.sections));
}

await act(process.argv[2] ?? "");
