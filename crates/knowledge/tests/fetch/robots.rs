//! `robots.txt`: fetched once, obeyed, and not a way around the address rules.

use std::time::Duration;

use domain::item::Fault;
use futures_util::future::join_all;
use knowledge::fetch::{FetchError, FetchSettings, RobotsRule};

use crate::site::{Request, Site, Step, Trap, answer, head, page, redirect};
use crate::{fetch, fetcher, settings_for};

/// A site with this `robots.txt`, and a page at every other path.
async fn site(robots: impl Fn(&Request, usize) -> Vec<Step> + Send + Sync + 'static) -> Site {
    Site::start(
        move |request, count| {
            if request.target == "/robots.txt" { robots(request, count) } else { page("hello") }
        },
    )
    .await
}

fn obedient(site: &Site) -> FetchSettings {
    FetchSettings { robots: RobotsRule::Obey, ..settings_for(site) }
}

#[tokio::test]
async fn what_robots_txt_forbids_is_not_asked_for() {
    let text = "User-agent: *\nDisallow: /\n\nUser-agent: ATTACHE\nDisallow: /private\nAllow: /private/open\n";
    let site = site(move |_, _| answer(200, &[("content-type", "text/plain")], text)).await;
    let obeying = fetcher(obedient(&site));
    assert_eq!(fetch(&obeying, &site.url("/private/page")).await, Err(FetchError::RobotsDisallowed));
    assert_eq!(FetchError::RobotsDisallowed.fault(), None);
    fetch(&obeying, &site.url("/private/open")).await.unwrap();
    fetch(&obeying, &site.url("/page")).await.unwrap();
    assert_eq!(site.targets(), ["/robots.txt", "/private/open", "/page"]);

    fetch(&fetcher(settings_for(&site)), &site.url("/private/page")).await.unwrap();
    assert_eq!(site.targets()[3..], ["/private/page"]);
}

#[tokio::test]
async fn many_pages_of_a_site_ask_for_its_robots_txt_once() {
    let site = site(|_, _| answer(200, &[], "User-agent: *\nCrawl-delay: 0.001\nDisallow: /no\n")).await;
    let fetcher = fetcher(obedient(&site));
    let urls: Vec<String> = (0..10).map(|number| site.url(&format!("/{number}"))).collect();
    assert!(join_all(urls.iter().map(|url| fetch(&fetcher, url))).await.iter().all(Result::is_ok));
    assert_eq!(site.targets().iter().filter(|target| *target == "/robots.txt").count(), 1);
    assert_eq!((site.targets().len(), site.busiest()), (11, 1));
}

#[tokio::test]
async fn a_silent_site_costs_all_pages_of_a_batch_one_request() {
    let site = site(|_, _| vec![Step::Hang]).await;
    let fetcher = fetcher(FetchSettings { robots_timeout: Duration::from_millis(100), ..obedient(&site) });
    let urls: Vec<String> = (0..10).map(|number| site.url(&format!("/{number}"))).collect();
    let answered = join_all(urls.iter().map(|url| fetch(&fetcher, url))).await;
    assert!(answered.iter().all(|page| matches!(page, Err(FetchError::RobotsUnreachable(_)))), "{answered:?}");
    assert_eq!(site.targets(), ["/robots.txt"]);
}

#[tokio::test]
async fn robots_txt_is_requested_again_after_it_expires() {
    let site =
        site(|_, count| if count == 0 { answer(404, &[], "") } else { answer(200, &[], "User-agent: *\nDisallow: /") })
            .await;
    let fetcher = fetcher(FetchSettings { robots_cached_for: Duration::ZERO, ..obedient(&site) });
    fetch(&fetcher, &site.url("/a")).await.unwrap();
    assert_eq!(fetch(&fetcher, &site.url("/a")).await, Err(FetchError::RobotsDisallowed));
}

