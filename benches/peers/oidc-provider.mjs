// The device flow of oidc-provider with its default adapter, which keeps everything in memory.
//
//   node oidc-provider.mjs
import { generateKeyPairSync } from "node:crypto";
import http from "node:http";
import Provider from "oidc-provider";

const server = http.createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `127.0.0.1:${server.address().port}`;
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const provider = new Provider(`http://${address}`, {
  clients: [
    {
      client_id: "bench",
      token_endpoint_auth_method: "none",
      application_type: "native",
      grant_types: ["urn:ietf:params:oauth:grant-type:device_code"],
      response_types: [],
      redirect_uris: [],
    },
  ],
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: false } },
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: "bench" }] },
  cookies: { keys: ["a cookie key of the load harness"] },
  interactions: { url: () => "/interaction" },
  ttl: { DeviceCode: 3600 },
});
server.on("request", provider.callback());
console.log(address);
