//! The address of the client.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use ipnet::IpNet;

use super::connection::Peer;

/// The source of a request: the peer of the connection, or the address that trusted proxies report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Networks of proxies with a trusted `X-Forwarded-For` (`http.trusted_proxies`). Clones share them.
#[derive(Debug, Clone)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Trusts the proxies in these networks.
    pub fn new(networks: &[IpNet]) -> Self {
        Self(networks.into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ClientAddress
where
    TrustedProxies: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let TrustedProxies(networks) = TrustedProxies::from_ref(state);
        Ok(Self::of(parts, &networks))
    }
}

impl ClientAddress {
    /// The address of the request with this head, given the trusted proxies.
    pub fn of(parts: &Parts, trusted: &[IpNet]) -> Self {
        let peer = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |Peer(peer)| peer.address());
        Self(behind(peer, &parts.headers, trusted))
    }
}

/// Whether this is the address of a trusted proxy, which many clients share.
pub fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&address.to_canonical()))
}

/// The address before the trusted proxies: reads `X-Forwarded-For` from its end while the address is a trusted proxy, and ignores the
/// entries before.
fn behind(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut address = peer.to_canonical();
    let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
    let named: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    for name in named.into_iter().rev() {
        if !is_trusted(address, trusted) {
            break;
        }
        let Ok(next) = name.parse::<IpAddr>() else { break };
        address = next.to_canonical();
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded: &str, trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", forwarded.parse().unwrap());
        let trusted: Vec<IpNet> = trusted.iter().map(|network| network.parse().unwrap()).collect();
        behind(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        assert_eq!(seen("203.0.113.9", "198.51.100.1", &[]), "203.0.113.9");
        assert_eq!(seen("10.0.0.1", "198.51.100.1", &["10.0.0.0/8"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", &["10.0.0.0/8"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", "nonsense", &["10.0.0.0/8"]), "10.0.0.1");
        assert_eq!(seen("::ffff:10.0.0.1", "198.51.100.1", &["10.0.0.0/8"]), "198.51.100.1");
    }
}