#[tokio::test]
async fn a_missing_robots_txt_forbids_nothing_and_an_unreadable_one_everything() {
    for (status, expected) in [
        (200, None),
        (204, None),
        (401, None),
        (403, None),
        (404, None),
        (410, None),
        (429, Some(Fault::RateLimitedByHost)),
        (500, Some(Fault::Http(500))),
        (503, Some(Fault::Http(503))),
    ] {
        let site = site(move |_, _| answer(status, &[], "")).await;
        let answered = fetch(&fetcher(obedient(&site)), &site.url("/page")).await;
        assert_eq!(answered.as_ref().err().and_then(FetchError::fault), expected, "{status}: {answered:?}");
        assert_eq!(site.targets().contains(&"/page".to_owned()), expected.is_none(), "{status}");
    }
    let site = site(|_, count| if count < 2 { answer(500, &[], "") } else { answer(404, &[], "") }).await;
    fetch(&fetcher(obedient(&site)), &site.url("/page")).await.unwrap();
}

#[tokio::test]
async fn a_site_whose_robots_txt_failed_is_left_alone_for_a_while() {
    let site = site(|_, _| answer(500, &[], "")).await;
    let fetcher = fetcher(FetchSettings { retries_max: 0, ..obedient(&site) });
    for _ in 0..3 {
        let error = fetch(&fetcher, &site.url("/page")).await.unwrap_err();
        assert_eq!(error, FetchError::RobotsUnreachable(Box::new(FetchError::Status(500))));
        assert!(error.to_string().contains("robots.txt"), "{error}");
    }
    assert_eq!(site.targets(), ["/robots.txt"]);
}

#[tokio::test]
async fn robots_txt_is_fetched_with_the_same_defences() {
    let trap = Trap::set().await;
    let port = trap.port();
    let hostile = site(move |_, _| redirect(&format!("http://127.0.0.2:{port}/robots.txt"))).await;
    let settings = FetchSettings { ports: vec![hostile.port(), port], ..obedient(&hostile) };
    let error = fetch(&fetcher(settings), &hostile.url("/page")).await.unwrap_err();
    assert_eq!(error, FetchError::RobotsUnreachable(Box::new(FetchError::BlockedAddress)));
    assert_eq!(hostile.targets(), ["/robots.txt"]);
    trap.assert_untouched().await;

    let slow = site(|_, _| vec![Step::Send(head(200, &[])), Step::Drip(b"#".to_vec())]).await;
    let settings = FetchSettings { robots_timeout: Duration::from_millis(200), ..obedient(&slow) };
    let error = fetch(&fetcher(settings), &slow.url("/page")).await.unwrap_err();
    assert_eq!(error, FetchError::RobotsUnreachable(Box::new(FetchError::TooSlow)));

    let circle = site(|_, _| redirect("/robots.txt")).await;
    fetch(&fetcher(obedient(&circle)), &circle.url("/page")).await.unwrap();
}

#[tokio::test]
async fn of_a_huge_robots_txt_the_beginning_counts() {
    let endless = site(|_, _| {
        let start = [head(200, &[]), b"User-agent: *\nDisallow: /no\n".to_vec()].concat();
        vec![Step::Send(start), Step::Flood(b"# and so on\n".repeat(1000))]
    })
    .await;
    let fetching = fetcher(obedient(&endless));
    assert_eq!(fetch(&fetching, &endless.url("/no")).await, Err(FetchError::RobotsDisallowed));
    fetch(&fetching, &endless.url("/yes")).await.unwrap();

    let late =
        site(|_, _| answer(200, &[], format!("User-agent: *\n{}Disallow: /late\n", "# and so on\n".repeat(50_000))))
            .await;
    fetch(&fetcher(obedient(&late)), &late.url("/late")).await.unwrap();
}

#[tokio::test]
async fn where_a_redirect_leads_robots_txt_is_asked_too() {
    let site = Site::start(|request, _| match request.target.as_str() {
        "/robots.txt" => answer(200, &[], "User-agent: *\nDisallow: /no"),
        "/yes" => redirect("/no"),
        _ => page("hello"),
    })
    .await;
    assert_eq!(fetch(&fetcher(obedient(&site)), &site.url("/yes")).await, Err(FetchError::RobotsDisallowed));
    assert_eq!(site.targets(), ["/robots.txt", "/yes"]);
}
