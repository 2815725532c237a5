//! Names to addresses, with the forbidden ones left out. The connection is made to what was judged: there is no second look-up whose
//! answer could be another.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::AddressRules;

/// Where names come from: the system's resolver, or a test's.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a host.
    fn addresses(&self, host: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, host: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
    }
}

/// Why a name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no address.
    #[error("the name has no address")]
    Unknown,
    /// It has only addresses that we do not connect to.
    #[error("the name leads only to addresses that are not fetched from")]
    Blocked,
}

/// For the HTTP client.
#[derive(Clone)]
pub struct GuardedResolver {
    lookup: Arc<dyn Lookup>,
    rules: Arc<AddressRules>,
}

impl GuardedResolver {
    /// Names from `lookup`, judged by `rules`.
    pub fn new(lookup: Arc<dyn Lookup>, rules: Arc<AddressRules>) -> Self {
        Self { lookup, rules }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, rules) = (Arc::clone(&self.lookup), Arc::clone(&self.rules));
        Box::pin(async move {
            let boxed = |error: NameError| Box::<dyn Error + Send + Sync>::from(error);
            let found = lookup.addresses(name.as_str().to_owned()).await.map_err(|_| boxed(NameError::Unknown))?;
            if found.is_empty() {
                return Err(boxed(NameError::Unknown));
            }
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| rules.allows(*address)).map(|address| (address, 0).into()).collect();
            if allowed.is_empty() { Err(boxed(NameError::Blocked)) } else { Ok(Box::new(allowed.into_iter()) as Addrs) }
        })
    }
}

impl fmt::Debug for GuardedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardedResolver")
    }
}
