//! Account, usage, agents, sessions and keys (`docs/protocol/account.md`).

use domain::ids::{ApiKeyId, MachineUuid, RegistrationId, SessionId};
use http::Method;
use wire::Done;
use wire::account::{AccountComputers, AccountSummary, KeyRequest, Keys, LabelRequest, NewKey, Sessions};
use wire::usage::UsageBar;

use crate::exchange::ApiRequest;
use crate::{Client, Error};

impl Client {
    /// `GET /api/v1/account/summary`: plan, usage, computers and agents of the account.
    pub async fn account_summary(&self) -> Result<AccountSummary, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/account/summary"))).await
    }

    /// `GET /api/v1/account/computers`: the attached computers, newest first.
    pub async fn account_computers(&self) -> Result<AccountComputers, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/account/computers"))).await
    }

    /// `PATCH /api/v1/account/computers/{machine_uuid}`: the account's name for a computer; `None` removes it. Requires a session.
    pub async fn computer_name(&self, machine: MachineUuid, label: Option<String>) -> Result<Done, Error> {
        let path = format!("/api/v1/account/computers/{machine}");
        self.ask(ApiRequest::new(Method::PATCH, self.base(&path)).json(&LabelRequest { label })?).await
    }

    /// `PATCH /api/v1/agents/{id}`: the account's name for an agent; `None` removes it. Requires a session.
    pub async fn agent_name(&self, agent: RegistrationId, label: Option<String>) -> Result<Done, Error> {
        let path = format!("/api/v1/agents/{agent}");
        self.ask(ApiRequest::new(Method::PATCH, self.base(&path)).json(&LabelRequest { label })?).await
    }

    /// `GET /api/v1/usage/bar`: the remainder of the plan in the current window.
    pub async fn usage_bar(&self) -> Result<UsageBar, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/usage/bar"))).await
    }

    /// `DELETE /api/v1/agents/{id}`: revokes an agent permanently. Sessions can revoke any agent of the account, an
    /// agent only itself.
    pub async fn agent_revoke(&self, agent: RegistrationId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.base(&format!("/api/v1/agents/{agent}")))).await
    }

    /// `GET /api/v1/sessions`: the browsers in which the person is signed in.
    pub async fn sessions(&self) -> Result<Sessions, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/sessions"))).await
    }

    /// `DELETE /api/v1/sessions/{id}`: signs a browser out. Requires a session.
    pub async fn session_revoke(&self, session: SessionId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.base(&format!("/api/v1/sessions/{session}")))).await
    }

    /// `POST /api/v1/keys`. Requires a session.
    pub async fn key_create(&self, key: &KeyRequest) -> Result<NewKey, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/keys")).json(key)?).await
    }

    /// `GET /api/v1/keys`: the API keys of the account, without their secrets.
    pub async fn keys(&self) -> Result<Keys, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/keys"))).await
    }

    /// `DELETE /api/v1/keys/{id}`: revokes an API key permanently.
    pub async fn key_revoke(&self, key: ApiKeyId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.base(&format!("/api/v1/keys/{key}")))).await
    }
}
