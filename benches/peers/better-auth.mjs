// The device authorization of better-auth over better-sqlite3, with codes that wait.
//
//   node better-auth.mjs DATABASE COUNT CODES
//
// Writes COUNT device codes into the file CODES, one a line: the first comes from its own endpoint, the others are rows like
// that one, because asking for each takes milliseconds.
import { writeFileSync } from "node:fs";
import http from "node:http";
import { betterAuth } from "better-auth";
import { getMigrations } from "better-auth/db/migration";
import { toNodeHandler } from "better-auth/node";
import { deviceAuthorization } from "better-auth/plugins";
import Database from "better-sqlite3";

const [file, count, codes] = process.argv.slice(2);
const db = new Database(file);
db.pragma("journal_mode = WAL");

const server = http.createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `127.0.0.1:${server.address().port}`;
const options = {
  database: db,
  baseURL: `http://${address}`,
  secret: "a secret of the load harness, which keeps nothing that matters",
  emailAndPassword: { enabled: true },
  telemetry: { enabled: false },
  // Off by default outside production, and all requests come from one address.
  rateLimit: { enabled: false },
  logger: { level: "error" },
  plugins: [
    deviceAuthorization({ expiresIn: "30m", interval: "5s", verificationUri: "/device", validateClient: () => true }),
  ],
};
const { runMigrations } = await getMigrations(options);
await runMigrations();
// Its migration makes no index on what every poll looks up.
db.exec("CREATE INDEX device_code ON deviceCode (deviceCode)");
const auth = betterAuth(options);
server.on("request", toNodeHandler(auth));

const first = await auth.api.deviceCode({ body: { client_id: "bench" } });
const row = db.prepare("SELECT * FROM deviceCode WHERE deviceCode = ?").get(first.device_code);
const columns = Object.keys(row);
const add = db.prepare(
  `INSERT INTO deviceCode (${columns.map((name) => `"${name}"`).join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
);
const all = [first.device_code];
db.transaction(() => {
  while (all.length < Number(count)) {
    const deviceCode = `bench${String(all.length).padStart(35, "0")}`;
    const copy = { ...row, id: `bench${all.length}`, deviceCode, userCode: `B${String(all.length).padStart(7, "0")}` };
    add.run(columns.map((name) => copy[name]));
    all.push(deviceCode);
  }
})();
writeFileSync(codes, all.join("\n"));
console.log(address);
