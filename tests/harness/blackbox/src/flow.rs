//! Steps of several requests or commands against a server in a child process.

use std::net::SocketAddr;
use std::path::Path;

use domain::secret::Secret;
use domain::{Clock, Rng};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use harness::event::Machine;

use crate::client::{CLAIM_GRANT, Client, Credential, DEVICE_GRANT, JWT_GRANT, Response, attempt_of};
use crate::eventually;
use crate::process::{Home, Server};

/// A home with a fixed server address; returns its URL too.
pub fn at_fixed_address() -> (Home, String) {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = Home::new().set("http.bind", &address.to_string());
    (home, format!("http://{address}"))
}

/// Writes the default profile as the commands do: the server, its computer, and the key of the knowledge API.
pub fn keep_profile(home: &Home, url: &str, machine: Option<&Machine>, api_key: Option<&str>) {
    let mut profile = toml::Table::new();
    profile.insert("url".into(), url.into());
    if let Some(key) = api_key {
        profile.insert("api_key".into(), key.into());
    }
    if let Some(machine) = machine {
        let mut table = toml::Table::new();
        table.insert("user_cuid".into(), machine.user_cuid.clone().into());
        table.insert("machine_uuid".into(), machine.uuid.clone().into());
        table.insert("secret".into(), machine.secret.clone().into());
        profile.insert("machine".into(), table.into());
    }
    let path = profile_folder(home).join("profile.toml");
    std::fs::create_dir_all(profile_folder(home)).unwrap();
    std::fs::write(&path, toml::to_string(&profile).unwrap()).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

/// Starts a server and writes a profile with a key for all spaces of a person.
pub async fn library(home: &Home) -> Server {
    let server = home.serve().await;
    let key = home.run(&["admin", "api-key", "create", "--email", "ada@example.com"]).said().to_owned();
    keep_profile(home, &server.url, None, Some(&key));
    server
}

/// The folder of the default profile.
pub fn profile_folder(home: &Home) -> std::path::PathBuf {
    home.dir.path().join(".config/attache/default")
}

/// A member of an object, which must be a string.
#[track_caller]
pub fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is no text in {value}")).to_owned()
}

/// A fresh `machine_uuid`.
pub fn uuid() -> String {
    Rng::system().uuid_v7(Clock::system().now()).to_string()
}

/// Registers a computer, without an act of the operator, which would be an event of the log.
pub async fn machine(server: &Server) -> Machine {
    Client::new().machine(&server.url, &Rng::system().cuid2(), &uuid()).await
}

/// Registers a computer as the operator.
pub fn machine_by_operator(home: &Home) -> Machine {
    let (user_cuid, uuid) = (Rng::system().cuid2(), uuid());
    let added = home.run(&["admin", "machine", "add", "--user-cuid", &user_cuid, "--machine-uuid", &uuid]);
    Machine { user_cuid, uuid, secret: added.said().to_owned() }
}

/// Waits until the signed log contains all acts of operators, and returns their number. The home needs a short `consent.outbox_every`.
pub async fn acts_sent(home: &Home) -> usize {
    eventually("all acts are in the log", async || {
        let verified = home.run(&["admin", "act", "verify", "--json"]).json();
        (verified["waiting"] == 0).then(|| verified["proven"].as_u64().unwrap().try_into().unwrap())
    })
    .await
}

/// Signs a person in as the operator; returns the session.
pub fn session(home: &Home, email: &str) -> Credential {
    Credential::Cookie(home.run(&["admin", "session", "create", "--email", email]).said().to_owned())
}

/// Signs a person in as the operator; returns the typed client with the session.
pub fn person(home: &Home, server: &Server, email: &str) -> ::client::Client {
    let cookie = home.run(&["admin", "session", "create", "--email", email]).said().to_owned();
    let client = ::client::Client::new(&::client::Settings::of(&server.url)).unwrap();
    client.with(::client::Credential::Cookie(Secret::presented(cookie)))
}

/// The default profile with its secrets.
pub fn profile(home: &Home) -> toml::Table {
    toml::from_str(&std::fs::read_to_string(profile_folder(home).join("profile.toml")).unwrap()).unwrap()
}

/// Changes the default profile.
pub fn edit_profile(home: &Home, change: impl FnOnce(&mut toml::Table)) {
    let mut profile = profile(home);
    change(&mut profile);
    std::fs::write(profile_folder(home).join("profile.toml"), toml::to_string(&profile).unwrap()).unwrap();
}

/// Sends an event.
pub async fn event(server: &Server, credential: impl Into<Credential>, event: &Value) -> Response {
    Client::new().post(&format!("{}/api/v1/events", server.url), credential, event).await
}

/// Registers an agent; returns the registration.
pub async fn identity(server: &Server, body: &Value) -> Value {
    Client::new().post(&format!("{}/api/v1/agent-auth/identity", server.url), Credential::None, body).await.expect(200)
}

