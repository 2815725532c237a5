//! Errors as one line of text.

use std::any::Any;
use std::error::Error;
use std::sync::OnceLock;

/// The error and its chain of sources, separated by `: `. A source is left out if the line already contains its
/// text.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked").to_owned()
}

static REQUESTS: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// Sets how the id of the request is found that the current task or span belongs to. Records of crashes then name it.
pub fn name_requests(current: fn() -> Option<String>) {
    // Only the first one has an effect.
    let _ = REQUESTS.set(current);
}

/// The id of the request that the current task or span belongs to.
pub fn current_request() -> Option<String> {
    REQUESTS.get().and_then(|current| current())
}
