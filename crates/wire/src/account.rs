//! Bodies of the account routes: summary, computers, agents, sessions and keys (`docs/protocol/account.md#summary` and
//! `docs/protocol/account.md#computers` and `docs/decisions/0002-accounts-and-computers.md` and
//! `docs/decisions/0020-keys-and-spaces.md`).

use std::collections::BTreeMap;

use domain::Timestamp;
use domain::api_key::ApiKeyScope;
use domain::claim::RegistrationType;
use domain::ids::{ApiKeyId, MachineUuid, RegistrationId, SessionId, SpaceId, UserAccountId};
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::usage::UsageBar;
use crate::{form, schema};

/// `GET /api/v1/account/summary`: the sections of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountSummary {
    /// Version of the schema; always 1.
    #[schema(schema_with = schema::version)]
    pub version: u32,
    /// Time at which the summary was made.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub generated_at: Timestamp,
    /// The available sections.
    pub sections: Sections,
    /// Reason for each missing section, by its name.
    pub errors: BTreeMap<String, String>,
}

/// The sections of a summary. A section that failed is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sections {
    /// The account itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Account)]
    pub account: Option<Account>,
    /// Remaining quota of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UsageBar)]
    pub plan_and_usage: Option<UsageBar>,
    /// Attached computers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AccountComputers)]
    pub computers: Option<AccountComputers>,
    /// Agents of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Agents)]
    pub agents: Option<Agents>,
    /// Sections of other servers; each is an object.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The section `account`: identity and owner of the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Id of the account.
    #[schema(value_type = schema::Cuid2)]
    pub id: UserAccountId,
    /// E-mail address of the owner.
    #[schema(required = true)]
    pub email: Option<String>,
    /// Name of the owner.
    #[schema(required = true)]
    pub name: Option<String>,
}

/// `GET /api/v1/account/computers`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountComputers {
    /// The attached computers, newest first.
    pub computers: Vec<Computer>,
}

/// A computer that is attached to the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Computer {
    /// Id of the computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Time of the registration.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub first_seen_at: Timestamp,
    /// The account's name for the computer; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Time of the last request.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub last_seen_at: Timestamp,
    /// The state of the computer; always `attached`.
    #[schema(schema_with = schema::attached)]
    pub via: String,
}

/// The section `agents`: the account's agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Agents {
    /// The agents, active ones first.
    pub agents: Vec<Agent>,
}

/// An agent of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Id of the registration.
    #[schema(value_type = schema::UuidV7)]
    pub id: RegistrationId,
    /// `anonymous` or `service_auth`.
    #[serde(rename = "type")]
    #[schema(value_type = schema::RegistrationKind)]
    pub kind: RegistrationType,
    /// The state of the agent; always `claimed`.
    #[schema(schema_with = schema::claimed)]
    pub status: String,
    /// Time of the registration.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time at which the last token was issued.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_token_at: Option<Timestamp>,
    /// The account's name for the agent; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// IP address of the registration.
    #[schema(required = true)]
    pub ip_address: Option<String>,
    /// Time of the revocation.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub revoked_at: Option<Timestamp>,
}

/// The body of `PATCH /api/v1/account/computers/{machine_uuid}` and of `PATCH /api/v1/agents/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelRequest {
    /// The account's name for it; `null` removes the name.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(schema_with = schema::name_or_null, required = true)]
    pub label: Option<String>,
}

/// `GET /api/v1/sessions`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// The sessions of the caller's person.
    pub sessions: Vec<Session>,
}

/// A signed-in browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Id of the session; not a credential.
    #[schema(value_type = schema::UuidV7)]
    pub id: SessionId,
    /// Time of the sign-in.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Expiry of the session, which each use extends.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub expires_at: Timestamp,
    /// Method of the sign-in.
    pub via: String,
    /// IP address of the sign-in.
    #[schema(required = true)]
    pub address: Option<String>,
    /// User agent of the browser.
    #[schema(required = true)]
    pub user_agent: Option<String>,
    /// Whether this is the session of the request.
    pub current: bool,
}

/// The body of `POST /api/v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// Name of the key.
    #[schema(schema_with = schema::name)]
    pub name: String,
    /// Scopes of the key; `search`, `write` and `settings` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::KeyScope>>, min_items = 1)]
    pub scopes: Option<Vec<ApiKeyScope>>,
    /// Spaces of the key; every space of the account if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::UuidV7>>, min_items = 1, max_items = 100)]
    pub spaces: Option<Vec<SpaceId>>,
    /// Expiry of the key; absent for a key that does not expire.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Moment>)]
    pub expires_at: Option<Timestamp>,
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Id of the key; not a credential.
    #[schema(value_type = schema::UuidV7)]
    pub id: ApiKeyId,
    /// Name of the key.
    pub name: String,
    /// Scopes of the key.
    #[schema(value_type = Vec<schema::KeyScope>)]
    pub scopes: Vec<ApiKeyScope>,
    /// Spaces of the key; `null` for every space of the account.
    #[schema(value_type = Option<Vec<schema::UuidV7>>, required = true)]
    pub spaces: Option<Vec<SpaceId>>,
    /// Time of creation.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time of expiry; `null` if the key does not expire.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub expires_at: Option<Timestamp>,
    /// Time of the last use.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_used_at: Option<Timestamp>,
    /// Time of the revocation.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub revoked_at: Option<Timestamp>,
}

/// A new API key. Its secret is returned only in this response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    /// The members of every key.
    #[serde(flatten)]
    pub about: Key,
    /// The secret: bearer credential of the knowledge API.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub key: Secret,
}

/// `GET /api/v1/keys`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Keys {
    /// The keys, revoked ones last.
    pub keys: Vec<Key>,
}

#[cfg(test)]
mod tests {
    use domain::api_key::SPACES_MAX;

    use super::*;

    #[test]
    fn the_described_limit_of_a_keys_spaces_is_the_enforced_one() {
        let schema = serde_json::to_value(<KeyRequest as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["properties"]["spaces"]["maxItems"], SPACES_MAX);
    }
}
