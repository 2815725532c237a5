//! Resolves names to addresses that may be connected to.
//!
//! The HTTP client connects only to addresses that [`JudgingResolver`] returns, so a name cannot resolve differently
//! between check and connection. Literal hosts bypass the resolver; the fetcher checks them before each request.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use super::address::AddressRules;

/// Why a name has no usable address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResolveError {
    /// The name does not resolve, or the lookup failed.
    #[error("the name has no address")]
    Unknown,
    /// The name resolves to blocked addresses only.
    #[error("the name resolves to addresses that are not allowed")]
    Blocked,
}

/// Filters the addresses of another resolver by the rules.
pub struct JudgingResolver {
    inner: Arc<dyn Resolve>,
    rules: Arc<AddressRules>,
}

impl JudgingResolver {
    /// Only addresses of `inner` that `rules` allow.
    pub fn new(inner: Arc<dyn Resolve>, rules: Arc<AddressRules>) -> Self {
        Self { inner, rules }
    }
}

impl Resolve for JudgingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (answer, rules) = (self.inner.resolve(name), Arc::clone(&self.rules));
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = answer.await.map_err(|_| ResolveError::Unknown)?.collect();
            if addresses.is_empty() {
                return Err(ResolveError::Unknown.into());
            }
            // The URL determines the port; the port of a resolved address is ignored.
            let allowed = addresses.iter().filter(|address| rules.allow(address.ip()));
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

/// The system's resolver, on a bounded number of blocking threads. A cancelled lookup holds its thread until it
/// returns.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl SystemResolver {
    /// Maximum number of concurrent lookups.
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
                let addresses = (name.as_str(), 0).to_socket_addrs();
                drop(slot);
                addresses
            });
            Ok(Box::new(looked_up.await??) as Addrs)
        })
    }
}
