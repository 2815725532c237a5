//! Checks of every request head before admission: RFC 9112, sections 3.2 (`Host`) and 6.1 (`Transfer-Encoding`), and the encodings of the
//! body.
//!
//! In one point that this module cannot see, hyper is less strict: it accepts a bare LF as the end of a line, which section 2.2 allows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::Version;
use axum::http::header::{CONTENT_ENCODING, HOST, TRANSFER_ENCODING};

use super::error::{ApiError, Code};

/// Checks the head of a request; an error is the response of a refused request.
pub fn judge(request: &Request) -> Result<(), ApiError> {
    host(request)?;
    transfer_encoding(request)?;
    let encodings = request.headers().get_all(CONTENT_ENCODING).iter();
    let mut encodings = encodings.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    if encodings.all(|encoding| encoding.trim_ascii().eq_ignore_ascii_case(b"identity")) {
        Ok(())
    } else {
        Err(Code::UnsupportedContentEncoding.into())
    }
}

/// `Transfer-Encoding` must be absent or `chunked`. RFC 9112, section 6.1, forbids to send `chunked` twice, and a proxy may parse such a
/// body differently than hyper.
fn transfer_encoding(request: &Request) -> Result<(), ApiError> {
    let mut sent = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (sent.next(), sent.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), None) => Err(ApiError::invalid("Transfer-Encoding", "must be chunked")),
        (Some(_), Some(_)) => Err(ApiError::invalid("Transfer-Encoding", "must not be sent twice")),
    }
}

/// The host of a request; an error unless there is exactly one valid host. HTTP/1.0 permits none.
pub fn host(request: &Request) -> Result<Option<&str>, ApiError> {
    let mut sent = request.headers().get_all(HOST).iter();
    let refuse = |why: &str| Err(ApiError::invalid("Host", why));
    match (sent.next(), sent.next()) {
        (None, _) if request.version() == Version::HTTP_10 => Ok(None),
        (None, _) => refuse("is required"),
        (Some(_), Some(_)) => refuse("must not be sent twice"),
        (Some(host), None) => match host.to_str() {
            Ok(host) if host.bytes().all(is_of_a_host) => Ok(Some(host)),
            _ => refuse("must be a host, with a port or without"),
        },
    }
}

/// RFC 3986, section 3.2.2: bytes allowed in a host and its port.
fn is_of_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

/// A host without its port.
pub fn without_port(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host);
    }
    host.split(':').next().unwrap_or(host)
}

/// The IP address, if the host is one and no name.
pub fn as_address(host: &str) -> Option<IpAddr> {
    if let Some(v6) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    host.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

/// Whether a host can only be this computer: the reserved name `localhost` (RFC 6761, section 6.3), or a loopback address.
pub fn is_loopback(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || as_address(host).is_some_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(version: Version, headers: &[(&str, &str)]) -> Request {
        let builder = Request::builder().version(version);
        let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        builder.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_request_names_one_host() {
        let code = |version: Version, hosts: &[&str]| {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            judge(&request(version, &headers)).map_err(|error| error.code())
        };
        let good: [&[&str]; 4] = [&["a.example"], &["127.0.0.1:8080"], &["[::1]:8080"], &[""]];
        for hosts in good {
            assert_eq!(code(Version::HTTP_11, hosts), Ok(()), "{hosts:?}");
        }
        let bad: [&[&str]; 5] = [&[], &["a", "a"], &["a b"], &["user@a"], &["a/b"]];
        for hosts in bad {
            assert_eq!(code(Version::HTTP_11, hosts), Err(Code::InvalidRequest), "{hosts:?}");
        }
        assert_eq!(code(Version::HTTP_10, &[]), Ok(()));
        assert_eq!(code(Version::HTTP_10, &["a", "b"]), Err(Code::InvalidRequest));
    }

    #[test]
    fn all_encodings_are_judged() {
        let code = |lines: &[&str]| {
            let encodings = lines.iter().map(|line| ("content-encoding", *line));
            let headers: Vec<_> = encodings.chain([("host", "a")]).collect();
            judge(&request(Version::HTTP_11, &headers)).map_err(|error| error.code())
        };
        for good in [&[][..], &["identity"], &["Identity", "identity"], &["identity, identity"]] {
            assert_eq!(code(good), Ok(()), "{good:?}");
        }
        for bad in [&["gzip"][..], &["identity", "gzip"], &["identity, br"], &["identity,"], &[""]] {
            assert_eq!(code(bad), Err(Code::UnsupportedContentEncoding), "{bad:?}");
        }
    }

    #[test]
    fn bodies_are_chunked_once() {
        let code = |lines: &[&str]| {
            let encodings = lines.iter().map(|line| ("transfer-encoding", *line));
            let headers: Vec<_> = encodings.chain([("host", "a")]).collect();
            judge(&request(Version::HTTP_11, &headers)).map_err(|error| error.code())
        };
        for good in [&[][..], &["chunked"], &["Chunked "]] {
            assert_eq!(code(good), Ok(()), "{good:?}");
        }
        for bad in [&["chunked", "chunked"][..], &["chunked, chunked"], &["gzip, chunked"], &["identity", "chunked"]] {
            assert_eq!(code(bad), Err(Code::InvalidRequest), "{bad:?}");
        }
    }

    #[test]
    fn this_machine_has_few_names() {
        for own in ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.1",
            "[2001:db8::1]",
            "::1",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
        for (host, name) in [("a:80", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("127.0.0.1", "127.0.0.1")] {
            assert_eq!(without_port(host), name);
        }
    }
}
