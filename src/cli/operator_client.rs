//! Requests to the operator's API of a running server: through the operator's socket, or with a token to the operator's listener.

use std::path::Path;
use std::time::Duration;

use app::config::Settings;
use domain::act::ActReason;
use domain::foreign::visible;
use domain::secret::{Secret, SecretKind};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{ClientBuilder, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::ops::{OperatorError, OrderPending};

use commands::connection::{given, with_scheme};
use commands::failure::{Failure, FailureKind};

/// Maximum time for an answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// Environment variable with the token.
const TOKEN_VARIABLE: &str = "ATTACHE_OPERATOR_TOKEN";

/// A client of one server.
#[derive(Debug)]
pub struct OperatorClient {
    base: String,
    client: reqwest::Client,
    /// The socket or listener, for messages.
    place: String,
    /// What to check if it does not answer.
    advice: &'static str,
}

impl OperatorClient {
    /// Through the operator's socket that the configuration names.
    pub fn of(settings: &Settings) -> Result<Self, Failure> {
        let path = settings.admin.socket_in(&settings.data.dir);
        let path = path.ok_or_else(|| Failure::refused("the operator's socket is off (admin.socket)"))?;
        let builder = http_client::builder().no_proxy().unix_socket(path.as_path());
        let advice = "run the command on the server's computer with its configuration";
        Self::built(builder, "http://localhost".to_owned(), path.display().to_string(), advice)
    }

    /// With a token to the operator's listener with this base URL. The token is in the file, or in `ATTACHE_OPERATOR_TOKEN`.
    pub fn at(url: &str, token_file: Option<&Path>) -> Result<Self, Failure> {
        let base = with_scheme(url).trim_end_matches('/').to_owned();
        let is_http = Url::parse(&base).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_http {
            let what = format!("\"{}\" is no URL of a server, such as https://ops.example.com", visible(url));
            return Err(Failure::of(FailureKind::Usage, what));
        }
        let mut bearer =
            HeaderValue::from_str(&format!("Bearer {}", token(token_file)?.expose())).map_err(Failure::caused)?;
        bearer.set_sensitive(true);
        let builder = http_client::builder().default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]));
        let advice = "check that the server runs and that --url is the URL of its operator's listener (admin.bind)";
        Self::built(builder, base.clone(), visible(&base), advice)
    }

    fn built(builder: ClientBuilder, base: String, place: String, advice: &'static str) -> Result<Self, Failure> {
        let client = builder.timeout(DEADLINE).build().map_err(Failure::caused)?;
        Ok(Self { base, client, place, advice })
    }

    /// Reads a route.
    pub async fn get<T: DeserializeOwned>(&self, route: &str) -> Result<T, Failure> {
        self.answered(self.client.get(self.url(route))).await
    }

    /// Sends a body to a route and returns the answer.
    pub async fn post<T: DeserializeOwned>(&self, route: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.answered(self.client.post(self.url(route)).json(body)).await
    }

    /// Sets the object of a route and returns the answer.
    pub async fn put<T: DeserializeOwned>(&self, route: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.answered(self.client.put(self.url(route)).json(body)).await
    }

    /// Ends the object of a route, for this reason, and returns the answer.
    pub async fn delete<T: DeserializeOwned>(&self, route: &str, reason: &ActReason) -> Result<T, Failure> {
        let url = Url::parse_with_params(&self.url(route), [("reason", reason.as_str())]);
        self.answered(self.client.delete(url.map_err(Failure::caused)?)).await
    }

    /// Reads a route with server-sent events that ends after about this time.
    pub async fn stream(
        &self,
        route: &str,
        parameters: &[(&str, String)],
        lasts: Duration,
    ) -> Result<Response, Failure> {
        let url = Url::parse_with_params(&self.url(route), parameters).map_err(Failure::caused)?;
        let response = self.sent(self.client.get(url).timeout(lasts + DEADLINE)).await?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    fn url(&self, route: &str) -> String {
        format!("{}{route}", self.base)
    }

    async fn answered<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        let response = self.sent(request).await?;
        if response.status() == StatusCode::ACCEPTED {
            let OrderPending { act_id, .. } = response.json().await.map_err(Failure::caused)?;
            let what = format!("the node has not answered yet: `attache admin act show {act_id}` says how it ended");
            return Err(Failure::of(FailureKind::Temporary, what));
        }
        if response.status().is_success() {
            return response.json().await.map_err(Failure::caused);
        }
        Err(self.refusal(response).await)
    }

    async fn sent(&self, request: RequestBuilder) -> Result<Response, Failure> {
        request.send().await.map_err(|error| {
            let what = format!("no server answers at {}: {}", self.place, visible(&domain::reasons(&error)));
            Failure::of(FailureKind::Unreachable, what).advised(self.advice)
        })
    }

    async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        let Ok(OperatorError { error, detail, problems, .. }) = response.json().await else {
            let what = format!("{} answers {status} without a body of the operator's API", self.place);
            return Failure::refused(what).advised(self.advice);
        };
        let kind = match error.as_str() {
            "configuration_invalid" => FailureKind::Configuration,
            "node_did_not_answer" => FailureKind::Temporary,
            _ if status == StatusCode::FAILED_DEPENDENCY => FailureKind::Temporary,
            _ if status == StatusCode::UNAUTHORIZED => FailureKind::Unauthorized,
            _ => FailureKind::Refused,
        };
        let text = [vec![detail], problems].concat().join("\n");
        Failure::of(kind, text.lines().map(visible).collect::<Vec<_>>().join("\n"))
    }
}

/// The token of an operator. It is no argument, since other users of the computer see the arguments of a process.
fn token(file: Option<&Path>) -> Result<Secret, Failure> {
    let token = match file {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|error| Failure::refused(format!("{} cannot be read: {error}", file.display())))?;
            Some(Secret::presented(text.trim()))
        }
        None => given(TOKEN_VARIABLE),
    };
    let token = token.ok_or_else(|| {
        Failure::unauthorized(format!(
            "no token of an operator: give --token-file FILE, or set {TOKEN_VARIABLE}; `attache admin token create` makes one"
        ))
    })?;
    if token.has_form(SecretKind::OperatorToken) {
        Ok(token)
    } else {
        Err(Failure::unauthorized("malformed token of an operator: these tokens start with \"opr_\""))
    }
}
