//! An account as its owner and the owner's agents see it (`docs/protocol/account.md#summary` and `docs/protocol/account.md#computers` and `docs/decisions/0006-accounts-persons-identities-computers.md` and `docs/decisions/0035-api-keys.md`).

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

/// `GET /api/v1/account/summary`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountSummary {
    /// Always 1.
    #[schema(schema_with = schema::version)]
    pub version: u32,
    /// When it was put together.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub generated_at: Timestamp,
    /// What could be read.
    pub sections: Sections,
    /// Why a section is missing, by its name.
    pub errors: BTreeMap<String, String>,
}

/// The sections of a summary; one that failed is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sections {
    /// The account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Account)]
    pub account: Option<Account>,
    /// What is left of its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UsageBar)]
    pub plan_and_usage: Option<UsageBar>,
    /// Its computers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AccountComputers)]
    pub computers: Option<AccountComputers>,
    /// Its agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Agents)]
    pub agents: Option<Agents>,
    /// Sections of other servers, each an object.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The section `account`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Its id.
    #[schema(value_type = schema::Cuid2)]
    pub id: UserAccountId,
    /// Its owner's address.
    #[schema(required = true)]
    pub email: Option<String>,
    /// Its owner's name.
    #[schema(required = true)]
    pub name: Option<String>,
}

/// `GET /api/v1/account/computers`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountComputers {
    /// The computers.
    pub computers: Vec<Computer>,
}

/// An attached computer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Computer {
    /// The computer.
    #[schema(value_type = schema::UuidV7)]
    pub machine_uuid: MachineUuid,
    /// When it registered.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub first_seen_at: Timestamp,
    /// When it last asked for something.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub last_seen_at: Timestamp,
    /// Always `attached`.
    #[schema(schema_with = schema::attached)]
    pub via: String,
}

/// The section `agents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Agents {
    /// The agents; living ones first.
    pub agents: Vec<Agent>,
}

/// An agent of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its registration.
    #[schema(value_type = schema::UuidV7)]
    pub id: RegistrationId,
    /// How it registered.
    #[serde(rename = "type")]
    #[schema(value_type = schema::RegistrationKind)]
    pub kind: RegistrationType,
    /// Always `claimed`.
    #[schema(schema_with = schema::claimed)]
    pub status: String,
    /// When it registered.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// When it last got a token.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_token_at: Option<Timestamp>,
    /// From where it registered.
    #[schema(required = true)]
    pub ip_address: Option<String>,
    /// Since when it may do nothing any more.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub revoked_at: Option<Timestamp>,
}

/// `GET /api/v1/sessions`, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// The browsers in which the caller's person is signed in.
    pub sessions: Vec<Session>,
}

/// A browser in which a person is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Its id, which opens nothing.
    #[schema(value_type = schema::UuidV7)]
    pub id: SessionId,
    /// When the person signed in.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// When the session ends, unless it is used.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub expires_at: Timestamp,
    /// How the person signed in.
    pub via: String,
    /// From where.
    #[schema(required = true)]
    pub address: Option<String>,
    /// With what.
    #[schema(required = true)]
    pub user_agent: Option<String>,
    /// Whether it is the caller's own.
    pub current: bool,
}

/// The body of `POST /api/v1/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// What its owner calls it.
    #[schema(schema_with = schema::name)]
    pub name: String,
    /// What it opens; everything when none is named.
    #[serde(default, deserialize_with = "form::or_default", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<schema::KeyScope>>)]
    pub scopes: Vec<ApiKeyScope>,
    /// Where; everywhere when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::UuidV7>>, min_items = 1, max_items = 100)]
    pub spaces: Option<Vec<SpaceId>>,
    /// Until when; for ever when absent.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Moment>)]
    pub expires_at: Option<Timestamp>,
}

/// A key of the knowledge API, without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Its id, which opens nothing.
    #[schema(value_type = schema::UuidV7)]
    pub id: ApiKeyId,
    /// What its owner calls it.
    pub name: String,
    /// What it opens.
    #[schema(value_type = Vec<schema::KeyScope>)]
    pub scopes: Vec<ApiKeyScope>,
    /// Where; everywhere when `null`.
    #[schema(value_type = Option<Vec<schema::UuidV7>>, required = true)]
    pub spaces: Option<Vec<SpaceId>>,
    /// When it was made.
    #[serde(with = "form::moment")]
    #[schema(value_type = schema::Moment)]
    pub created_at: Timestamp,
    /// When it ends.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub expires_at: Option<Timestamp>,
    /// When it was last used.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub last_used_at: Option<Timestamp>,
    /// When it was ended.
    #[serde(with = "form::moment_or_null")]
    #[schema(value_type = Option<schema::Moment>, required = true)]
    pub revoked_at: Option<Timestamp>,
}

/// A new key; it is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    /// What is known of it.
    #[serde(flatten)]
    pub about: Key,
    /// The bearer of the knowledge API.
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
