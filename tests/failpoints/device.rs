//! Steps of attaching a computer.

use serde_json::json;

use crate::client::{Answer, Client, Credential};
use crate::event::Machine;
use crate::flow;
use crate::process::Server;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A computer asks to be attached: its device code and its user code.
pub async fn code(server: &Server, machine: &Machine) -> (String, String) {
    let body = json!({ "user_cuid": machine.user_cuid, "machine_uuid": machine.uuid });
    let code = Client::new().post(&format!("{}/api/v1/device/code", server.url), machine, &body).await.expect(200);
    (flow::text(&code, "device_code"), flow::text(&code, "user_code"))
}

/// `None` when it is not answered.
pub async fn approve(server: &Server, person: &Credential, user_code: &str) -> Option<Answer> {
    let (client, url) = (Client::new(), format!("{}/api/v1/device/approve", server.url));
    let request = client.request(reqwest::Method::POST, &url, person);
    client.try_send(request.json(&json!({ "user_code": user_code }))).await
}

pub async fn token(server: &Server, device_code: &str) -> Answer {
    let body = json!({ "grant_type": DEVICE_GRANT, "device_code": device_code });
    Client::new().post(&format!("{}/api/v1/device/token", server.url), Credential::None, &body).await
}
