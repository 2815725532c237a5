//! The redirects of one fetch.

use domain::web_url::WebUrl;

use super::FetchError;

/// The visited URLs in order, and the current one.
#[derive(Debug)]
pub(super) struct RedirectChain {
    visited: Vec<WebUrl>,
    here: WebUrl,
    redirects_max: usize,
}

impl RedirectChain {
    pub(super) fn new(start: WebUrl, redirects_max: usize) -> Self {
        Self { visited: Vec::new(), here: start, redirects_max }
    }

    pub(super) fn here(&self) -> &WebUrl {
        &self.here
    }

    /// Follows a `Location`. Only the URL is carried over: no cookies, referrer or credentials.
    pub(super) fn follow(&mut self, location: &str) -> Result<(), FetchError> {
        let next = self.here.join(location).map_err(|_| FetchError::BlockedRedirect)?;
        if self.here.is_https() && !next.is_https() {
            return Err(FetchError::Downgrade);
        }
        if next == self.here || self.visited.contains(&next) {
            return Err(FetchError::RedirectLoop);
        }
        if self.visited.len() >= self.redirects_max {
            return Err(FetchError::TooManyRedirects(self.redirects_max));
        }
        self.visited.push(std::mem::replace(&mut self.here, next));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(start: &str, locations: &[&str]) -> Result<String, FetchError> {
        let mut trail = RedirectChain::new(start.parse().unwrap(), 2);
        locations.iter().try_for_each(|location| trail.follow(location))?;
        Ok(trail.here().to_string())
    }

    #[test]
    fn redirects_are_followed_within_bounds() {
        let start = "http://example.com/a";
        assert_eq!(follow(start, &["b", "https://example.com/c"]).unwrap(), "https://example.com/c");
        assert_eq!(follow(start, &["b", "c", "d"]), Err(FetchError::TooManyRedirects(2)));
        assert_eq!(follow(start, &["b", "a#again"]), Err(FetchError::RedirectLoop));
        assert_eq!(follow(start, &["#here"]), Err(FetchError::RedirectLoop));
        assert_eq!(follow("https://example.com/", &["http://example.com/"]), Err(FetchError::Downgrade));
        for location in ["file:///etc/passwd", "http://me:secret@example.com/", "http://", "gopher://x/", "http://[::1"]
        {
            assert_eq!(follow(start, &[location]), Err(FetchError::BlockedRedirect), "{location}");
        }
    }
}
