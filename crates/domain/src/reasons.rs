//! An error with its causes, on one line.

use std::error::Error;

/// The message of an error followed by its causes. Leaves out a cause that the text already contains, because some
/// libraries repeat the cause in their own message.
pub fn reasons(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn every_cause_is_named_once() {
        let disk = Layer("disk full", None);
        let driver = Layer("driver: disk full", Some(Box::new(disk)));
        let store = Layer("cannot write a row", Some(Box::new(driver)));
        assert_eq!(reasons(&store), "cannot write a row: driver: disk full");
    }
}
