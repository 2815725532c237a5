//! The credential of a response that outlasts its request: streams and the export. It is checked when the request arrives, and again
//! while the response is sent, so that revoking a credential ends the responses that it opened.

use std::pin::Pin;
use std::time::Duration;

use domain::Clock;
use domain::ids::{ApiKeyId, UserAccountId};
use domain::live::Live;
use domain::secret::SecretHash;
use futures_util::stream::{self, Stream, StreamExt};
use store::{Store, StoreError};

/// The credential of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// An API key and its account.
    Key(ApiKeyId, UserAccountId),
    /// The hash of a browser session's secret.
    Session(SecretHash),
}

/// Maximum time between two checks, regardless of the heartbeat.
const CHECK_EVERY_MAX: Duration = Duration::from_secs(15);

/// Checks credentials while responses are sent. Clones share the database.
#[derive(Debug, Clone)]
pub struct CredentialChecks {
    store: Store,
    clock: Clock,
    heartbeat: Live<Duration>,
}

impl CredentialChecks {
    /// `heartbeat` is the pause between two heartbeats of a stream: each is a check, too.
    pub fn new(store: Store, clock: Clock, heartbeat: Live<Duration>) -> Self {
        Self { store, clock, heartbeat }
    }

    /// Returns the items while the credential is valid. If it is revoked or expires, `last` is the last item.
    pub fn while_valid<T: Send + 'static>(
        self,
        credential: Credential,
        items: impl Stream<Item = T> + Send + 'static,
        last: T,
    ) -> impl Stream<Item = T> + Send {
        let revoked: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(self.until_revoked(credential));
        let state = (Box::pin(items), revoked, Some(last));
        stream::unfold(state, |(mut items, mut revoked, mut last)| async move {
            // Once `last` is taken, the stream has ended.
            last.as_ref()?;
            let item = tokio::select! {
                biased;
                () = &mut revoked => last.take(),
                item = items.next() => item,
            };
            item.map(|item| (item, (items, revoked, last)))
        })
    }

    /// Returns when the credential is no longer valid. After a store error the check is repeated.
    async fn until_revoked(self, credential: Credential) {
        loop {
            let every = (**self.heartbeat.get()).min(CHECK_EVERY_MAX);
            tokio::time::sleep(every).await;
            match self.is_valid(&credential).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(error = domain::reasons(&error), "the credential of a stream could not be checked");
                }
            }
        }
    }

    /// Whether the server would still accept the credential.
    async fn is_valid(&self, credential: &Credential) -> Result<bool, StoreError> {
        let (store, now) = (&self.store, self.clock.now());
        Ok(match credential {
            Credential::Key(id, account) => {
                store.api_key_of_account(*id, account).await?.is_some_and(|key| key.is_good(now))
            }
            Credential::Session(token) => store.session_by_hash(token, now).await?.is_some(),
        })
    }
}
