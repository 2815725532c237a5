//! Addresses that must never be connected to, in every notation and behind redirects.

use domain::item::Fault;
use knowledge::fetch::{FetchError, FetchSettings, RobotsRule};

use crate::site::{Names, Site, Trap, page, redirect};
use crate::{fetch, fetcher, fetcher_with, settings_for};

const BLOCKED: Fault = Fault::BlockedAddress;
const INVALID: Fault = Fault::InvalidUrl;

/// `PORT` is replaced by the port of the trap, which is an allowed port.
const DIRECT: &[(&str, Fault)] = &[
    // loopback, in every notation
    ("http://127.0.0.1:PORT/", BLOCKED),
    ("http://127.0.0.1.:PORT/", BLOCKED),
    ("http://127.0.0.1..:PORT/", BLOCKED),
    ("http://127.1:PORT/", BLOCKED),
    ("http://127.0.1:PORT/", BLOCKED),
    ("http://127.255.255.254:PORT/", BLOCKED),
    ("http://2130706433:PORT/", BLOCKED),
    ("http://017700000001:PORT/", BLOCKED),
    ("http://0177.0.0.1:PORT/", BLOCKED),
    ("http://0x7f000001:PORT/", BLOCKED),
    ("http://0x7f.0x0.0x0.0x1:PORT/", BLOCKED),
    ("http://0X7F.1:PORT/", BLOCKED),
    ("http://127.0x0.00.1:PORT/", BLOCKED),
    ("http://%31%32%37.0.0.1:PORT/", BLOCKED),
    ("http://127%2E0%2E0%2E1:PORT/", BLOCKED),
    ("http://127。0。0。1:PORT/", BLOCKED),
    ("http://１２７.０.０.１:PORT/", BLOCKED),
    ("http://①②⑦.⓪.⓪.①:PORT/", BLOCKED),
    ("http:\\\\127.0.0.1:PORT\\", BLOCKED),
    ("http:127.0.0.1:PORT/", BLOCKED),
    ("http:///127.0.0.1:PORT/", BLOCKED),
    ("HTTP://127.0.0.1:0PORT/", BLOCKED),
    ("http://127.0.0.1:PORT\\@example.com/", BLOCKED),
    ("http://127.0.0.1:PORT#@example.com/", BLOCKED),
    ("http://127.0.0.1:PORT?@example.com/", BLOCKED),
    ("https://127.0.0.1:PORT/", BLOCKED),
    // other addresses of this machine, and unspecified ones
    ("http://0:PORT/", BLOCKED),
    ("http://0.0.0.0:PORT/", BLOCKED),
    ("http://0.1.2.3:PORT/", BLOCKED),
    ("http://[::]:PORT/", BLOCKED),
    ("http://[::1]:PORT/", BLOCKED),
    ("http://[0:0:0:0:0:0:0:1]:PORT/", BLOCKED),
    ("http://[::ffff:127.0.0.1]:PORT/", BLOCKED),
    ("http://[::ffff:7f00:1]:PORT/", BLOCKED),
    ("http://[0:0:0:0:0:FFFF:7F00:0001]:PORT/", BLOCKED),
    ("http://[::127.0.0.1]:PORT/", BLOCKED),
    ("http://[::ffff:0:127.0.0.1]:PORT/", BLOCKED),
    ("http://[64:ff9b::127.0.0.1]:PORT/", BLOCKED),
    ("http://[64:ff9b:1::127.0.0.1]:PORT/", BLOCKED),
    ("http://[2002:7f00:1::]:PORT/", BLOCKED),
    ("http://[2001:0:7f00:1::f7f7:f7f7]:PORT/", BLOCKED),
    ("http://[2001:0:808:808::80ff:fffe]:PORT/", BLOCKED),
    // private, metadata, link-local and other special networks
    ("http://10.0.0.1:PORT/", BLOCKED),
    ("http://172.16.0.1:PORT/", BLOCKED),
    ("http://192.168.1.1:PORT/", BLOCKED),
    ("http://100.64.0.1:PORT/", BLOCKED),
    ("http://169.254.169.254:PORT/latest/meta-data/", BLOCKED),
    ("http://2852039166:PORT/", BLOCKED),
    ("http://0xA9FEA9FE:PORT/", BLOCKED),
    ("http://[::ffff:a9fe:a9fe]:PORT/", BLOCKED),
    ("http://[fd00:ec2::254]:PORT/", BLOCKED),
    ("http://[fe80::1]:PORT/", BLOCKED),
    ("http://[fec0::1]:PORT/", BLOCKED),
    ("http://[fd12:3456::1]:PORT/", BLOCKED),
    ("http://[ff02::1]:PORT/", BLOCKED),
    ("http://[100::1]:PORT/", BLOCKED),
    ("http://[2001:db8::1]:PORT/", BLOCKED),
    ("http://[2001:20::1]:PORT/", BLOCKED),
    ("http://192.0.2.1:PORT/", BLOCKED),
    ("http://198.18.0.1:PORT/", BLOCKED),
    ("http://224.0.0.1:PORT/", BLOCKED),
    ("http://240.0.0.1:PORT/", BLOCKED),
    ("http://255.255.255.255:PORT/", BLOCKED),
    // names that resolve to such addresses
    ("http://localhost:PORT/", BLOCKED),
    ("http://LOCALHOST.:PORT/", BLOCKED),
    ("http://loopback.example:PORT/", BLOCKED),
    ("http://loopback6.example:PORT/", BLOCKED),
    ("http://mapped.example:PORT/", BLOCKED),
    ("http://translated.example:PORT/", BLOCKED),
    ("http://private.example:PORT/", BLOCKED),
    ("http://metadata.example:PORT/", BLOCKED),
    ("http://unspecified.example:PORT/", BLOCKED),
    ("http://l%6Fopback.example:PORT/", BLOCKED),
    ("http://unknown.example:PORT/", Fault::DnsFailed),
    ("http://empty.example:PORT/", Fault::DnsFailed),
    // ports, user information, schemes
    ("http://127.0.0.1:22/", BLOCKED),
    ("http://93.184.216.34:22/", BLOCKED),
    ("http://public.example:25/", BLOCKED),
    ("http://public.example/", BLOCKED),
    ("http://127.0.0.1:0/", BLOCKED),
    ("http://127.0.0.1:PORTPORT/", INVALID),
    ("http://user@127.0.0.1:PORT/", INVALID),
    ("http://user:secret@127.0.0.1:PORT/", INVALID),
    ("http://example.com@127.0.0.1:PORT/", INVALID),
    ("http://example.com:80@127.0.0.1:PORT/", INVALID),
    ("http://127.0.0.1:PORT@example.com/", INVALID),
    ("http://127.0.0.1:PORT%2F@example.com/", INVALID),
    ("http://127.0.0.1 :PORT/", INVALID),
    ("http://127.0\t.0.1:PORT/", INVALID),
    ("http://[::1%25lo]:PORT/", INVALID),
    ("http://[::1:PORT/", INVALID),
    ("http://127.0.0.256:PORT/", INVALID),
    ("http://1.2.3.4.5:PORT/", INVALID),
    ("ftp://127.0.0.1:PORT/", INVALID),
    ("gopher://127.0.0.1:PORT/_GET", INVALID),
    ("ws://127.0.0.1:PORT/", INVALID),
    ("file:///etc/passwd", INVALID),
    ("file://127.0.0.1:PORT/", INVALID),
    ("data:text/html,hello", INVALID),
    ("jar:http://127.0.0.1:PORT/", INVALID),
    ("127.0.0.1:PORT", INVALID),
    ("//127.0.0.1:PORT/", INVALID),
    ("", INVALID),
];

