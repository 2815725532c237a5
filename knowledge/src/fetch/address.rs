//! Which addresses may be connected to. Whoever adds a page must not make the server talk to its own neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The internet.
    Public,
    /// A closed network; allowed if it is listed.
    Private,
    /// Never: nothing that anyone would want remembered is there.
    Forbidden,
}

/// IPv4 networks that are not the internet (IANA, *Special-Purpose Address Registry*).
const V4: [(Ipv4Net, Reach); 15] = [
    (v4([0, 0, 0, 0], 8), Reach::Forbidden),
    (v4([10, 0, 0, 0], 8), Reach::Private),
    (v4([100, 64, 0, 0], 10), Reach::Private),
    (v4([127, 0, 0, 0], 8), Reach::Private),
    // Link-local, where clouds serve the secrets of their machines.
    (v4([169, 254, 0, 0], 16), Reach::Forbidden),
    (v4([172, 16, 0, 0], 12), Reach::Private),
    (v4([192, 0, 0, 0], 24), Reach::Forbidden),
    (v4([192, 0, 2, 0], 24), Reach::Forbidden),
    (v4([192, 88, 99, 0], 24), Reach::Forbidden),
    (v4([192, 168, 0, 0], 16), Reach::Private),
    (v4([198, 18, 0, 0], 15), Reach::Private),
    (v4([198, 51, 100, 0], 24), Reach::Forbidden),
    (v4([203, 0, 113, 0], 24), Reach::Forbidden),
    (v4([224, 0, 0, 0], 4), Reach::Forbidden),
    (v4([240, 0, 0, 0], 4), Reach::Forbidden),
];

/// Single IPv4 addresses at which clouds serve the secrets of their machines, although their networks are ordinary.
const V4_METADATA: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// IPv6 networks that are not the internet.
const V6: [(Ipv6Net, Reach); 13] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Reach::Private),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Reach::Forbidden),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Reach::Forbidden),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Reach::Forbidden),
    (v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28), Reach::Forbidden),
    (v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28), Reach::Forbidden),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Reach::Forbidden),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Reach::Forbidden),
    // Within the private networks, but where a cloud serves the secrets of its machines.
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32), Reach::Forbidden),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Reach::Forbidden),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Reach::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Reach::Forbidden),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Reach::Forbidden),
];

/// Where the internet is in IPv6: everything outside is reserved, or one of the networks above.
const V6_GLOBAL: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const fn v4(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let of = segments;
    let address = Ipv6Addr::new(of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7]);
    Ipv6Net::new_assert(address, prefix)
}

/// Which addresses an operator lets us fetch from.
#[derive(Debug, Clone, Default)]
pub struct AddressRules {
    allow_private: Vec<IpNet>,
}

impl AddressRules {
    /// Private networks only from this list. Link-local networks and the addresses at which clouds serve the secrets of their machines are
    /// never allowed, listed or not.
    pub fn new(allow_private: Vec<IpNet>) -> Self {
        Self { allow_private }
    }

    /// Whether this address may be connected to.
    pub fn allows(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.allows_v4(address),
            IpAddr::V6(address) => {
                // A way to an IPv4 address is judged as that address, and as what it is itself.
                embedded_v4(address).into_iter().flatten().all(|inside| self.allows_v4(inside))
                    && self.allows_v6(address)
            }
        }
    }

    fn allows_v4(&self, address: Ipv4Addr) -> bool {
        let listed = V4.iter().find(|(net, _)| net.contains(&address)).map_or(Reach::Public, |(_, reach)| *reach);
        let reach = if V4_METADATA.contains(&address) { Reach::Forbidden } else { listed };
        self.allows_reach(reach, IpAddr::V4(address))
    }

    fn allows_v6(&self, address: Ipv6Addr) -> bool {
        let listed = V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, reach)| *reach);
        let carries_v4 = embedded_v4(address)[0].is_some();
        let reach = match listed {
            Some(reach) => reach,
            None if carries_v4 || V6_GLOBAL.contains(&address) => Reach::Public,
            None => Reach::Forbidden,
        };
        self.allows_reach(reach, IpAddr::V6(address))
    }

    fn allows_reach(&self, reach: Reach, address: IpAddr) -> bool {
        match reach {
            Reach::Public => true,
            Reach::Private => self.allow_private.iter().any(|net| net.contains(&address)),
            Reach::Forbidden => false,
        }
    }
}

