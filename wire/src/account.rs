//! Bodies of the account: summary, computers, sessions and keys (`docs/protocol/account.md#summary`, `docs/protocol/account.md#computers`,
//! `docs/decisions/0006-accounts-persons-identities-computers.md` and `docs/decisions/0035-api-keys.md`).

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
    /// Version of the form; always 1.
    #[schema(schema_with = schema::version)]
    pub version: u32,
    /// Time at which the server assembled the summary.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub generated_at: Timestamp,
    /// The sections that could be read.
    pub sections: Sections,
    /// Reason for each section that could not be read, by the name of the section.
    pub errors: BTreeMap<String, String>,
}

/// The sections of a summary; one that could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sections {
    /// Identity and owner of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Account)]
    pub account: Option<Account>,
    /// Plan and usage bar of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UsageBar)]
    pub plan_and_usage: Option<UsageBar>,
    /// Attached computers of the account, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AccountComputers)]
    pub computers: Option<AccountComputers>,
    /// Agents of the account, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Agents)]
    pub agents: Option<Agents>,
    /// Sections of other implementations of the protocol, each an object.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The section `account`: identity and owner of the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Id of the account, a CUID2.
    #[schema(value_type = schema::Cuid2)]
    pub id: UserAccountId,
    /// E-mail address of the account's owner, if there is one.
    #[schema(required = true)]
    pub email: Option<String>,
    /// Name of the account's owner, if it is known.
    #[schema(required = true)]
    pub name: Option<String>,
}

/// `GET /api/v1/account/computers`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountComputers {
    /// Attached computers, newest first, at most 500.
    pub computers: Vec<Computer>,
}

/// A computer that is attached to the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Computer {
    /// Id of the computer, a UUIDv7 that the computer chose itself.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// Time of the computer's registration.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub first_seen_at: Timestamp,
    /// Time of the computer's last request.
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
    /// The agents, at most 500; those that are not revoked first.
    pub agents: Vec<Agent>,
}

/// An agent of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Registration id of the agent.
    #[schema(value_type = schema::UuidV7)]
    pub id: RegistrationId,
    /// Whether the agent registered for any person or for one.
    #[serde(rename = "type")]
    #[schema(value_type = schema::RegistrationKind)]
    pub kind: RegistrationType,
    /// The state of the agent; always `claimed`.
    #[schema(schema_with = schema::claimed)]
    pub status: String,
    /// Time of the agent's registration.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time of the agent's last token with the scope `svc.account`; `null` before the first.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_token_at: Option<Timestamp>,
    /// IP address from which the agent registered; `null` if it is not known.
    #[schema(required = true)]
    pub ip_address: Option<String>,
    /// Time of the revocation; `null` for an agent that is not revoked.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub revoked_at: Option<Timestamp>,
}

/// `GET /api/v1/sessions`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// The sessions of the signed-in person, newest first.
    pub sessions: Vec<Session>,
}

/// A browser in which a person is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Id of the session. It is not a credential.
    #[schema(value_type = schema::UuidV7)]
    pub id: SessionId,
    /// Time of the sign-in.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time at which the session expires; every use moves it.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub expires_at: Timestamp,
    /// Way of the sign-in: `code`, `oidc:<provider>` or `operator`.
    pub via: String,
    /// IP address from which the person signed in; `null` if it is not known.
    #[schema(required = true)]
    pub address: Option<String>,
    /// `User-Agent` of the browser at the sign-in; `null` if it is not known.
    #[schema(required = true)]
    pub user_agent: Option<String>,
    /// Whether the session is the credential of this request.
    pub current: bool,
}

/// The body of `POST /api/v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// Name of the key, 1 to 100 characters on one line.
    #[schema(schema_with = schema::name)]
    pub name: String,
    /// Operations that the key permits; all of them when absent or empty.
    #[serde(default, deserialize_with = "form::or_default", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<schema::KeyScope>>)]
    pub scopes: Vec<ApiKeyScope>,
    /// Spaces that the key may access, 1 to 100; all spaces of the account when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::UuidV7>>, min_items = 1, max_items = 100)]
    pub spaces: Option<Vec<SpaceId>>,
    /// Time at which the key expires; it does not expire when absent.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Moment>)]
    pub expires_at: Option<Timestamp>,
}

/// An API key of the knowledge API, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Id of the key. It is not a credential.
    #[schema(value_type = schema::UuidV7)]
    pub id: ApiKeyId,
    /// Name of the key.
    pub name: String,
    /// Operations that the key permits.
    #[schema(value_type = Vec<schema::KeyScope>)]
    pub scopes: Vec<ApiKeyScope>,
    /// Spaces that the key may access; all spaces of the account when `null`.
    #[schema(value_type = Option<Vec<schema::UuidV7>>, required = true)]
    pub spaces: Option<Vec<SpaceId>>,
    /// Time of the key's creation.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// Time at which the key expires; `null` if it does not expire.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub expires_at: Option<Timestamp>,
    /// Time of the key's last use, written once a minute; `null` before the first use.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_used_at: Option<Timestamp>,
    /// Time of the revocation; `null` for a key that is not revoked.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub revoked_at: Option<Timestamp>,
}

/// A new key with its secret, which only this response contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    /// Id, name, scopes and times of the key.
    #[serde(flatten)]
    pub about: Key,
    /// The secret, the bearer credential of the knowledge API.
    #[serde(with = "form::clear")]
    #[schema(value_type = String, min_length = 1)]
    pub key: Secret,
}

/// `GET /api/v1/keys`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Keys {
    /// The keys; revoked ones last.
    pub keys: Vec<Key>,
}
