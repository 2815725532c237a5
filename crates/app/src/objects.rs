//! Changes of single objects of accounts by operators.

use std::time::Duration;

use domain::Timestamp;
use domain::act::ActKind;
use domain::clock::delta;
use store::{Store, StoreError};
use uuid::Uuid;

use crate::App;

/// A change of one object. All objects have version 7 UUIDs as ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    /// Cancels a running batch.
    CancelBatch,
    /// Sends a mail at once.
    RetryMail,
    /// Sends a mail never.
    GiveUpMail,
    /// Disables an endpoint until it is enabled.
    DisableWebhook,
    /// Enables an endpoint that an operator or the server disabled.
    EnableWebhook,
    /// Ends a session of a person.
    EndSession,
}

impl ObjectChange {
    /// The act that it is.
    pub fn act(self) -> ActKind {
        match self {
            Self::CancelBatch => ActKind::BatchCancel,
            Self::RetryMail => ActKind::MailRetry,
            Self::GiveUpMail => ActKind::MailGiveUp,
            Self::DisableWebhook => ActKind::WebhookDisable,
            Self::EnableWebhook => ActKind::WebhookEnable,
            Self::EndSession => ActKind::SessionEnd,
        }
    }

    /// The kind of the object, as targets of acts name it.
    pub fn object(self) -> &'static str {
        match self {
            Self::CancelBatch => "batch",
            Self::RetryMail | Self::GiveUpMail => "mail",
            Self::DisableWebhook | Self::EnableWebhook => "webhook",
            Self::EndSession => "session",
        }
    }

    /// Why nothing was changed.
    pub fn refusal(self) -> &'static str {
        match self {
            Self::CancelBatch => "no running batch has this id",
            Self::RetryMail | Self::GiveUpMail => {
                "no mail with this id waits: it was sent, is being sent, or never existed"
            }
            Self::DisableWebhook => "no webhook has this id, or an operator has disabled it already",
            Self::EnableWebhook => {
                "no webhook with this id is disabled by an operator or by the server; one that its owner disabled is enabled by its owner"
            }
            Self::EndSession => "no session with this id is valid",
        }
    }

    /// Changes the object and records the act of `store` in one transaction; `false` if there is nothing to change. `give_up_after` is the
    /// retention of notifications (`webhooks.give_up_after`).
    #[boxed]
    pub async fn apply(
        self,
        store: &Store,
        id: Uuid,
        give_up_after: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        match self {
            Self::CancelBatch => store.batch_cancel(id.into(), None, now).await,
            Self::RetryMail => store.mail_steer(id.into(), false, now).await,
            Self::GiveUpMail => store.mail_steer(id.into(), true, now).await,
            Self::DisableWebhook => store.webhook_disable(id.into(), now).await,
            Self::EnableWebhook => store.webhook_enable(id.into(), now - delta(give_up_after), now).await,
            Self::EndSession => store.session_revoke_by_id(id.into(), None, now).await,
        }
    }
}

impl App {
    /// Hints that a change was committed, so that this node acts at once.
    pub fn hint_changed(&self, change: ObjectChange, id: Uuid) {
        match change {
            ObjectChange::CancelBatch => self.ingestion.hint_cancelled(id.into()),
            ObjectChange::RetryMail => self.mail.wake(),
            // The pass that sends notifications looks every few seconds, and sessions are read from the database.
            ObjectChange::GiveUpMail
            | ObjectChange::DisableWebhook
            | ObjectChange::EnableWebhook
            | ObjectChange::EndSession => {}
        }
    }
}
