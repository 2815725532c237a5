//! Errors as one line of text.

use std::any::Any;
use std::error::Error;

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
