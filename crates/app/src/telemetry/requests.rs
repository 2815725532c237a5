//! Counts answered requests by route, method and status.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use dashmap::DashMap;
use metrics::{Counter, Histogram};

/// The metrics of answered requests. Their handles are cached for each route, method and status, so that counting a request
/// allocates nothing. The number of routes is small: the route table and "unmatched".
#[derive(Debug, Default)]
pub struct Requests {
    routes: DashMap<Box<str>, Arc<RouteCounts>>,
}

/// Maximum number of cached combinations of method and status per route; others are looked up by their labels each time.
const KEPT_MAX: usize = 24;

/// The metrics of one route.
#[derive(Debug)]
pub struct RouteCounts {
    route: Box<str>,
    seconds: Histogram,
    /// Filled from the front, and never emptied.
    answered: [OnceLock<Answered>; KEPT_MAX],
}

#[derive(Debug)]
struct Answered {
    method: &'static str,
    status: StatusCode,
    count: Counter,
}

impl Requests {
    /// The metrics of a route. Metric handles are taken here: install the metrics recorder first.
    pub fn of(&self, route: &str) -> Arc<RouteCounts> {
        if let Some(counts) = self.routes.get(route) {
            return Arc::clone(&counts);
        }
        Arc::clone(&self.routes.entry(route.into()).or_insert_with(|| Arc::new(RouteCounts::new(route))))
    }
}

impl RouteCounts {
    fn new(route: &str) -> Self {
        let seconds = metrics::histogram!("attache_http_request_seconds", "route" => route.to_owned());
        Self { route: route.into(), seconds, answered: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// The path of the route in the route table.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// Counts one request that was answered.
    pub fn answered(&self, method: &Method, status: StatusCode, took: Duration) {
        self.seconds.record(took.as_secs_f64());
        let method = word(method);
        for place in &self.answered {
            let answered = place.get_or_init(|| Answered { method, status, count: self.counter(method, status) });
            if answered.method == method && answered.status == status {
                return answered.count.increment(1);
            }
        }
        self.counter(method, status).increment(1);
    }

    fn counter(&self, method: &'static str, status: StatusCode) -> Counter {
        let labels =
            [("method", method.to_owned()), ("route", self.route.to_string()), ("status", status.as_str().to_owned())];
        metrics::counter!("attache_http_requests_total", &labels)
    }
}

fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry;

    /// Resident memory of this process, in bytes.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn a_million_requests_without_a_scrape_take_no_memory() {
        telemetry::begin_counting();
        let requests = Requests::default();
        let answer = || {
            for status in [StatusCode::OK, StatusCode::ACCEPTED] {
                requests.of("/leak").answered(&Method::POST, status, Duration::from_millis(3));
            }
        };
        answer();
        let baseline = resident();
        for _ in 0..500_000 {
            answer();
        }
        let grown = resident().saturating_sub(baseline);
        // Storing a value of 24 bytes for each request would take 24 MB.
        assert!(grown < 6_000_000, "{grown} bytes");
        let text = telemetry::metrics_text();
        for line in [
            r#"attache_http_requests_total{method="POST",route="/leak",status="200"} 500001"#,
            r#"attache_http_requests_total{method="POST",route="/leak",status="202"} 500001"#,
            r#"attache_http_request_seconds_bucket{route="/leak",le="0.0025"} 0"#,
            r#"attache_http_request_seconds_bucket{route="/leak",le="0.005"} 1000002"#,
            r#"attache_http_request_seconds_count{route="/leak"} 1000002"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
    #[test]
    fn every_status_of_a_route_is_counted_however_many_there_are() {
        telemetry::begin_counting();
        let counts = Requests::default().of("/many");
        let statuses = || (200..).take(KEPT_MAX + 3).map(|code| StatusCode::from_u16(code).unwrap());
        for status in statuses().chain(statuses()) {
            counts.answered(&Method::GET, status, Duration::ZERO);
        }
        let text = telemetry::metrics_text();
        for status in statuses() {
            let line = format!(
                "attache_http_requests_total{{method=\"GET\",route=\"/many\",status=\"{}\"}} 2",
                status.as_u16()
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}
