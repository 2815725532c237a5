//! Lists of objects of accounts, and the result of a change.

use domain::ids::{BatchId, EventId, MailId, PersonId, SessionId, UserAccountId, WebhookId};
use domain::webhook::DisabledWhy;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;

/// A page of a list, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectPage<T> {
    /// The entries of this page, 200 at most.
    pub entries: Vec<T>,
    /// The `after` of the next page; null on the last one.
    #[schema(value_type = Option<schema::UuidV7>, required = true)]
    pub next: Option<Uuid>,
}

/// A running batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningBatchEntry {
    /// Id of the batch.
    #[schema(value_type = schema::UuidV7)]
    pub id: BatchId,
    /// `batch` or `import`.
    pub kind: String,
    /// Owner of the batch.
    #[schema(value_type = String)]
    pub user_account_id: UserAccountId,
    /// Number of items.
    pub total: u32,
    /// Items with an outcome.
    pub processed: u32,
    /// Time of the submission, RFC 3339.
    pub created_at: String,
    /// Time at which its cancellation was requested, RFC 3339.
    #[schema(required = true)]
    pub cancelled_at: Option<String>,
    /// The process with the lease.
    #[schema(required = true)]
    pub runner: Option<String>,
    /// End of the lease, RFC 3339.
    #[schema(required = true)]
    pub leased_until: Option<String>,
}

/// A mail that was not sent. Sign-in codes are not among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnsentMailEntry {
    /// Id of the mail.
    #[schema(value_type = schema::UuidV7)]
    pub id: MailId,
    /// Address of the recipient.
    pub to: String,
    /// Subject of the mail.
    pub subject: String,
    /// Time of creation, RFC 3339.
    pub created_at: String,
    /// Number of attempts so far.
    pub tries: u32,
    /// Time of the next attempt, RFC 3339; null if it was given up.
    #[schema(required = true)]
    pub next_try_at: Option<String>,
    /// Time at which it was given up, RFC 3339.
    #[schema(required = true)]
    pub given_up_at: Option<String>,
}

/// An endpoint of an account. Its path and query are absent, because receivers put secrets there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountWebhookEntry {
    /// Id of the endpoint.
    #[schema(value_type = schema::UuidV7)]
    pub id: WebhookId,
    /// The account that is notified.
    #[schema(value_type = String)]
    pub user_account_id: UserAccountId,
    /// Host of the URL, with the port unless it is the default.
    pub host: String,
    /// Whether notifications are sent to it.
    pub enabled: bool,
    /// Time at which it was disabled, RFC 3339.
    #[schema(required = true)]
    pub disabled_at: Option<String>,
    /// Why it is disabled.
    #[schema(value_type = Option<schema::WebhookDisabledReason>, required = true)]
    pub disabled_reason: Option<DisabledWhy>,
    /// Failures after the last success.
    pub failures: u32,
    /// Time of the last success, RFC 3339.
    #[schema(required = true)]
    pub last_success_at: Option<String>,
    /// Time of the last failure, RFC 3339.
    #[schema(required = true)]
    pub last_failure_at: Option<String>,
    /// Number of waiting deliveries.
    pub waiting: u32,
    /// Time of the fact that the oldest of these reports, RFC 3339.
    #[schema(required = true)]
    pub oldest_waiting_at: Option<String>,
}

/// A valid session of a person, without the address and the name of the browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PersonSessionEntry {
    /// Public id of the session, which the person sees too.
    #[schema(value_type = schema::UuidV7)]
    pub id: SessionId,
    /// The signed-in person.
    #[schema(value_type = schema::UuidV7)]
    pub person_id: PersonId,
    /// The account that the person owns.
    #[schema(value_type = Option<String>, required = true)]
    pub user_account_id: Option<UserAccountId>,
    /// How the person signed in: `code`, `operator`, or `oidc:` with the name of the provider.
    pub kind: String,
    /// Whether an operator created it.
    pub by_operator: bool,
    /// Time of the sign-in, RFC 3339.
    pub created_at: String,
    /// Time of the last use, RFC 3339, to within an hour.
    pub last_used_at: String,
    /// Time at which it expires unless it is used, RFC 3339.
    pub expires_at: String,
}

/// The object that was changed, and the act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectChanged {
    /// Kind and id of the object, such as `batch:ID`.
    pub target: String,
    /// Id of the recorded act.
    #[schema(value_type = schema::UuidV7)]
    pub act_id: EventId,
}