/// Starts a claim attempt; returns the claim.
pub async fn claim(server: &Server, claim_token: &str) -> Value {
    let url = format!("{}/api/v1/agent-auth/claim", server.url);
    let response = Client::new().post(&url, Credential::None, &json!({ "claim_token": claim_token })).await;
    response.expect(200)["claim"].clone()
}

/// A person confirms a claim attempt.
pub async fn complete(server: &Server, person: &Credential, attempt: &str, code: &str) -> Response {
    let body = json!({ "claim_attempt_token": attempt, "user_code": code });
    Client::new().post(&format!("{}/api/v1/agent-auth/claim/complete", server.url), person.clone(), &body).await
}

/// Exchanges a claim token.
pub async fn token_by_claim(server: &Server, claim_token: &str) -> Response {
    form(server, "token", &[("grant_type", CLAIM_GRANT), ("claim_token", claim_token)]).await
}

/// Exchanges an identity assertion.
pub async fn token_by_assertion(server: &Server, assertion: &str) -> Response {
    form(server, "token", &[("grant_type", JWT_GRANT), ("assertion", assertion)]).await
}

/// Sends a form to an endpoint of `/api/v1/agent-auth`.
pub async fn form(server: &Server, endpoint: &str, pairs: &[(&str, &str)]) -> Response {
    let client = Client::new();
    let request = client.form(&format!("{}/api/v1/agent-auth/{endpoint}", server.url), pairs);
    client.try_send(request).await.unwrap()
}

/// Registers and claims an agent; returns its registration id and its first token response.
pub async fn agent(server: &Server, person: &Credential) -> (String, Value) {
    let registered = identity(server, &json!({ "type": "anonymous" })).await;
    let claim_token = text(&registered, "claim_token");
    let claim = claim(server, &claim_token).await;
    complete(server, person, &attempt_of(&claim), &text(&claim, "user_code")).await.expect(200);
    (text(&registered, "registration_id"), token_by_claim(server, &claim_token).await.expect(200))
}

/// A computer asks to be attached; returns its device code and its user code.
pub async fn device_code(server: &Server, machine: &Machine) -> (String, String) {
    let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
    let code = Client::new().post(&format!("{}/api/v1/device/code", server.url), machine, &body).await.expect(200);
    (text(&code, "device_code"), text(&code, "user_code"))
}

/// A person approves a user code; `None` if no response is received.
pub async fn device_approve(server: &Server, person: &Credential, user_code: &str) -> Option<Response> {
    let (client, url) = (Client::new(), format!("{}/api/v1/device/approve", server.url));
    let request = client.request(reqwest::Method::POST, &url, person);
    client.try_send(request.json(&json!({ "user_code": user_code }))).await
}

/// Polls a device code.
pub async fn device_token(server: &Server, device_code: &str) -> Response {
    let body = json!({ "grant_type": DEVICE_GRANT, "device_code": device_code });
    Client::new().post(&format!("{}/api/v1/device/token", server.url), Credential::None, &body).await
}

/// Waits until an event is in the Merkle tree; returns its proof.
pub async fn proof(server: &Server, credential: impl Into<Credential> + Clone, event_id: &str) -> Value {
    let (client, url) = (Client::new(), format!("{}/api/v1/audit/verify?event_id={event_id}", server.url));
    eventually("the event is in the tree", async || {
        let proof = client.get(&url, credential.clone()).await.expect(200);
        (proof["status"] == "included").then_some(proof)
    })
    .await
}

/// The verifier key that the log publishes.
pub async fn vkey(server: &Server) -> String {
    let keys = Client::new().get(&format!("{}/api/v1/audit/keys", server.url), Credential::None).await.expect(200);
    text(&keys["keys"][0], "vkey")
}

/// Allows the server to fetch from a web server on this loopback address.
pub fn beside(home: Home, site: SocketAddr) -> Home {
    home.set("knowledge.fetch.allow_private", r#"["127.0.0.1/32"]"#)
        .set("knowledge.fetch.ports", &format!("[{}]", site.port()))
        .set("knowledge.fetch.host_interval", "0s")
        .set("knowledge.fetch.stall_timeout", "2m")
        .set("knowledge.fetch.total_timeout", "2m")
        .set("knowledge.batch.lease", "1s")
}

/// Expires all rows of a table, while no server runs: sets a column of deadlines to the time of creation.
pub async fn expire_rows(home: &Home, table: &str, column: &str) {
    change_rows(&home.data().join("attache.db"), &format!("UPDATE {table} SET {column} = created_at")).await;
}

/// Changes rows of a database; asserts that there were some.
pub async fn change_rows(path: &Path, sql: &str) {
    assert!(change_tables(path, sql).await > 0, "{sql}");
}

/// Runs a statement on a database file; returns the number of rows affected.
pub async fn change_tables(path: &Path, sql: &str) -> u64 {
    let mut database = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await.unwrap();
    let affected = sqlx::query(AssertSqlSafe(sql)).execute(&mut database).await.unwrap().rows_affected();
    database.close().await.unwrap();
    affected
}
