//! URLs of web pages, from people and from redirects (`docs/decisions/0021-memories.md` and
//! `docs/decisions/0025-from-url-to-text.md`).
//!
//! One parser, defined by the URL standard, reads a URL for every later step, so that the checked address is the
//! requested one. It normalises every notation of an IPv4 address (decimal, octal, hexadecimal, short, full-width).

use std::fmt;
use std::str::FromStr;

use url::{Host, Position, Url};

/// Maximum length of a URL, in bytes.
pub const URL_BYTES_MAX: usize = 2048;

/// The URL of a web page: http or https, with a host, without user information, fragment, or dots after the host.
///
/// Whether its host and port are allowed is checked by the fetcher.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WebUrl(Url);

/// A text that is not the URL of a web page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebUrl {
    /// Longer than [`URL_BYTES_MAX`].
    #[error("the address has more than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Not a URL, or with control characters.
    #[error("this is not a web address")]
    NotAUrl,
    /// A scheme other than http and https.
    #[error("the address must begin with http:// or https://")]
    Scheme,
    /// A URL with user information.
    #[error("the address must not contain a user name or password")]
    UserInfo,
}

impl FromStr for WebUrl {
    type Err = InvalidWebUrl;

    fn from_str(text: &str) -> Result<Self, InvalidWebUrl> {
        let text = text.trim();
        measure(text)?;
        Url::parse(text).map_err(|_| InvalidWebUrl::NotAUrl).and_then(Self::new)
    }
}

impl WebUrl {
    /// Resolves a `Location` header of the response to this URL.
    pub fn join(&self, location: &str) -> Result<Self, InvalidWebUrl> {
        let location = location.trim();
        measure(location)?;
        self.0.join(location).map_err(|_| InvalidWebUrl::NotAUrl).and_then(Self::new)
    }

    fn new(mut url: Url) -> Result<Self, InvalidWebUrl> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidWebUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidWebUrl::UserInfo);
        }
        let host = url.host_str().ok_or(InvalidWebUrl::NotAUrl)?;
        let bare = host.trim_end_matches('.');
        if bare.len() != host.len() {
            // Parsed again, because the host without its dots can be an IPv4 address.
            let bare = bare.to_owned();
            url.set_host(Some(&bare)).map_err(|_| InvalidWebUrl::NotAUrl)?;
        }
        url.set_fragment(None);
        measure(url.as_str())?;
        Ok(Self(url))
    }

    /// The URL as requested.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The parsed URL, for the HTTP client.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// The host: a name in lower case and Punycode, or a literal address.
    pub fn host_str(&self) -> &str {
        // The constructor rejects a URL without a host.
        self.0.host_str().unwrap_or_default()
    }

    /// The host as a name or an address.
    pub fn host(&self) -> Option<Host<&str>> {
        self.0.host()
    }

    /// The port, also if it is the default of the scheme.
    pub fn port(&self) -> u16 {
        // Both schemes that the constructor accepts have a default port.
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Scheme, host and port: the scope of a `robots.txt`.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// The form by which duplicates are found: host in lower case, no default port, no fragment, no `utm_…` parameter.
    pub fn canonical(&self) -> CanonicalUrl {
        let is_campaign = |pair: &&str| {
            let name = url::form_urlencoded::parse(pair.as_bytes()).next();
            name.is_some_and(|(name, _)| name.to_ascii_lowercase().starts_with("utm_"))
        };
        let Some(query) = self.0.query() else { return CanonicalUrl(self.as_str().to_owned()) };
        if !query.split('&').any(|pair| is_campaign(&pair)) {
            return CanonicalUrl(self.as_str().to_owned());
        }
        let pairs: Vec<&str> = query.split('&').filter(|pair| !is_campaign(pair)).collect();
        let path = &self.0[..Position::AfterPath];
        CanonicalUrl(if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) })
    }
}

/// Limits the length and rejects control characters before the text is parsed.
fn measure(text: &str) -> Result<(), InvalidWebUrl> {
    if text.len() > URL_BYTES_MAX {
        return Err(InvalidWebUrl::TooLong);
    }
    // The standard drops tabs and line feeds silently, even inside a host.
    if text.chars().any(char::is_control) { Err(InvalidWebUrl::NotAUrl) } else { Ok(()) }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebUrl({self})")
    }
}

/// A URL in the form by which duplicates are found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CanonicalUrl(String);

