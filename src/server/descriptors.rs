//! File descriptors: every connection, file and pipe uses one, and the system limits their number for each process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use app::config::HttpSettings as Settings;

/// Raises the limit of this process to the system's maximum. Many systems start with 1,024, for programs that use `select`.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(
            error = domain::reasons(&error),
            ?current,
            ?maximum,
            "the limit of file descriptors cannot be raised (RLIMIT_NOFILE)"
        );
    }
}

/// Public connections for which there are descriptors, of the `connections_max` that are configured.
pub fn connections(settings: &Settings) -> usize {
    within(settings, getrlimit(Resource::Nofile).current)
}

/// A warning with a remedy if the descriptor limit is too low for the configured connections; `None` if it fits. `attache serve` raises
/// the soft limit, so the hard limit counts.
pub fn warning(settings: &Settings) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).maximum;
    let (connections, wanted) = (within(settings, limit), settings.connections_max);
    (connections < wanted).then(|| {
        format!(
            "http.connections_max is {wanted}, but {} file descriptors are enough for {connections} connections: raise the hard limit \
             (ulimit -Hn, LimitNOFILE= in systemd) to {} or lower http.connections_max",
            limit.unwrap_or_default(),
            wanted as u64 + settings.descriptors_reserved,
        )
    })
}

/// Connections within a limit of descriptors; `None` is no limit.
fn within(settings: &Settings, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return settings.connections_max };
    // With a very low limit, half of the descriptors.
    let left = limit.saturating_sub(settings.descriptors_reserved).max(limit / 2).max(1);
    settings.connections_max.min(usize::try_from(left).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_everything_else() {
        let settings = Settings { connections_max: 1000, descriptors_reserved: 500, ..Settings::default() };
        for (limit, connections) in
            [(None, 1000), (Some(2000), 1000), (Some(1500), 1000), (Some(1400), 900), (Some(256), 128), (Some(0), 1)]
        {
            assert_eq!(within(&settings, limit), connections, "{limit:?}");
        }
    }
}
