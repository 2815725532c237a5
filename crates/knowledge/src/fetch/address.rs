//! The addresses that the fetcher may connect to (`docs/decisions/0025-from-url-to-text.md`).
//!
//! Addresses that the registries of special-purpose addresses (RFC 6890 and its successors) do not call globally
//! reachable are blocked. IPv6 addresses that embed an IPv4 address are classified by it, because a translator would
//! route there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use domain::web_url::WebUrl;
use ipnet::IpNet;
use url::Host;

/// Class of an address, from open to blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// On the public internet.
    Public,
    /// In a private network, this machine included: allowed if listed.
    Private,
    /// Not a web server, or a metadata service: never allowed.
    Never,
}

/// Decides whether to connect to an address.
#[derive(Debug, Clone, Default)]
pub struct AddressRules {
    allow_private: Vec<IpNet>,
}

impl AddressRules {
    /// Allows public addresses, and private addresses in these networks.
    pub fn new(allow_private: Vec<IpNet>) -> Self {
        Self { allow_private }
    }

    /// Whether a URL may be requested by its host: a literal address is checked here, and a name when it is resolved.
    pub fn allow_literal(&self, url: &WebUrl) -> bool {
        match url.host() {
            Some(Host::Ipv4(address)) => self.allow(address.into()),
            Some(Host::Ipv6(address)) => self.allow(address.into()),
            Some(Host::Domain(_)) => true,
            None => false,
        }
    }

    /// Whether the fetcher may connect to the address.
    pub fn allow(&self, address: IpAddr) -> bool {
        // An IPv4-mapped IPv6 address is connected to over IPv4, so lists of IPv4 networks apply to it.
        let address = address.to_canonical();
        match reach(address) {
            Reach::Public => true,
            Reach::Private => self.allow_private.iter().any(|network| network.contains(&address)),
            Reach::Never => false,
        }
    }
}

/// The class of an address.
pub fn reach(address: IpAddr) -> Reach {
    match address.to_canonical() {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

/// `(network, prefix length, class)`. The first match decides; other addresses are public.
const V4: &[(Ipv4Addr, u32, Reach)] = &[
    (Ipv4Addr::UNSPECIFIED, 8, Reach::Never),        // this host, on this network
    (Ipv4Addr::new(10, 0, 0, 0), 8, Reach::Private), // private use
    (Ipv4Addr::new(100, 100, 100, 200), 32, Reach::Never), // metadata of Alibaba Cloud
    (Ipv4Addr::new(100, 64, 0, 0), 10, Reach::Private), // behind a provider's translator
    (Ipv4Addr::new(127, 0, 0, 0), 8, Reach::Private), // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32, Reach::Never), // metadata of Azure
    (Ipv4Addr::new(169, 254, 0, 0), 16, Reach::Never), // link-local: metadata of most clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12, Reach::Private), // private use
    (Ipv4Addr::new(192, 0, 0, 0), 24, Reach::Never), // protocol assignments; metadata of Oracle Cloud
    (Ipv4Addr::new(192, 0, 2, 0), 24, Reach::Never), // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24, Reach::Never), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24, Reach::Never), // automatic multicast tunneling
    (Ipv4Addr::new(192, 88, 99, 0), 24, Reach::Never), // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16, Reach::Private), // private use
    (Ipv4Addr::new(192, 175, 48, 0), 24, Reach::Never), // AS112
    (Ipv4Addr::new(198, 18, 0, 0), 15, Reach::Private), // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24, Reach::Never), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24, Reach::Never), // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4, Reach::Never),  // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4, Reach::Never),  // reserved, and broadcast
];

fn reach_v4(address: Ipv4Addr) -> Reach {
    let within = |(network, length, _): &&(Ipv4Addr, u32, Reach)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *length
    };
    V4.iter().find(within).map_or(Reach::Public, |(_, _, reach)| *reach)
}

/// As for IPv4, but other addresses are blocked, because only `2000::/3` is allocated.
const V6: &[(Ipv6Addr, u32, Reach)] = &[
    (Ipv6Addr::LOCALHOST, 128, Reach::Private),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32, Reach::Never), // metadata of Amazon, and its neighbours
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, Reach::Never), // metadata of Google
    (Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128, Reach::Never), // metadata of Scaleway
    (Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128, Reach::Never), // metadata of Oracle
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, Reach::Private),    // unique local
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, Reach::Never),     // protocols: benchmarks, ORCHID, relays
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, Reach::Never), // documentation
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, Reach::Never), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, Reach::Never),     // documentation
    (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, Reach::Public),
];

fn reach_v6(address: Ipv6Addr) -> Reach {
    if let Some(carried) = carried(address) {
        return carried;
    }
    let within = |(network, length, _): &&(Ipv6Addr, u32, Reach)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *length
    };
    V6.iter().find(within).map_or(Reach::Never, |(_, _, reach)| *reach)
}