impl CanonicalUrl {
    /// The canonical text, for rows and responses.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<WebUrl>().unwrap().canonical().to_string()
    }

    #[test]
    fn what_differs_only_in_writing_has_one_canonical_form() {
        for (written, expected) in [
            ("HTTP://Example.COM", "http://example.com/"),
            (" https://example.com:443/a#top ", "https://example.com/a"),
            ("https://example.com./a", "https://example.com/a"),
            ("http://example.com:8080/", "http://example.com:8080/"),
            ("https://example.com/?utm_source=x", "https://example.com/"),
            ("https://example.com/?a=1&UTM_Medium=x&b=%20+&utm%5Fterm=y&&c", "https://example.com/?a=1&b=%20+&&c"),
            ("https://example.com/?q=utm_source&b=&a", "https://example.com/?q=utm_source&b=&a"),
            ("https://example.com/?", "https://example.com/?"),
            ("https://Bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://127.0.0.1../", "http://127.0.0.1/"),
            ("http://[::FFFF:1.2.3.4]/", "http://[::ffff:102:304]/"),
            ("https://example.com/a/../b/./c", "https://example.com/b/c"),
            ("https://example.com/A?B=c%2f", "https://example.com/A?B=c%2f"),
        ] {
            assert_eq!(canonical(written), expected, "{written}");
        }
    }

    #[test]
    fn an_invalid_web_address_says_why() {
        let long = format!("https://example.com/{}", "a".repeat(URL_BYTES_MAX));
        let grows = format!("https://example.com/{}", "ä".repeat(900));
        for (text, why) in [
            ("", InvalidWebUrl::NotAUrl),
            ("example.com", InvalidWebUrl::NotAUrl),
            ("http://", InvalidWebUrl::NotAUrl),
            ("http://.../", InvalidWebUrl::NotAUrl),
            ("http://exa\nmple.com/", InvalidWebUrl::NotAUrl),
            ("http://a b/", InvalidWebUrl::NotAUrl),
            ("http://[fe80::1%25eth0]/", InvalidWebUrl::NotAUrl),
            ("http://256.256.256.256/", InvalidWebUrl::NotAUrl),
            ("ftp://example.com/", InvalidWebUrl::Scheme),
            ("file:///etc/passwd", InvalidWebUrl::Scheme),
            ("javascript:alert(1)", InvalidWebUrl::Scheme),
            ("http://me@example.com/", InvalidWebUrl::UserInfo),
            ("http://:secret@example.com/", InvalidWebUrl::UserInfo),
            ("http://example.com:80@127.0.0.1/", InvalidWebUrl::UserInfo),
            (&long, InvalidWebUrl::TooLong),
            (&grows, InvalidWebUrl::TooLong),
        ] {
            assert_eq!(text.parse::<WebUrl>(), Err(why), "{text}");
        }
    }

    #[test]
    fn a_location_is_relative_to_where_it_was_answered() {
        let here: WebUrl = "https://example.com/a/b?c".parse().unwrap();
        for (location, expected) in [
            ("d", "https://example.com/a/d"),
            ("/d#e", "https://example.com/d"),
            ("?f", "https://example.com/a/b?f"),
            ("//other.example", "https://other.example/"),
            ("http://other.example/", "http://other.example/"),
        ] {
            assert_eq!(here.join(location).unwrap().as_str(), expected);
        }
        assert_eq!(here.join("gopher://example.com/"), Err(InvalidWebUrl::Scheme));
        assert_eq!(here.join("//me@example.com/"), Err(InvalidWebUrl::UserInfo));
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_its_own_canonical_form(rest in "[a-z0-9/?&=#%_.:@ä-]{0,60}") {
            if let Ok(url) = format!("https://example.com/{rest}").parse::<WebUrl>() {
                let once = url.canonical();
                let again: WebUrl = once.as_str().parse().unwrap();
                prop_assert_eq!(again.canonical(), once);
            }
        }

        /// The connector recognises literal addresses in the host, so they must be the ones that were checked.
        #[test]
        fn a_host_that_reads_like_an_address_is_one(host in "(0x)?[0-9a-f]{0,3}(\\.(0x|0)?[0-9]{0,3}){0,4}\\.{0,2}") {
            if let Ok(url) = format!("http://{host}/").parse::<WebUrl>() {
                let is_literal = url.host_str().parse::<std::net::IpAddr>().is_ok();
                prop_assert_eq!(is_literal, matches!(url.host(), Some(Host::Ipv4(_))));
            }
        }

        #[test]
        fn no_text_breaks_the_parser(text in "\\PC{0,80}") {
            let _ = text.parse::<WebUrl>();
            let _ = format!("http://{text}").parse::<WebUrl>().map(|url| url.canonical());
        }
    }
}
