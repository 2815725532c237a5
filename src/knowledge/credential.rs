//! The credential of a response that lasts longer than a request: streams and the export. It is checked when the request arrives, and
//! again while the response is sent, so that revoking a credential ends the responses that it opened.

use std::pin::Pin;
use std::time::Duration;

use domain::ids::{ApiKeyId, UserAccountId};
use domain::secret::SecretHash;
use futures_util::stream::{self, Stream, StreamExt};
use store::StoreError;

use crate::app::App;

/// A credential that was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A key of the knowledge API, and its account.
    Key(ApiKeyId, UserAccountId),
    /// A browser session.
    Session(SecretHash),
}

impl Credential {
    /// Whether it would still be accepted.
    pub async fn is_good(&self, app: &App) -> Result<bool, StoreError> {
        let (store, now) = (&app.store, app.clock.now());
        Ok(match self {
            Self::Key(id, account) => store.api_key_of_account(*id, account).await?.is_some_and(|key| key.is_good(now)),
            Self::Session(token) => store.session_by_hash(token, now).await?.is_some(),
        })
    }
}

/// Longest time between two checks, regardless of the heartbeat.
const CHECK_EVERY_MAX: Duration = Duration::from_secs(15);

/// How often the credential of a response is checked: with every heartbeat.
pub fn check_every(app: &App) -> Duration {
    app.settings.knowledge.batch.heartbeat.min(CHECK_EVERY_MAX)
}

/// Returns the pieces while the credential is valid; if it is revoked or expires, `last` and the end.
pub fn while_good<T: Send + 'static>(
    app: App,
    credential: Credential,
    pieces: impl Stream<Item = T> + Send + 'static,
    last: T,
) -> impl Stream<Item = T> + Send {
    let revoked: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(revoked(app, credential));
    let state = (Box::pin(pieces), revoked, Some(last));
    stream::unfold(state, |(mut pieces, mut revoked, mut last)| async move {
        // Without a last piece there was the end.
        last.as_ref()?;
        let piece = tokio::select! {
            biased;
            () = &mut revoked => last.take(),
            piece = pieces.next() => piece,
        };
        piece.map(|piece| (piece, (pieces, revoked, last)))
    })
}

/// Returns when the credential is no longer valid. A store error revokes nothing: the check is repeated.
async fn revoked(app: App, credential: Credential) {
    loop {
        tokio::time::sleep(check_every(&app)).await;
        match credential.is_good(&app).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(error = domain::reasons(&error), "the credential of a stream could not be checked");
            }
        }
    }
}
