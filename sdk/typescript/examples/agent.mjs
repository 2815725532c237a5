// An agent registers, gets a person's approval, records three chained events and verifies the proof of the last one.
//
//     npm install attache-client-0.1.0.tgz   (README.md says how to make the file)
//     node agent.mjs http://127.0.0.1:8080

import { Client, verify } from "attache-client";
import { fileState } from "attache-client/node";

const server = new Client(process.argv[2] ?? "http://127.0.0.1:8080");

const agent = await server.registerAgent();
const claim = await server.startClaim(agent.claim_token);
console.log(`Open ${claim.verification_uri}\nand type ${claim.user_code}`);
const tokens = await server.waitClaimed(agent.claim_token, claim);
const { sections } = await server.asAgent(tokens).accountSummary();
console.log(`acting for ${sections.account?.email}`);

const computer = await server.registerComputer({ name: "example" });
const code = await server.deviceCode(computer);
console.log(`Open ${code.verification_uri_complete}`);
console.log(`attached to account ${await server.waitAttached(code)}`);

// A restart needs the file to continue the chain; the computer's secret belongs beside it.
const chain = server.chain(computer, { agentId: "claude-code", state: fileState("chain.json") });
for (const number of [0, 1, 2]) {
  const outcome = await chain.send("memory.stored", { memory_id: `m${number}`, content: `lesson ${number}` });
  console.log(outcome);
  if (outcome.status !== "recorded" || number < 2) continue;
  // Pin the key from a source that you trust; this example takes the server's.
  const [key] = await server.logKeys();
  const verified = await verify(await server.asComputer(computer).waitProof(outcome.eventId), key?.vkey ?? "");
  console.log(`event ${verified.event.seq} is leaf ${verified.leafIndex} of ${verified.checkpoint.size}`);
}
