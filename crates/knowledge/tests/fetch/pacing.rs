//! Order and concurrency of requests per host. The lengths of delays are tested with paused time in the unit tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use knowledge::fetch::{FetchSettings, RobotsRule};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::site::{Names, Site, Step, answer, page};
use crate::{account, fetch, fetcher, fetcher_with, settings_for};

#[tokio::test]
async fn a_host_gets_one_request_at_a_time_in_the_order_of_asking() {
    let site = Site::start(|_, _| [vec![Step::Rest], page("hello")].into_iter().flatten().collect()).await;
    let fetcher = fetcher(settings_for(&site));
    let urls: Vec<String> = (0..20).map(|number| site.url(&format!("/{number}"))).collect();
    let answered = join_all(urls.iter().map(|url| fetch(&fetcher, url))).await;
    assert!(answered.iter().all(Result::is_ok));
    assert_eq!(site.busiest(), 1);
    assert_eq!(site.targets(), (0..20).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

/// Long enough to detect an unexpected request.
const MOMENT: Duration = Duration::from_millis(300);
/// Timeout of an expected request.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// Whether a second page of the site is requested within this time after the first.
async fn asks_for_two_pages(settings: FetchSettings, site: &Site, within: Duration) -> bool {
    let pages = || site.targets().iter().filter(|target| *target != "/robots.txt").count();
    let baseline = pages();
    let fetcher = fetcher(settings);
    let (first, second) = (site.url("/first"), site.url("/second"));
    let both = async { tokio::join!(fetch(&fetcher, &first), fetch(&fetcher, &second)) };
    let over = async {
        while pages() == baseline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(within).await;
    };
    tokio::select! {
        _ = both => {}
        () = over => {}
    }
    pages() == baseline + 2
}

#[tokio::test]
async fn between_two_pages_of_a_host_there_is_the_pause_that_is_configured() {
    let site = Site::start(|_, _| page("hello")).await;
    let paused = FetchSettings { host_interval: Duration::from_mins(10), ..settings_for(&site) };
    assert!(!asks_for_two_pages(paused, &site, MOMENT).await);
    assert!(asks_for_two_pages(settings_for(&site), &site, TIME_LIMIT).await);
}

#[tokio::test]
async fn between_two_pages_of_a_host_there_is_the_pause_that_its_robots_txt_asks_for() {
    let site = Site::start(|request, _| match request.target.as_str() {
        "/robots.txt" => answer(200, &[], "User-agent: *\nCrawl-delay: 600\n"),
        _ => page("hello"),
    })
    .await;
    let obeying = |crawl_delay_max| FetchSettings { robots: RobotsRule::Obey, crawl_delay_max, ..settings_for(&site) };
    assert!(!asks_for_two_pages(obeying(Duration::from_mins(10)), &site, MOMENT).await);
    assert!(asks_for_two_pages(obeying(Duration::ZERO), &site, TIME_LIMIT).await);
}

#[tokio::test]
async fn a_pause_that_a_host_asked_for_holds_all_of_its_pages() {
    let site = Site::start(|request, _| match request.target.as_str() {
        "/first" => answer(429, &[("retry-after", "600")], ""),
        _ => page("hello"),
    })
    .await;
    let patient = FetchSettings { retry_after_max: Duration::from_mins(10), ..settings_for(&site) };
    assert!(!asks_for_two_pages(patient, &site, MOMENT).await);
    assert_eq!(site.targets(), ["/first"]);
    let impatient = settings_for(&site);
    assert!(asks_for_two_pages(impatient, &site, TIME_LIMIT).await);
}

/// A site that responds only when `together` requests are pending.
async fn sociable(together: usize) -> Site {
    let barrier = Arc::new(Barrier::new(together));
    Site::start(move |_, _| {
        let mut steps = vec![Step::Meet(Arc::clone(&barrier))];
        steps.extend(page("hello"));
        steps
    })
    .await
}

fn hosts(count: usize) -> (Names, Vec<String>) {
    let hosts: Vec<String> = (0..count).map(|number| format!("host-{number}.example")).collect();
    let names = hosts.iter().fold(Names::default(), |names, host| names.with(host, &[&["127.0.0.1"]]));
    (names, hosts)
}

#[tokio::test]
async fn hosts_do_not_wait_for_one_another() {
    let site = sociable(8).await;
    let (names, hosts) = hosts(8);
    let settings = FetchSettings { host_interval: Duration::from_hours(1), ..settings_for(&site) };
    let fetcher = fetcher_with(settings, names);
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{}/", site.port())).collect();
    assert!(join_all(urls.iter().map(|url| fetch(&fetcher, url))).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn all_hosts_together_get_no_more_than_the_limit() {
    let site = sociable(3).await;
    let (names, hosts) = hosts(9);
    let fetcher = fetcher_with(FetchSettings { in_flight_max: 3, ..settings_for(&site) }, names);
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{}/", site.port())).collect();
    assert!(join_all(urls.iter().map(|url| fetch(&fetcher, url))).await.iter().all(Result::is_ok));
    assert_eq!(site.busiest(), 3);
}

#[tokio::test]
async fn silent_hosts_of_greedy_accounts_leave_a_place_to_another() {
    let site =
        Site::start(|request, _| if request.target == "/silent" { vec![Step::Hang] } else { page("hello") }).await;
    let (names, hosts) = hosts(37);
    let settings = FetchSettings {
        in_flight_max: 4,
        in_flight_per_account_max: 2,
        in_flight_slow_max: 2,
        slow_after: Duration::from_millis(50),
        stall_timeout: Duration::from_millis(300),
        retries_max: 0,
        ..settings_for(&site)
    };
    let fetcher = Arc::new(fetcher_with(settings, names));
    let (completed, mut greedy) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for (nth, host) in hosts.iter().take(36).enumerate() {
        let (fetcher, completed) = (Arc::clone(&fetcher), Arc::clone(&completed));
        let url = format!("http://{host}:{}/silent", site.port()).parse().unwrap();
        greedy.spawn(async move {
            assert!(fetcher.fetch(&account(["eve", "mallory", "trudy"][nth % 3]), &url).await.is_err());
            completed.fetch_add(1, Ordering::Relaxed);
        });
    }
    // All three accounts have had slow turns.
    while completed.load(Ordering::Relaxed) < 6 {
        tokio::task::yield_now().await;
    }
    let baseline = completed.load(Ordering::Relaxed);
    let url = format!("http://{}:{}/", hosts[36], site.port()).parse().unwrap();
    fetcher.fetch(&account("ada"), &url).await.unwrap();
    let turns = completed.load(Ordering::Relaxed) - baseline;
    // In one common queue it would wait for the 28 requests that have not started.
    assert!(turns <= 12, "a page waited for {turns} requests of others");
    greedy.abort_all();
}
