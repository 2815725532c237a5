//! A failed attempt, and whether the same request may be sent again.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::FetchError;
use super::resolver::ResolveError;

/// Why an attempt failed, and whether another one may help.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: FetchError,
    pub(super) again: Again,
}

/// When the same request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It would fail again.
    Never,
    /// After a pause of our choice.
    Soon,
    /// After the pause that the host asked for, of everybody.
    AfterPause(Duration),
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self { error, again: Again::Never }
    }
}

impl From<&reqwest::Error> for Failure {
    fn from(error: &reqwest::Error) -> Self {
        let found = causes(error).find_map(|cause| {
            if let Some(refusal) = cause.downcast_ref::<ResolveError>() {
                return Some(match refusal {
                    ResolveError::Unknown => FetchError::NameNotFound,
                    ResolveError::Blocked => FetchError::BlockedAddress,
                });
            }
            if cause.is::<rustls::Error>() {
                return Some(FetchError::Untrusted);
            }
            let fault = cause.downcast_ref::<hyper::Error>()?;
            if fault.is_parse_too_large() {
                Some(FetchError::HeadTooLarge)
            } else {
                fault.is_parse().then_some(FetchError::NotHttp)
            }
        });
        if let Some(error) = found {
            error.into()
        } else if error.is_timeout() {
            FetchError::TooSlow.into()
        } else if error.is_builder() {
            FetchError::Unsendable.into()
        } else {
            Self { error: FetchError::NoConnection, again: Again::Soon }
        }
    }
}

/// An error and what caused it. What an `io::Error` wraps is not its source but itself, so it is looked into.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source())
    })
}