/// The IPv4 addresses to which an IPv6 address is a way: mapped, compatible, translated (NAT64), 6to4, Teredo (server and client), ISATAP.
fn embedded_v4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let octets = address.octets();
    let at = |from: usize| Ipv4Addr::new(octets[from], octets[from + 1], octets[from + 2], octets[from + 3]);
    let inverted = |from: usize| Ipv4Addr::from(!u32::from(at(from)));
    match address.segments() {
        // ::1 and :: are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            [Some(at(12)), None]
        }
        // Which of its forms a local translation prefix has cannot be told, so both places are judged.
        [0x64, 0xff9b, 1, ..] => [Some(at(12)), Some(Ipv4Addr::new(octets[6], octets[7], octets[9], octets[10]))],
        [0x2002, ..] => [Some(at(2)), None],
        [0x2001, 0, ..] => [Some(at(4)), Some(inverted(12))],
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => [Some(at(12)), None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(rules: &AddressRules, text: &str) -> bool {
        rules.allows(text.parse().unwrap())
    }

    #[test]
    fn the_internet_is_allowed() {
        let rules = AddressRules::default();
        for public in ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"] {
            assert!(allows(&rules, public), "{public}");
        }
    }

    #[test]
    fn what_is_not_the_internet_is_not() {
        let rules = AddressRules::default();
        for closed in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:0:7f00:1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fe80::5efe:7f00:1",
            "fec0::1",
            "ff02::1",
            "2606:4700::5efe:a00:1",
        ] {
            assert!(!allows(&rules, closed), "{closed}");
        }
    }

    #[test]
    fn private_networks_are_allowed_from_the_list_and_some_addresses_never() {
        let everything = AddressRules::new(vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()]);
        for private in ["127.0.0.1", "10.1.2.3", "192.168.1.1", "100.64.0.1", "::1", "fd12::1", "::ffff:127.0.0.1"] {
            assert!(allows(&everything, private), "{private}");
        }
        for never in [
            "169.254.169.254",
            "100.100.100.200",
            "fd00:ec2::254",
            "fe80::1",
            "::ffff:169.254.169.254",
            "0.0.0.0",
            "::",
            "224.0.0.1",
        ] {
            assert!(!allows(&everything, never), "{never}");
        }
        let one = AddressRules::new(vec!["127.0.0.0/8".parse().unwrap()]);
        assert!(allows(&one, "127.0.0.1") && !allows(&one, "10.0.0.1") && !allows(&one, "::1"));
    }

    proptest! {
        /// However a forbidden IPv4 address is wrapped, it stays forbidden.
        #[test]
        fn a_blocked_address_is_blocked_in_every_wrapping(nth in 0..V4.len(), bits: u32) {
            let (net, _) = V4[nth];
            let inside = Ipv4Addr::from(u32::from(net.network()) | (bits & u32::from(net.hostmask())));
            let rules = AddressRules::default();
            prop_assert!(!rules.allows(IpAddr::V4(inside)));
            let [a, b, c, d] = inside.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for wrapped in [
                [0, 0, 0, 0, 0, 0xffff, high, low],
                [0, 0, 0, 0, 0xffff, 0, high, low],
                [0x64, 0xff9b, 0, 0, 0, 0, high, low],
                [0x64, 0xff9b, 1, 0, 0, 0, high, low],
                [0x2002, high, low, 0, 0, 0, 0, 1],
                [0x2001, 0, high, low, 0, 0, 0, 1],
                [0x2001, 0, 0x808, 0x808, 0, 0, !high, !low],
                [0x2606, 0x4700, 0, 0, 0, 0x5efe, high, low],
            ] {
                prop_assert!(!rules.allows(IpAddr::V6(Ipv6Addr::from(wrapped))), "{inside} in {wrapped:x?}");
            }
        }
    }
}
