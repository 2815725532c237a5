//! Addresses that somebody might add to reach what is none of theirs: a listener proves that nobody ever comes.

use std::time::Duration;

use domain::item::Fault;
use knowledge::fetch::{FetchError, FetchSettings, WebUrl};

use crate::world::{Names, Server, fetcher, fetcher_with, html, redirect};

/// Ways to write an address of this machine or of its neighbours; `PORT` is where the listener is.
const HOSTILE: [&str; 66] = [
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://127.255.255.254:PORT/",
    "http://2130706433:PORT/",
    "http://017700000001:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.0.0.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0177.0.0.01:PORT/",
    "http://127.0.0.0x1:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127%2e0%2e0%2e1:PORT/",
    "http://①②⑦.0.0.1:PORT/",
    "http://127。0。0。1:PORT/",
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://00.0:PORT/",
    "http://[::1]:PORT/",
    "http://[::]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[::ffff:0:127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[64:ff9b:1::127.0.0.1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:7f00:1::]:PORT/",
    "http://[2001:0:808:808:0:0:80ff:fffe]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fec0::1]:PORT/",
    "http://[fc00::1]:PORT/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[ff02::1]:PORT/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://100.100.100.200/latest/meta-data/",
    "http://10.0.0.1:PORT/",
    "http://172.16.0.1:PORT/",
    "http://172.31.255.255:PORT/",
    "http://192.168.0.1:PORT/",
    "http://100.64.0.1:PORT/",
    "http://198.18.0.1:PORT/",
    "http://192.0.2.1:PORT/",
    "http://224.0.0.1:PORT/",
    "http://255.255.255.255:PORT/",
    "http://240.0.0.1:PORT/",
    "http://loopback.test:PORT/",
    "http://LOOPBACK.TEST.:PORT/",
    "http://loopback6.test:PORT/",
    "http://mapped.test:PORT/",
    "http://private.test:PORT/",
    "http://metadata.test/",
    "http://many.test:PORT/",
    "https://127.0.0.1:PORT/",
    "https://loopback.test:PORT/",
    "http://user@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/",
    "file:///etc/passwd",
];

fn names() -> Names {
    Names::default()
        .with("loopback.test", &[&["127.0.0.1"]])
        .with("loopback6.test", &[&["::1"]])
        .with("mapped.test", &[&["::ffff:127.0.0.1"]])
        .with("private.test", &[&["10.0.0.1"]])
        .with("metadata.test", &[&["169.254.169.254"]])
        .with("many.test", &[&["127.0.0.1", "::1", "192.168.1.1", "0.0.0.0"]])
}

/// Only public addresses, on any of these ports; an address that would be let through fails fast.
fn closed(ports: Vec<u16>) -> FetchSettings {
    FetchSettings {
        ports,
        host_interval: Duration::ZERO,
        connect_timeout: Duration::from_millis(200),
        retries: 0,
        ..FetchSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_addresses_are_never_connected_to() {
    let server = Server::start(|_, _| html("reached")).await;
    let port = server.address.port();
    let fetcher = fetcher_with(closed(vec![80, 443, port]), names());
    for hostile in HOSTILE {
        let written = hostile.replace("PORT", &port.to_string());
        let Ok(url) = written.parse::<WebUrl>() else { continue };
        let error = fetcher.fetch(&url).await.unwrap_err();
        assert_eq!(error, FetchError::BlockedAddress, "{hostile}");
        assert_eq!(error.fault(), Some(Fault::BlockedAddress));
    }
    assert_eq!(server.heads(), [""; 0], "nobody came");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_to_hostile_addresses_are_not_followed() {
    let inside = Server::start(|_, _| html("reached")).await;
    let (inner, targets) =
        (inside.address.port(), HOSTILE.map(|hostile| hostile.replace("PORT", &inside.address.port().to_string())));
    let outside = Server::start(move |path, _| {
        let nth: usize = path.trim_start_matches('/').parse().unwrap_or(usize::MAX);
        targets.get(nth).map_or_else(|| html(""), |target| redirect(target))
    })
    .await;
    // The first server is what an operator allows; the rest of the machine is not.
    let mut settings = closed(vec![80, 443, outside.address.port(), inner]);
    settings.allow_private = vec!["127.0.0.3/32".parse().unwrap()];
    settings.robots = knowledge::fetch::RobotsPolicy::Ignore;
    let relay = tokio::net::TcpListener::bind("127.0.0.3:0").await.unwrap();
    let public = relay.local_addr().unwrap();
    settings.ports.push(public.port());
    let behind = outside.address;
    tokio::spawn(async move {
        while let Ok((mut near, _)) = relay.accept().await {
            let mut far = tokio::net::TcpStream::connect(behind).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    let fetcher = fetcher_with(settings, names());
    for (nth, hostile) in HOSTILE.iter().enumerate() {
        let url: WebUrl = format!("http://{public}/{nth}").parse().unwrap();
        let error = fetcher.fetch(&url).await.unwrap_err();
        assert!(matches!(error, FetchError::BlockedAddress | FetchError::BadRedirect), "{hostile}: {error:?}");
    }
    assert_eq!(inside.heads(), [""; 0], "nobody came");
    assert_eq!(outside.heads().len(), HOSTILE.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_its_mind_is_judged_each_time() {
    let server = Server::start(|_, _| html("reached")).await;
    let port = server.address.port();
    // The second answer would lead to the listener. A public address that nobody has answers nothing.
    let names = Names::default().with("rebinding.test", &[&["192.0.0.9"], &["127.0.0.1"]]);
    let fetcher = fetcher_with(closed(vec![port]), names);
    let url: WebUrl = format!("http://rebinding.test:{port}/").parse().unwrap();
    for _ in 0..4 {
        fetcher.fetch(&url).await.unwrap_err();
    }
    assert_eq!(server.heads(), [""; 0], "nobody came");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_addresses_only_the_allowed_are_tried() {
    let server = Server::start(|_, _| html("<p>reached")).await;
    let port = server.address.port();
    let names = Names::default().with("mixed.test", &[&["169.254.169.254", "10.0.0.1", "127.0.0.1"]]);
    let fetcher = fetcher_with(server.settings(), names);
    let fetched = fetcher.fetch(&format!("http://mixed.test:{port}/").parse().unwrap()).await.unwrap();
    assert_eq!(fetched.body, "<p>reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_ports_are_fetched_from() {
    let server = Server::start(|_, _| html("reached")).await;
    let mut settings = server.settings();
    settings.ports = FetchSettings::default().ports;
    let error = fetcher(settings).fetch(&server.url("/")).await.unwrap_err();
    assert_eq!(error, FetchError::BlockedPort(server.address.port()));
    assert_eq!(error.fault(), Some(Fault::BlockedAddress));
    assert_eq!(server.heads(), [""; 0], "nobody came");
}
