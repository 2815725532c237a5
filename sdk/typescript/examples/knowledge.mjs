// A program adds two notes with progress, and searches them.
//
//     ATTACHE_KEY=ak_... node knowledge.mjs http://127.0.0.1:8080

import { Knowledge } from "attache-client";

const knowledge = new Knowledge(process.argv[2] ?? "http://127.0.0.1:8080", { token: process.env.ATTACHE_KEY ?? "" });
const space = await knowledge.createSpace("Examples");
const batch = await knowledge.add({
  contents: [
    { title: "Harbour", content: "The harbour master keeps the tide tables of the north pier." },
    { title: "Bakery", content: "The bakery on the square sells rye bread on Thursdays." },
  ],
  spaces: [space.id],
});
for await (const message of batch) {
  if (message.type === "progress") console.log(`${message.processed} of ${message.total}`);
  else if (message.type === "error") console.log(`${message.title ?? message.url}: ${message.message}`);
}
for (const { similarity, title, content } of await knowledge.search("When can I buy bread?", { spaces: [space.id], limit: 1 })) {
  console.log(`${similarity.toFixed(2)} ${title}: ${content}`);
}
