//! Compares the network of a request with the visitor's, in words.

use std::net::IpAddr;

/// Where a request came from, as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The relation of the address to the visitor; empty if it is uncertain.
    pub words: &'static str,
    /// The address itself.
    pub address: String,
}

impl Network {
    /// The network of a request from `address`, for a visitor at `own`. `is_local`: the base URL has a loopback address.
    pub fn new(address: Option<String>, own: IpAddr, is_local: bool) -> Option<Self> {
        let address = address?;
        let words = address.parse().map_or("", |other| compared(other, own, is_local));
        Some(Self { words, address })
    }
}

/// Compares two addresses. Addresses that several parties may share, of private networks and of proxies on this host, give no result.
fn compared(other: IpAddr, own: IpAddr, is_local: bool) -> &'static str {
    match (other.to_canonical(), own.to_canonical()) {
        (other, own) if other.is_loopback() && own.is_loopback() && is_local => "The computer that you use now",
        (other, own) if !is_public(other) || !is_public(own) => "",
        (other, own) if other == own => SAME,
        // One household has one network of 64 bits.
        (IpAddr::V6(other), IpAddr::V6(own)) if other.segments()[..4] == own.segments()[..4] => SAME,
        (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => "Another network than yours",
        _ => "",
    }
}

const SAME: &str = "The same network as you";

/// Whether one subscriber has the address.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0b1100_0000 == 0b0100_0000;
            !(v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified() || is_shared)
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_named_only_when_it_is_certain() {
        let words = |other: &str, own: &str, is_local| {
            Network::new(Some(other.to_owned()), own.parse().unwrap(), is_local).unwrap().words
        };
        assert_eq!(words("127.0.0.1", "127.0.0.1", true), "The computer that you use now");
        // A proxy on this host hides all addresses.
        assert_eq!(words("127.0.0.1", "127.0.0.1", false), "");
        assert_eq!(words("198.51.100.7", "198.51.100.7", false), "The same network as you");
        assert_eq!(words("198.51.100.7", "::ffff:198.51.100.7", false), "The same network as you");
        assert_eq!(words("2001:db8:1:2:3::4", "2001:db8:1:2:9::1", false), "The same network as you");
        assert_eq!(words("198.51.100.7", "198.51.100.8", false), "Another network than yours");
        assert_eq!(words("2001:db8:1:2::4", "2001:db8:1:3::4", false), "Another network than yours");
        for (other, own) in [("10.0.0.1", "10.0.0.1"), ("100.64.0.1", "100.64.0.1"), ("fd00::1", "fd00::1")] {
            assert_eq!(words(other, own, false), "", "{other}");
        }
        assert_eq!(words("198.51.100.7", "2001:db8::1", false), "");
        assert_eq!(words("unknown", "198.51.100.7", false), "");
        assert_eq!(Network::new(None, IpAddr::from([127, 0, 0, 1]), true), None);
    }
}
