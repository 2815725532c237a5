//! Names to addresses that may be connected to.
//!
//! The HTTP library connects to nothing but what [`JudgingResolver`] returns, so there is no moment between judging and connecting at
//! which a name could change its mind. Literal hosts never come by here: they are judged before each hop.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use super::address::AddressRules;

/// Why a name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResolveError {
    /// It has no address, or nobody could say.
    #[error("the name has no address")]
    Unknown,
    /// It has addresses, and may be connected to at none of them.
    #[error("the name leads to addresses that are not connected to")]
    Blocked,
}

/// Leaves of another resolver's answer what the rules allow.
pub(super) struct JudgingResolver {
    pub(super) inner: Arc<dyn Resolve>,
    pub(super) rules: Arc<AddressRules>,
}

impl Resolve for JudgingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (answer, rules) = (self.inner.resolve(name), Arc::clone(&self.rules));
        Box::pin(async move {
            let found: Vec<SocketAddr> = answer.await.map_err(|_| ResolveError::Unknown)?.collect();
            if found.is_empty() {
                return Err(ResolveError::Unknown.into());
            }
            // The port is the URL's: an answer has no say in it.
            let allowed = found.iter().filter(|address| rules.allow(address.ip()));
            let allowed: Vec<SocketAddr> =
                allowed.map(|address| SocketAddr::new(address.ip().to_canonical(), 0)).collect();
            if allowed.is_empty() {
                Err(ResolveError::Blocked.into())
            } else {
                Ok(Box::new(allowed.into_iter()) as Addrs)
            }
        })
    }
}

/// The machine's own resolver, asked on threads that may block, on a bounded number of them: an answer that nobody waits for any more
/// still holds its thread.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl SystemResolver {
    /// How many names are looked up at once.
    const LOOKUPS_MAX: usize = 64;
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(Self::LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookups = Arc::clone(&self.lookups);
        Box::pin(async move {
            let slot = lookups.acquire_owned().await?;
            let looked_up = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                drop(slot);
                found
            });
            Ok(Box::new(looked_up.await??) as Addrs)
        })
    }
}
