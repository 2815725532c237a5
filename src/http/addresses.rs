//! How many connections, or bodies on their way, one address may have at a time.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use dashmap::DashMap;

/// Counts what each address has. Addresses of one IPv6 network (/64) count as one.
#[derive(Debug)]
pub struct Addresses {
    /// What an address has; one that has nothing is not in here.
    taken: DashMap<IpAddr, usize>,
    per_address_max: usize,
}

impl Addresses {
    /// At most this many for one address; 0 is no limit.
    pub fn new(per_address_max: usize) -> Arc<Self> {
        Arc::new(Self { taken: DashMap::new(), per_address_max })
    }

    /// Takes one more for this address; `None`: it has all that it may have.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Taken> {
        if self.per_address_max == 0 {
            return Some(Taken { of: None, address });
        }
        let address = network(address.to_canonical());
        let mut taken = self.taken.entry(address).or_insert(0);
        if *taken >= self.per_address_max {
            return None;
        }
        *taken += 1;
        Some(Taken { of: Some(Arc::clone(self)), address })
    }
}

/// One that an address has; dropping it gives it back.
#[derive(Debug)]
pub struct Taken {
    /// None where nothing is counted.
    of: Option<Arc<Addresses>>,
    address: IpAddr,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(addresses) = &self.of else { return };
        if let Some(mut taken) = addresses.taken.get_mut(&self.address) {
            *taken = taken.saturating_sub(1);
        }
        addresses.taken.remove_if(&self.address, |_, taken| *taken == 0);
    }
}

/// One household of IPv6 has 2^64 addresses, so they count as one.
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
        let addresses = Addresses::new(2);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let (first, _second) = (addresses.take(one).unwrap(), addresses.take(one).unwrap());
        assert!(addresses.take(one).is_none());
        assert!(addresses.take("::ffff:192.0.2.1".parse().unwrap()).is_none(), "the same address in IPv6");
        assert!(addresses.take(other).is_some());
        drop(first);
        assert!(addresses.take(one).is_some());
    }

    #[test]
    fn one_ipv6_network_counts_as_one_and_nothing_is_remembered_of_who_left() {
        let addresses = Addresses::new(1);
        let taken = addresses.take("2001:db8::1".parse().unwrap()).unwrap();
        assert!(addresses.take("2001:db8::2".parse().unwrap()).is_none());
        assert!(addresses.take("2001:db8:0:1::1".parse().unwrap()).is_some());
        drop(taken);
        assert!(addresses.taken.is_empty());
    }

    #[test]
    fn zero_is_no_limit() {
        let addresses = Addresses::new(0);
        let taken: Vec<_> = (0..1000).map(|_| addresses.take("192.0.2.1".parse().unwrap()).unwrap()).collect();
        assert!(addresses.taken.is_empty() && taken.len() == 1000);
    }
}
