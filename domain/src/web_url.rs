//! Addresses of web pages, as people paste them and as servers redirect to them (`docs/decisions/0041-duplicates.md` and `docs/decisions/0042-fetching-rules.md`).
//!
//! One parser, the URL standard's, reads an address for everything that follows: what is judged is what is fetched. The standard turns
//! every way of writing an IPv4 address (decimal, octal, hexadecimal, short, full-width) into the usual one, so nobody below has to.

use std::fmt;
use std::str::FromStr;

use url::{Host, Position, Url};

/// No longer address is fetched, in bytes.
pub const URL_BYTES_MAX: usize = 2048;

/// The address of a web page: http or https, a host, no user name or password; without fragment and without dots after the host.
///
/// Whether its port and its host may be connected to is not decided here.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WebUrl(Url);

/// A text that is no address of a web page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebUrl {
    /// Longer than [`URL_BYTES_MAX`].
    #[error("the address has more than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Not a URL, or one with control characters.
    #[error("this is not a web address")]
    NotAUrl,
    /// Neither http nor https.
    #[error("the address must begin with http:// or https://")]
    Scheme,
    /// A user name or a password.
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
    /// Where a `Location` in the answer to this address leads.
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
            // Parsed once more: without its dots the host may be an IPv4 address.
            let bare = bare.to_owned();
            url.set_host(Some(&bare)).map_err(|_| InvalidWebUrl::NotAUrl)?;
        }
        url.set_fragment(None);
        measure(url.as_str())?;
        Ok(Self(url))
    }

    /// The address as it is requested.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The address for the library that requests it.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// The host as it is written: a name in lower case and Punycode, or a literal address.
    pub fn host_str(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The host, names and literal addresses told apart.
    pub fn host(&self) -> Option<Host<&str>> {
        self.0.host()
    }

    /// The port, also when it is the scheme's own.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Scheme, host and port: what one `robots.txt` is for.
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
        let kept: Vec<&str> = query.split('&').filter(|pair| !is_campaign(pair)).collect();
        let path = &self.0[..Position::AfterPath];
        CanonicalUrl(if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) })
    }
}

/// Names and lengths of addresses are bounded before anything is made of them.
fn measure(text: &str) -> Result<(), InvalidWebUrl> {
    if text.len() > URL_BYTES_MAX {
        return Err(InvalidWebUrl::TooLong);
    }
    // The standard drops tabs and line ends silently, from the middle of a host too.
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

/// An address in the form by which duplicates are found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CanonicalUrl(String);

impl CanonicalUrl {
    /// The text, for rows and answers.
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
    fn what_is_not_a_web_address_says_why() {
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
        for (location, there) in [
            ("d", "https://example.com/a/d"),
            ("/d#e", "https://example.com/d"),
            ("?f", "https://example.com/a/b?f"),
            ("//other.example", "https://other.example/"),
            ("http://other.example/", "http://other.example/"),
        ] {
            assert_eq!(here.join(location).unwrap().as_str(), there);
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

        /// Who connects looks for literal addresses in the text of the host: they must be the ones that are judged as such.
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
