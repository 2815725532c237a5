//! What web servers allow robots (RFC 9309), asked for once in a while.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use texting_robots::Robot;
use tokio::time::Instant;

/// The name under which we look for our own rules.
pub const PRODUCT: &str = "attache";

/// Bytes of a `robots.txt` that are read (RFC 9309, section 2.5).
pub const BYTES_MAX: usize = 500 * 1024;

/// Origins that are remembered.
const ORIGINS_KEPT: usize = 1024;

/// The longest pause between two requests that a web server may ask for.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// The rules of one origin.
#[derive(Clone)]
pub enum Rules {
    /// There are none.
    Everything,
    /// It could not say: nothing, for now (section 2.3.1.4).
    Nothing,
    /// What it wrote.
    Written(Arc<Robot>),
}

impl Rules {
    /// The rules in a `robots.txt`.
    pub fn read(text: &[u8]) -> Self {
        Robot::new(PRODUCT, text).map_or(Self::Everything, |robot| Self::Written(Arc::new(robot)))
    }

    /// Whether an address may be fetched.
    pub fn allow(&self, url: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Nothing => false,
            Self::Written(robot) => robot.allowed(url),
        }
    }

    /// The pause that the web server asks for between two requests.
    pub fn delay(&self) -> Duration {
        match self {
            Self::Written(robot) => {
                robot.delay.map_or(Duration::ZERO, |seconds| Duration::try_from_secs_f32(seconds).unwrap_or(DELAY_MAX))
            }
            Self::Everything | Self::Nothing => Duration::ZERO,
        }
        .min(DELAY_MAX)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everything => "Everything",
            Self::Nothing => "Nothing",
            Self::Written(_) => "Written",
        })
    }
}

/// The rules of the origins that were asked lately.
#[derive(Debug, Default)]
pub struct RobotsCache {
    origins: Mutex<HashMap<String, (Instant, Rules)>>,
}

impl RobotsCache {
    /// What an origin said, if that is still believed.
    pub fn get(&self, origin: &str) -> Option<Rules> {
        let origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        origins.get(origin).filter(|(until, _)| *until > Instant::now()).map(|(_, rules)| rules.clone())
    }

    /// Remembers what an origin said.
    pub fn put(&self, origin: String, rules: Rules, believed_for: Duration) {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if origins.len() >= ORIGINS_KEPT {
            origins.retain(|_, (until, _)| *until > now);
        }
        if origins.len() >= ORIGINS_KEPT
            && let Some(oldest) = origins.iter().min_by_key(|(_, (until, _))| *until).map(|(origin, _)| origin.clone())
        {
            origins.remove(&oldest);
        }
        origins.insert(origin, (now + believed_for, rules));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_for_us_before_those_for_everybody() {
        let rules =
            Rules::read(b"User-agent: *\nDisallow: /\n\nUser-agent: attache\nDisallow: /private\nCrawl-delay: 100");
        assert!(rules.allow("http://example.com/a") && !rules.allow("http://example.com/private/b"));
        assert_eq!(rules.delay(), DELAY_MAX);
        assert!(!Rules::Nothing.allow("http://example.com/") && Rules::Everything.allow("http://example.com/"));
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_origins_are_remembered_for_so_long() {
        let cache = RobotsCache::default();
        for nth in 0..2 * ORIGINS_KEPT as u64 {
            cache.put(format!("http://{nth}.example"), Rules::Everything, Duration::from_secs(60 + nth));
        }
        assert_eq!(cache.origins.lock().unwrap().len(), ORIGINS_KEPT);
        assert!(cache.get("http://0.example").is_none(), "the oldest went first");
        assert!(cache.get("http://2000.example").is_some());
        tokio::time::advance(Duration::from_secs(60 + 2000)).await;
        assert!(cache.get("http://2000.example").is_none(), "nothing is believed for ever");
    }
}