/// Targets of redirects that must not be followed.
const REDIRECTS: &[&str] = &[
    "http://127.0.0.2:PORT/",
    "//127.0.0.2:PORT/",
    "http://2130706434:PORT/",
    "http://0x7f.2:PORT/",
    "http://0.0.0.0:PORT/",
    "http://[::1]:PORT/",
    "http://[::ffff:127.0.0.2]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:808:808::80ff:fffe]:PORT/",
    "http://10.0.0.1:PORT/",
    "http://100.64.0.1:PORT/",
    "http://169.254.169.254:PORT/",
    "http://[fd00:ec2::254]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://224.0.0.1:PORT/",
    "http://loopback2.example:PORT/",
    "http://loopback6.example:PORT/",
    "http://user@127.0.0.1:PORT/",
    "http://127.0.0.1:22/",
    "ftp://127.0.0.1:PORT/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "http://[::1",
];

fn names() -> Names {
    Names::default()
        .with("localhost", &[&["127.0.0.1", "::1"]])
        .with("loopback.example", &[&["127.0.0.1"]])
        .with("loopback2.example", &[&["127.0.0.2"]])
        .with("loopback6.example", &[&["::1"]])
        .with("mapped.example", &[&["::ffff:127.0.0.1"]])
        .with("translated.example", &[&["64:ff9b::7f00:1", "2002:7f00:1::"]])
        .with("private.example", &[&["10.0.0.1", "192.168.0.1", "fd00::1"]])
        .with("metadata.example", &[&["169.254.169.254", "fd00:ec2::254"]])
        .with("unspecified.example", &[&["0.0.0.0", "::"]])
        .with("empty.example", &[&[]])
        .with("public.example", &[&["93.184.216.34"]])
}

