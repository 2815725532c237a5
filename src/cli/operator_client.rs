//! Requests to the running server through the operator's socket.

use std::path::PathBuf;
use std::time::Duration;

use app::config::Settings;
use domain::act::ActReason;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::ops::{OperatorError, OrderPending};

use super::failure::{Failure, FailureKind};

/// Maximum time for an answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// The operator's socket of the server with this configuration.
pub struct OperatorClient {
    path: PathBuf,
    client: reqwest::Client,
}

impl OperatorClient {
    /// The socket that the configuration names.
    pub fn of(settings: &Settings) -> Result<Self, Failure> {
        let path = settings.admin.socket_in(&settings.data.dir);
        let path = path.ok_or_else(|| Failure::refused("the operator's socket is off (admin.socket)"))?;
        let client = http_client::builder().no_proxy().timeout(DEADLINE).unix_socket(path.as_path()).build();
        Ok(Self { client: client.map_err(Failure::caused)?, path })
    }

    /// Reads a route.
    pub async fn get<T: DeserializeOwned>(&self, route: &str) -> Result<T, Failure> {
        self.answered(self.client.get(format!("http://localhost{route}"))).await
    }

    /// Sends a body to a route and returns the answer.
    pub async fn post<T: DeserializeOwned>(&self, route: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.answered(self.client.post(format!("http://localhost{route}")).json(body)).await
    }

    /// Replaces the object of a route and returns the answer.
    pub async fn put<T: DeserializeOwned>(&self, route: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.answered(self.client.put(format!("http://localhost{route}")).json(body)).await
    }

    /// Ends the object of a route, for this reason, and returns the answer.
    pub async fn delete<T: DeserializeOwned>(&self, route: &str, reason: &ActReason) -> Result<T, Failure> {
        let parameters = [("reason", reason.as_str())];
        let url = reqwest::Url::parse_with_params(&format!("http://localhost{route}"), parameters);
        self.answered(self.client.delete(url.map_err(Failure::caused)?)).await
    }

    async fn answered<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, Failure> {
        let sent = request.send().await;
        let response = sent.map_err(|error| {
            let (path, error) = (self.path.display(), domain::reasons(&error));
            Failure::of(FailureKind::Unreachable, format!("no server answers at {path}: {error}"))
                .advised("run the command on the server's computer with its configuration")
        })?;
        if response.status() == reqwest::StatusCode::ACCEPTED {
            let OrderPending { act_id, .. } = response.json().await.map_err(Failure::caused)?;
            let what = format!("the node has not answered yet: `attache admin act show {act_id}` says how it ended");
            return Err(Failure::of(FailureKind::Temporary, what));
        }
        if response.status().is_success() {
            return response.json().await.map_err(Failure::caused);
        }
        let status = response.status();
        let OperatorError { error, detail, problems, .. } = response.json().await.map_err(Failure::caused)?;
        let kind = match error.as_str() {
            "configuration_invalid" => FailureKind::Configuration,
            "node_did_not_answer" => FailureKind::Temporary,
            _ if status == reqwest::StatusCode::FAILED_DEPENDENCY => FailureKind::Temporary,
            _ => FailureKind::Refused,
        };
        Err(Failure::of(kind, [vec![detail], problems].concat().join("\n")))
    }
}
