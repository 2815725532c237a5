//! Addresses of pages, as they are fetched and as they are compared.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// Bytes of an address.
const URL_BYTES_MAX: usize = 2048;

/// An address of the web: http or https, with a host, without user name and password. Its text is the canonical form, in which two
/// addresses of one page are equal: host in lower case and without a dot at the end, no default port, no fragment, no `utm_*` parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebUrl(Url);

/// A text that is no address that we fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAWebUrl {
    /// It is too long.
    #[error("an address has at most {URL_BYTES_MAX} bytes")]
    TooLong,
    /// It is no absolute address.
    #[error("this is no address: write it with its scheme, as in https://example.com/")]
    Malformed,
    /// Another scheme.
    #[error("only http and https are fetched")]
    Scheme,
    /// It carries a name or a password.
    #[error("an address must not carry a user name or a password")]
    Credentials,
}

impl WebUrl {
    /// The address.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// The host's name or address.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The port, written or not.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// The address that the host is, if it is no name.
    pub fn literal(&self) -> Option<IpAddr> {
        match self.0.host()? {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
        }
    }

    /// Where a `Location` leads from here.
    pub fn join(&self, location: &str) -> Result<Self, NotAWebUrl> {
        self.0.join(location).map_err(|_| NotAWebUrl::Malformed).and_then(Self::checked)
    }

    fn checked(mut url: Url) -> Result<Self, NotAWebUrl> {
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(NotAWebUrl::TooLong);
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NotAWebUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NotAWebUrl::Credentials);
        }
        let host = url.host_str().ok_or(NotAWebUrl::Malformed)?;
        if let Some(plain) = host.strip_suffix('.') {
            let plain = plain.to_owned();
            url.set_host(Some(&plain)).map_err(|_| NotAWebUrl::Malformed)?;
        }
        if url.host_str().is_none_or(|host| host.is_empty() || host.ends_with('.')) {
            return Err(NotAWebUrl::Malformed);
        }
        url.set_fragment(None);
        let is_tracking = |pair: &str| pair.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("utm_"));
        if let Some(query) = url.query()
            && query.split('&').any(is_tracking)
        {
            let kept: Vec<&str> = query.split('&').filter(|pair| !is_tracking(pair)).collect();
            let kept = kept.join("&");
            url.set_query((!kept.is_empty()).then_some(kept.as_str()));
        }
        Ok(Self(url))
    }
}

impl FromStr for WebUrl {
    type Err = NotAWebUrl;

    fn from_str(text: &str) -> Result<Self, NotAWebUrl> {
        if text.len() > URL_BYTES_MAX {
            return Err(NotAWebUrl::TooLong);
        }
        Url::parse(text.trim()).map_err(|_| NotAWebUrl::Malformed).and_then(Self::checked)
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_page_are_equal() {
        for (written, canonical) in [
            ("HTTP://Example.COM:80/a?utm_source=x&b=1&UTM_medium=y#part", "http://example.com/a?b=1"),
            ("https://example.com.", "https://example.com/"),
            ("https://example.com:443/?utm_source=x", "https://example.com/"),
            (" https://example.com/a%20b ", "https://example.com/a%20b"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("http://example.com:8080/?b=2&a=1&a=1", "http://example.com:8080/?b=2&a=1&a=1"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
        ] {
            assert_eq!(written.parse::<WebUrl>().unwrap().as_str(), canonical, "{written}");
            assert_eq!(canonical.parse::<WebUrl>().unwrap().as_str(), canonical);
        }
    }

    #[test]
    fn what_is_no_address_of_the_web_is_told_apart() {
        for (written, why) in [
            ("example.com", NotAWebUrl::Malformed),
            ("", NotAWebUrl::Malformed),
            ("https://", NotAWebUrl::Malformed),
            ("https://./", NotAWebUrl::Malformed),
            ("ftp://example.com/", NotAWebUrl::Scheme),
            ("file:///etc/passwd", NotAWebUrl::Scheme),
            ("javascript:alert(1)", NotAWebUrl::Scheme),
            ("https://user@example.com/", NotAWebUrl::Credentials),
            ("https://:secret@example.com/", NotAWebUrl::Credentials),
        ] {
            assert_eq!(written.parse::<WebUrl>(), Err(why), "{written}");
        }
        let long = format!("https://example.com/{}", "a".repeat(URL_BYTES_MAX));
        assert_eq!(long.parse::<WebUrl>(), Err(NotAWebUrl::TooLong));
    }
}
