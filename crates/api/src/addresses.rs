//! Limits per client address, on connections and on bodies that are being received.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use domain::live::Live;
use ipnet::IpNet;

use super::client::is_trusted;
use super::counts::{Counted, Counts};

/// Counts by address. Addresses of one IPv6 network (/64) count as one. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Addresses {
    counts: Arc<Counts<IpAddr>>,
    trusted: Vec<IpNet>,
}

impl Addresses {
    /// `per_address_max` is the maximum per address; 0 means no limit. Trusted proxies are not counted.
    pub fn new(per_address_max: impl Into<Live<usize>>, trusted: &[IpNet]) -> Self {
        Self { counts: Counts::new(per_address_max), trusted: trusted.to_vec() }
    }

    /// Takes one unit for this address; `None` if the address has reached its maximum.
    pub fn take(&self, address: IpAddr) -> Option<Taken> {
        if is_trusted(address, &self.trusted) {
            return Some(Taken::default());
        }
        let counted = self.counts.take(network(address.to_canonical()))?;
        Some(Taken { counted: Some(counted) })
    }
}

/// One counted connection or body of an address, until dropped; empty if the address is not counted.
#[derive(Debug, Default)]
pub struct Taken {
    counted: Option<Counted<IpAddr>>,
}

impl Taken {
    /// Whether the address uses more than half of its maximum.
    pub fn is_crowded(&self) -> bool {
        self.counted.as_ref().is_some_and(Counted::is_crowded)
    }
}

/// The /64 network of an IPv6 address: one subscriber has 2^64 addresses, so they count as one.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_has_all_gets_no_more_until_it_gives_one_back() {
        let addresses = Addresses::new(2, &[]);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let first = addresses.take(one).unwrap();
        assert!(!first.is_crowded(), "half of them");
        let _second = addresses.take(one).unwrap();
        assert!(first.is_crowded());
        assert!(addresses.take(one).is_none());
        assert!(addresses.take("::ffff:192.0.2.1".parse().unwrap()).is_none(), "the same address in IPv6");
        assert!(addresses.take(other).is_some());
        drop(first);
        assert!(addresses.take(one).is_some());
    }

    #[test]
    fn one_ipv6_network_counts_as_one_and_nothing_is_remembered_of_who_left() {
        let addresses = Addresses::new(1, &[]);
        let taken = addresses.take("2001:db8::1".parse().unwrap()).unwrap();
        assert!(addresses.take("2001:db8::2".parse().unwrap()).is_none());
        assert!(addresses.take("2001:db8:0:1::1".parse().unwrap()).is_some());
        drop(taken);
        assert!(addresses.counts.is_empty());
    }

    #[test]
    fn zero_is_no_limit_and_a_changed_limit_counts_what_is_taken() {
        let limit = Live::new(0);
        let addresses = Addresses::new(limit.clone(), &[]);
        let take = || addresses.take("192.0.2.1".parse().unwrap());
        let mut taken: Vec<_> = (0..1000).map(|_| take().unwrap()).collect();
        assert!(!taken[0].is_crowded());
        limit.set(999);
        assert!(take().is_none() && taken[0].is_crowded(), "none is taken away");
        taken.truncate(998);
        assert!(take().is_some());
    }

    #[test]
    fn trusted_proxies_are_not_counted() {
        let addresses = Addresses::new(1, &["192.0.2.0/24".parse().unwrap()]);
        let proxy = "::ffff:192.0.2.1".parse().unwrap();
        let taken = [addresses.take(proxy), addresses.take(proxy)];
        assert!(taken.iter().all(Option::is_some) && addresses.counts.is_empty());
    }
}
