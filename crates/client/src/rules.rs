//! Rules about recorded events, and the weekly digest (`docs/protocol/rules.md`).

use domain::ids::RuleId;
use http::Method;
use wire::Done;
use wire::rule::{DigestEntry, DigestRequest, RuleEntry, RuleList, RuleRequest};

use crate::exchange::ApiRequest;
use crate::{Client, Error};

impl Client {
    /// `GET /api/v1/rules`: the rules of the account, and its digest.
    pub async fn rules(&self) -> Result<RuleList, Error> {
        self.ask(ApiRequest::get(self.base("/api/v1/rules"))).await
    }

    /// `POST /api/v1/rules`. Requires a session.
    pub async fn rule_create(&self, rule: &RuleRequest) -> Result<RuleEntry, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/rules")).json(rule)?).await
    }

    /// `DELETE /api/v1/rules/{id}`. Requires a session.
    pub async fn rule_delete(&self, rule: RuleId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.base(&format!("/api/v1/rules/{rule}")))).await
    }

    /// `PUT /api/v1/digest`: switches the weekly digest on or off. Requires a session.
    pub async fn digest_set(&self, digest: &DigestRequest) -> Result<DigestEntry, Error> {
        self.ask(ApiRequest::new(Method::PUT, self.base("/api/v1/digest")).json(digest)?).await
    }
}