#[tokio::test]
async fn hostile_addresses_are_never_connected_to() {
    let trap = Trap::set().await;
    for robots in [RobotsRule::Ignore, RobotsRule::Obey] {
        let settings = FetchSettings { ports: vec![trap.port()], robots, ..FetchSettings::default() };
        let fetcher = fetcher_with(settings, names());
        for (url, fault) in DIRECT {
            let url = url.replace("PORT", &trap.port().to_string());
            let error = fetch(&fetcher, &url).await.unwrap_err();
            assert_eq!(error.fault(), Some(*fault), "{url}: {error}");
        }
    }
    trap.assert_untouched().await;
    assert!(DIRECT.len() >= 60);
}

#[tokio::test]
async fn redirects_to_hostile_addresses_are_not_followed() {
    let trap = Trap::set().await;
    let port = trap.port().to_string();
    let site = Site::start(move |request, _| {
        let number: usize = request.target.trim_start_matches('/').parse().unwrap();
        redirect(&REDIRECTS[number].replace("PORT", &port))
    })
    .await;
    let settings = FetchSettings { ports: vec![site.port(), trap.port()], ..settings_for(&site) };
    let fetcher = fetcher_with(settings, names());
    for (number, target) in REDIRECTS.iter().enumerate() {
        let error = fetch(&fetcher, &site.url(&format!("/{number}"))).await.unwrap_err();
        assert_eq!(error.fault(), Some(BLOCKED), "{target}: {error}");
    }
    assert_eq!(site.requests().len(), REDIRECTS.len());
    trap.assert_untouched().await;
}