/// The class of the IPv4 addresses that an IPv6 address embeds for a translator or a tunnel; `None` if it embeds none.
fn carried(address: Ipv6Addr) -> Option<Reach> {
    let v4 = |high: u16, low: u16| reach_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        // NAT64 (RFC 6052), and 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(v4(high, low)),
        // NAT64 with a local prefix (RFC 8215): the position of the IPv4 address is unknown.
        [0x64, 0xff9b, 1, ..] => Some(Reach::Never),
        // Teredo (RFC 4380): the server's address, and the client's with all bits inverted.
        [0x2001, 0, server_high, server_low, _, _, client_high, client_low] => {
            Some(v4(server_high, server_low).max(v4(!client_high, !client_low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judged(text: &str) -> Reach {
        reach(text.parse().unwrap())
    }

    #[test]
    fn every_special_network_is_closed_from_its_first_address_to_its_last() {
        for (network, expected) in [
            ("0.0.0.0/8", Reach::Never),
            ("10.0.0.0/8", Reach::Private),
            ("127.0.0.0/8", Reach::Private),
            ("169.254.0.0/16", Reach::Never),
            ("172.16.0.0/12", Reach::Private),
            ("192.0.0.0/24", Reach::Never),
            ("192.0.2.0/24", Reach::Never),
            ("192.88.99.0/24", Reach::Never),
            ("192.168.0.0/16", Reach::Private),
            ("198.18.0.0/15", Reach::Private),
            ("198.51.100.0/24", Reach::Never),
            ("203.0.113.0/24", Reach::Never),
            ("224.0.0.0/4", Reach::Never),
            ("240.0.0.0/4", Reach::Never),
            ("100.64.0.0/10", Reach::Private),
            ("::/128", Reach::Never),
            ("::1/128", Reach::Private),
            ("::ffff:127.0.0.0/104", Reach::Private),
            ("::ffff:0:0:0/96", Reach::Never),
            ("64:ff9b:1::/48", Reach::Never),
            ("100::/64", Reach::Never),
            ("2001:2::/48", Reach::Never),
            ("2001:10::/28", Reach::Never),
            ("2001:20::/28", Reach::Never),
            ("2001:db8::/32", Reach::Never),
            ("3fff::/20", Reach::Never),
            ("5f00::/16", Reach::Never),
            ("fc00::/8", Reach::Private),
            ("fe80::/10", Reach::Never),
            ("fec0::/10", Reach::Never),
            ("ff00::/8", Reach::Never),
        ] {
            let network: IpNet = network.parse().unwrap();
            assert_eq!(reach(network.network()), expected, "first of {network}");
            assert_eq!(reach(network.broadcast()), expected, "last of {network}");
        }
    }

    #[test]
    fn neighbours_of_special_networks_are_public() {
        for text in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "8.8.8.8",
            "2000::1",
            "2606:4700::1",
            "2001:4860:4860::8888",
            "2a00::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:0:808:808::f7f7:f7f7",
        ] {
            assert_eq!(judged(text), Reach::Public, "{text}");
        }
    }

    #[test]
    fn metadata_services_and_link_local_networks_stay_closed_even_if_listed() {
        let everything = AddressRules::new(vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()]);
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
            "fd00:c1::a9fe:a9fe",
            "fe80::1",
            "fe80::a9fe:a9fe",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:808:808::5601:5601",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            assert_eq!(judged(text), Reach::Never, "{text}");
            assert!(!everything.allow(text.parse().unwrap()), "{text}");
        }
        for text in ["127.0.0.1", "10.1.2.3", "::1", "fd12::1", "::ffff:10.1.2.3"] {
            assert!(everything.allow(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn only_listed_private_networks_are_open() {
        let rules = AddressRules::new(vec!["10.1.0.0/16".parse().unwrap()]);
        for (text, open) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.0.1", false),
            ("127.0.0.1", false),
            ("64:ff9b::10.1.2.3", false),
            ("2002:a01:203::1", false),
            ("93.184.216.34", true),
        ] {
            assert_eq!(rules.allow(text.parse().unwrap()), open, "{text}");
        }
    }

    /// All IPv6 forms that embed an IPv4 address.
    fn clothes(address: Ipv4Addr) -> Vec<Ipv6Addr> {
        let [high, low] = [(address.to_bits() >> 16) as u16, (address.to_bits() & 0xffff) as u16];
        vec![
            address.to_ipv6_mapped(),
            Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, high, low >> 8, low << 8, 0, 0),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, high, low, 0, 0, !0x0808, !0x0808),
            Ipv6Addr::new(0x2001, 0, 0x0808, 0x0808, 0, 0, !high, !low),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_closed_ipv4_address_is_closed_in_every_ipv6_form(bits in any::<u32>(), special in 0..V4.len(), hosts in any::<u32>()) {
            let (network, length, _) = V4[special];
            let inside = Ipv4Addr::from_bits(network.to_bits() | hosts.checked_shr(length).unwrap_or(0));
            for address in [Ipv4Addr::from_bits(bits), inside] {
                let plain = reach(address.into());
                for form in clothes(address) {
                    prop_assert!(reach(form.into()) >= plain, "{} carries {}", form, address);
                }
            }
            prop_assert!(reach(inside.into()) != Reach::Public);
        }

        #[test]
        fn an_ipv4_address_is_judged_as_the_standard_library_judges_it(bits in any::<u32>()) {
            let address = Ipv4Addr::from_bits(bits);
            let special = address.is_loopback() || address.is_private() || address.is_link_local() || address.is_multicast()
                || address.is_broadcast() || address.is_documentation() || address.is_unspecified();
            prop_assert!(!special || reach(address.into()) != Reach::Public);
        }

        #[test]
        fn only_allocated_addresses_are_public(bits in any::<u128>()) {
            let address = Ipv6Addr::from_bits(bits);
            let given_out = address.segments()[0] >> 13 == 1 || address.to_ipv4_mapped().is_some()
                || address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
            prop_assert!(given_out || reach(address.into()) != Reach::Public);
        }
    }
}