#[tokio::test]
async fn lists_of_private_networks_open_neither_metadata_nor_link_local_networks() {
    let trap = Trap::set().await;
    let settings = FetchSettings {
        ports: vec![trap.port()],
        allow_private: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
        robots: RobotsRule::Ignore,
        ..FetchSettings::default()
    };
    let fetcher = fetcher_with(settings, names());
    for host in [
        "169.254.169.254",
        "169.254.1.1",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "0.0.0.0",
        "[::]",
        "metadata.example",
        "unspecified.example",
    ] {
        let error = fetch(&fetcher, &format!("http://{host}:{}/", trap.port())).await.unwrap_err();
        assert_eq!(error, FetchError::BlockedAddress, "{host}");
    }
    trap.assert_untouched().await;
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_judged_at_every_connection() {
    let site = Site::start(|_, _| page("hello")).await;
    let names = Names::default().with("rebinding.example", &[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1"], &["::1"]]);
    let fetcher = fetcher_with(settings_for(&site), names.clone());
    let url = format!("http://rebinding.example:{}/", site.port());
    for (lookups, is_reached) in [(1, true), (2, false), (3, true), (4, false)] {
        let answered = fetch(&fetcher, &url).await;
        assert_eq!(answered.is_ok(), is_reached, "{lookups}");
        assert!(is_reached || answered == Err(FetchError::BlockedAddress));
        // One lookup is used for the check and the connection.
        assert_eq!(names.asked(), lookups);
    }
    let reached: Vec<String> = site.requests().iter().map(|request| request.local.to_string()).collect();
    assert_eq!(reached, ["127.0.0.1", "127.0.0.1"]);
}

#[tokio::test]
async fn of_mixed_answers_only_allowed_addresses_are_connected_to() {
    let site = Site::start(|_, _| page("hello")).await;
    let mixed: &[&str] = &["127.0.0.2", "169.254.169.254", "::1", "127.0.0.1", "10.0.0.1"];
    let fetcher = fetcher_with(settings_for(&site), Names::default().with("mixed.example", &[mixed]));
    for _ in 0..5 {
        fetch(&fetcher, &format!("http://mixed.example:{}/", site.port())).await.unwrap();
    }
    assert!(site.requests().iter().all(|request| request.local.to_string() == "127.0.0.1"));
    assert_eq!(site.connections(), 5);
}

#[tokio::test]
async fn the_machines_own_names_are_judged_too() {
    let trap = Trap::set().await;
    let settings = FetchSettings { ports: vec![trap.port()], ..FetchSettings::default() };
    let rng = domain::Rng::seeded(1);
    let system = knowledge::fetch::FetcherDependencies::system("", domain::Clock::system(), rng);
    let fetcher = knowledge::fetch::Fetcher::new(settings, system).unwrap();
    let error = fetch(&fetcher, &format!("http://localhost:{}/", trap.port())).await.unwrap_err();
    assert_eq!(error.fault(), Some(BLOCKED));
    trap.assert_untouched().await;

    let site = Site::start(|_, _| page("hello")).await;
    let system = knowledge::fetch::FetcherDependencies::system("", domain::Clock::system(), domain::Rng::seeded(1));
    let fetcher = knowledge::fetch::Fetcher::new(settings_for(&site), system).unwrap();
    fetch(&fetcher, &format!("http://localhost:{}/", site.port())).await.unwrap();
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_allowed_and_not_in_circles() {
    let site = Site::start(|request, _| match request.target.as_str() {
        "/circle/a" => redirect("b"),
        "/circle/b" => redirect("/circle/a#again"),
        "/self" => redirect(""),
        "/0" => page("arrived"),
        "/nowhere" => crate::site::answer(302, &[], ""),
        "/permanent" => crate::site::answer(308, &[("location", "0")], ""),
        "/choices" => crate::site::answer(300, &[("location", "0")], ""),
        count => redirect(&format!("/{}", count[1..].parse::<usize>().unwrap() - 1)),
    })
    .await;
    let fetcher = fetcher(settings_for(&site));
    let answered = fetch(&fetcher, &site.url("/5")).await.unwrap();
    assert_eq!((answered.requested.as_str(), answered.url.as_str()), (&*site.url("/5"), &*site.url("/0")));
    assert_eq!(fetch(&fetcher, &site.url("/6")).await, Err(FetchError::TooManyRedirects(5)));
    assert_eq!(fetch(&fetcher, &site.url("/circle/a")).await, Err(FetchError::RedirectLoop));
    assert_eq!(fetch(&fetcher, &site.url("/self")).await, Err(FetchError::RedirectLoop));
    assert_eq!(fetch(&fetcher, &site.url("/nowhere")).await, Err(FetchError::Status(302)));
    assert_eq!(fetch(&fetcher, &site.url("/choices")).await, Err(FetchError::Status(300)));
    assert_eq!(fetch(&fetcher, &site.url("/permanent")).await.unwrap().url.as_str(), site.url("/0"));
}

#[tokio::test]
async fn nothing_goes_along_to_the_next_address() {
    let site = Site::start(|request, _| match request.target.as_str() {
        "/" => crate::site::answer(302, &[("location", "/next"), ("set-cookie", "a=b; Path=/")], ""),
        _ => page("hello"),
    })
    .await;
    fetch(&fetcher(settings_for(&site)), &site.url("/")).await.unwrap();
    let agent = concat!("attache/", env!("CARGO_PKG_VERSION"), " (+https://attache.example.com)");
    assert_eq!(site.targets(), ["/", "/next"]);
    for request in site.requests() {
        assert_eq!(request.header("user-agent"), agent);
        assert_eq!(request.header("accept-encoding"), "gzip");
        assert_eq!(request.header("host"), site.address.to_string());
        for absent in ["cookie", "referer", "authorization", "x-forwarded-for"] {
            assert_eq!(request.header(absent), "", "{absent}");
        }
    }
}

/// The test runs itself in a new process with the variables, because changing the environment of a running process is
/// unsafe.
#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    const INNER: &str = "ATTACHE_TEST_BEHIND_PROXY";
    let site = Site::start(|_, _| page("hello")).await;
    if std::env::var_os(INNER).is_some() {
        let names = Names::default().with("public.example", &[&["127.0.0.1"]]);
        let fetcher = fetcher_with(settings_for(&site), names);
        fetch(&fetcher, &site.url("/")).await.unwrap();
        fetch(&fetcher, &format!("http://public.example:{}/", site.port())).await.unwrap();
        return;
    }
    let trap = Trap::set().await;
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "hostile::proxies_of_the_environment_are_ignored"]).env(INNER, "1");
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        again.env(name, format!("http://127.0.0.1:{}", trap.port()));
    }
    let output = again.env_remove("no_proxy").env_remove("NO_PROXY").output().await.unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
    trap.assert_untouched().await;
}
